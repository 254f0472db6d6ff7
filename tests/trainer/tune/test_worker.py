"""Processes that time a batch size: the limit of memory comes first, and failures are answers."""

import pytest

from trainer.compare import results
from trainer.tune import memory, worker


@pytest.mark.parametrize(("limit", "limits"), [(None, []), (2**30, [2**30])])
def test_the_limit_is_set_before_the_training(monkeypatch, limit, limits):
  events = []
  monkeypatch.setattr(memory, "end_beyond", events.append)
  monkeypatch.setattr(worker, "_measure", lambda request: events.append("train"))
  worker.answer({"limit_bytes": limit})
  assert events == [*limits, "train"]


def test_a_failure_is_an_answer(monkeypatch):
  monkeypatch.setattr(worker, "_measure", lambda request: [][0])
  found = worker.answer({"limit_bytes": None})
  assert found == {"status": results.FAILED, "problem": "IndexError: list index out of range"}
