"""The record of a run in its tracker."""

import pytest

from trainer import errors
from trainer.tracking import record


def test_a_record_comes_back(tmp_path):
  path = record.path(str(tmp_path), "mlflow")
  made = record.Record(path, server="http://h", project="größe", run="7", saved=20)
  made.sent["eval_test"] = 10
  made.write()
  assert record.read(str(tmp_path), "mlflow") == made
  assert record.read(str(tmp_path), "wandb") is None


def test_each_run_has_its_own_name(tmp_path):
  path = record.path(str(tmp_path), "mlflow")
  first, second = record.Record(path), record.Record(path)
  assert first.id != second.id
  first.sent["train"] = 1
  assert second.sent == {}


@pytest.mark.parametrize(
  "text", ["", "{", "[]", '{"id": "a"}', '{"id": 1, "server": "", "project": "", "run": ""}']
)
def test_a_damaged_record_is_told_with_the_remedy(tmp_path, text):
  (tmp_path / "mlflow.json").write_text(text)
  with pytest.raises(errors.FileDamagedError, match=r"mlflow\.json.*remove it"):
    record.read(str(tmp_path), "mlflow")
