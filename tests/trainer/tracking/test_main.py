"""`trainer.tracking`: sends each named run, and tells which one it could not send."""

import pytest

from tests.trainer import mains
from trainer import errors
from trainer.tracking import later, trackers


@pytest.fixture
def run(monkeypatch):
  """Runs the command; returns the runs that it sent."""
  sent = []

  def send(model_dir, uri):
    if model_dir == "broken":
      raise trackers.UnreachableError("connection refused")
    if model_dir == "refused":
      raise trackers.RefusedError("no such experiment")
    sent.append((model_dir, uri))
    return f"MLflow at {uri or 'home'}"

  monkeypatch.setattr(later, "send", send)

  def run(*arguments, flags=()):
    with mains.loaded("trainer.tracking.main", *flags) as main:
      main.main(["tracking", *arguments])
    return sent

  return run


def test_each_run_is_sent_and_told(run, capsys):
  assert run("a", "b", flags=["--tracking_uri=http://h"]) == [("a", "http://h"), ("b", "http://h")]
  assert (
    capsys.readouterr().out == "a: MLflow at http://h has all.\nb: MLflow at http://h has all.\n"
  )


def test_without_a_folder_there_is_an_example(run):
  with pytest.raises(errors.SettingError, match="No folder of a run. Try"):
    run()


@pytest.mark.parametrize(
  ("name", "why"), [("broken", "connection refused"), ("refused", "no such experiment")]
)
def test_a_run_that_is_not_sent_is_named(run, name, why):
  with pytest.raises(errors.OutputError, match=f"Cannot send {name}: {why}.*--tracking_uri"):
    run("a", name, "b")
