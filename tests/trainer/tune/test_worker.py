"""Processes that time a batch size: the limit of memory comes first, and failures are answers."""

import pytest

from trainer.compare import results
from trainer.tune import memory, worker


@pytest.fixture(autouse=True)
def events(monkeypatch):
  """The limits that are set, in place of the watch over this process."""
  found = []
  monkeypatch.setattr(memory, "end_beyond", found.append)
  return found


def test_the_limit_is_set_before_the_training(monkeypatch, events):
  monkeypatch.setattr(worker, "_measure", lambda request: events.append("train"))
  worker.answer({"limit_bytes": 2**30})
  assert events == [2**30, "train"]


def test_a_failure_is_an_answer(monkeypatch):
  monkeypatch.setattr(worker, "_measure", lambda request: [][0])
  found = worker.answer({"limit_bytes": 2**30})
  assert found == {"status": results.FAILED, "problem": "IndexError: list index out of range"}
