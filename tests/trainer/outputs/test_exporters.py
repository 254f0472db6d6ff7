"""What is exported, when, and that a restart does not forget what was the best."""

import math
import os
import shutil

import pytest
import tensorflow as tf

from tests.trainer import programs
from trainer import EvalSpec, TrainSpec, errors, train_and_evaluate
from trainer.outputs import exported_records, exporters


class Recorder:
  """Stands in for an Estimator that exports."""

  def __init__(self):
    self.exported = []

  def export_saved_model(self, base, receiver_fn=None, assets_extra=None, checkpoint_path=None):
    path = os.path.join(base, str(1000 + len(self.exported)))
    os.makedirs(os.path.join(path, "assets.extra"))
    for name, source in (assets_extra or {}).items():
      shutil.copy(source, os.path.join(path, "assets.extra", name))
    with open(os.path.join(path, "saved_model.pb"), "w") as file:
      file.write("A stand-in.")
    self.exported.append(checkpoint_path)
    return path


def told(exporter, folder, values, final_at=None, metric="loss"):
  """The steps that an exporter exports of evaluations with these values, at steps 10, 20, ..."""
  recorder = Recorder()
  for index, value in enumerate(values):
    step = 10 * (index + 1)
    exporter.export(
      recorder,
      str(folder),
      f"ckpt-{step}",
      {metric: value, "global_step": step, "table": object()},
      step == final_at,
    )
  return [int(path.removeprefix("ckpt-")) for path in recorder.exported]


def test_the_newest_each_time(tmp_path):
  assert told(exporters.LatestExporter(), tmp_path, [3, 2, 4]) == [10, 20, 30]


def test_the_final_one_and_only_when_it_is_owed(tmp_path):
  final = exporters.FinalExporter()
  assert told(final, tmp_path, [3, 2, 4], final_at=30) == [30]
  assert told(final, tmp_path, [3, 2, 4], final_at=30) == []  # the same command again
  assert told(final, tmp_path / "other", [3, 2, 4, 1], final_at=40) == [40]


@pytest.mark.parametrize(
  "mode, values, steps",
  [
    ("min", [3.0, 2.0, 2.0, 4.0, float("nan"), 1.0], [10, 20, 60]),
    ("max", [0.5, 0.4, 0.6, 0.6, 0.7], [10, 30, 50]),
    ("min", [float("nan"), 5.0], [20]),
  ],
)
def test_the_best(mode, values, steps, tmp_path):
  assert told(exporters.BestExporter("m", mode), tmp_path, values, metric="m") == steps


@pytest.mark.parametrize("mode", ["min", "max"])
def test_another_metric_that_was_nan_is_no_best(mode, tmp_path):
  recorder = Recorder()
  for metric, auc in (("loss", math.nan), ("auc", math.nan), ("auc", 0.5)):
    result = {"loss": 1.0, "auc": auc, "global_step": 10}
    exporters.BestExporter(metric, mode).export(recorder, str(tmp_path), metric, result, False)
  assert recorder.exported == ["loss", "auc"]


def test_a_restart_knows_the_best(tmp_path):
  assert told(exporters.BestExporter(), tmp_path, [3.0, 1.0]) == [10, 20]
  assert told(exporters.BestExporter(), tmp_path, [2.0, 1.0, 1.5]) == []
  # Another folder knows nothing of it.
  assert told(exporters.BestExporter(), tmp_path / "..", [2.0])


def test_old_exports_are_removed(tmp_path):
  told(exporters.LatestExporter(exports_to_keep=2), tmp_path, [4, 3, 2, 1])
  assert sorted(path.name for path in tmp_path.iterdir()) == ["1002", "1003"]
  assert exporters.newest(str(tmp_path)) == str(tmp_path / "1003")
  assert exporters.newest(str(tmp_path / "nothing")) is None


def test_a_metric_that_no_evaluation_gives_is_said_at_the_first(tmp_path):
  with pytest.raises(
    errors.SettingError,
    match=r"BestExporter.metric is 'auc'; the evaluation "
    r"gives loss\.",
  ):
    told(exporters.BestExporter("auc"), tmp_path, [1.0])


@pytest.mark.parametrize(
  "make, message",
  [
    (lambda: exporters.BestExporter(mode="lowest"), "BestExporter.mode is 'lowest'"),
    (
      lambda: exporters.LatestExporter(exports_to_keep=0),
      "LatestExporter.exports_to_keep is .*; expected an int greater than 0",
    ),
  ],
)
def test_values_that_cannot_work(make, message):
  with pytest.raises(errors.SettingError, match=message):
    make()


@pytest.mark.parametrize(
  "text",
  [
    "{",
    "[]",
    '{"folder": "1"}',
    '{"folder": 1, "metrics": {"global_step": 1}}',
    '{"folder": "1", "metrics": {"loss": 1.0}}',
    '{"folder": "1", "metrics": {"loss": "low", "global_step": 1}}',
  ],
)
def test_a_damaged_record_is_named(text, tmp_path):
  (tmp_path / "exported.json").write_text(text)  # as version 0.1.0 has it
  with pytest.raises(errors.FileDamagedError, match="exported.json is damaged"):
    told(exporters.LatestExporter(), tmp_path, [1.0])


def test_a_record_with_another_digit_is_damaged(tmp_path):
  told(exporters.BestExporter(), tmp_path, [0.9722])
  path = tmp_path / "1000" / "assets.extra" / "exported.json"
  path.write_text(path.read_text().replace("0.9722", "0.9723"))
  with pytest.raises(errors.FileDamagedError, match=r"exported\.json is damaged \(.*checksum"):
    told(exporters.BestExporter(), tmp_path, [0.5])


class Noting:
  """An exporter of a user's own."""

  name = "noting"

  def __init__(self):
    self.calls = []

  def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
    self.calls.append(
      (
        os.path.basename(export_path),
        os.path.basename(checkpoint_path),
        eval_result["global_step"],
        is_the_final_export,
      )
    )


def test_exporters_get_each_evaluation_and_the_last_is_marked(tmp_path):
  noting = Noting()
  spec = EvalSpec(
    programs.examples(11), exporters=[noting, exporters.LatestExporter(), exporters.FinalExporter()]
  )
  train_and_evaluate(
    programs.estimator(tmp_path, save_checkpoints_steps=10),
    TrainSpec(programs.train_input, max_steps=22),
    spec,
  )
  assert noting.calls == [
    ("noting", "model.ckpt-10", 10, False),
    ("noting", "model.ckpt-20", 20, False),
    ("noting", "model.ckpt-22", 22, False),
    ("noting", "model.ckpt-22", 22, True),
  ]
  record = exported_records.read(str(tmp_path / "export" / "latest"))
  assert record["metrics"]["global_step"] == 22
  assert len(list((tmp_path / "export" / "latest").glob("[0-9]*"))) == 3
  model = tf.saved_model.load(exporters.newest(str(tmp_path / "export" / "final")))
  x, _ = programs.arrays(2)
  assert model.signatures["serving_default"](x=tf.constant(x))["y"].shape == (2,)


def test_complete_training_makes_only_the_missing_exports(tmp_path):
  def again(*wanted):
    train_and_evaluate(
      programs.estimator(tmp_path, save_checkpoints_steps=10),
      TrainSpec(programs.train_input, max_steps=20),
      EvalSpec(programs.examples(11), exporters=wanted),
    )
    return (
      sorted(path.parent.name for path in (tmp_path / "export").glob("*/[0-9]*"))
      if (tmp_path / "export").exists()
      else []
    )

  assert again() == []
  assert again(exporters.FinalExporter()) == ["final"]
  assert again(exporters.FinalExporter(), exporters.BestExporter()) == ["best", "final"]


def test_no_exporter_writes_outside_of_the_export_path():
  mine = type("Mine", (exporters.LatestExporter,), {})()
  mine.name = "../x"
  with pytest.raises(errors.SettingError, match=r"The name of Mine is '\.\./x'; expected a name"):
    exporters.check_outputs([(mine, "the EvalSpec")])


@pytest.mark.parametrize("given", [3, "best", None, type("Mine", (), {"name": "x"})()])
def test_what_is_no_exporter_is_told(given):
  with pytest.raises(
    errors.SettingError, match="the EvalSpec has .* among its exporters: expected"
  ):
    exporters.check_outputs([(given, "the EvalSpec")])


def test_exporter_class_without_parentheses_is_refused_early():
  with pytest.raises(errors.SettingError, match=r"x has the class BestExporter.*@BestExporter\(\)"):
    exporters.check_outputs([(exporters.BestExporter, "x")])
