"""The report of a run: the same on one core and on eight, in all places, and what it refuses."""

import functools
import json

import numpy as np
import pytest
import tensorflow as tf
from sklearn import metrics
from tensorboard.backend.event_processing import plugin_event_accumulator

import trainer
from input_pipelines import digits, tabular
from models import digits_mlp, tabular_mlp
from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.plot import curves, run_report
from trainer.reporting import evaluation_reports

Report = trainer.EvaluationReport
MODEL_FN = functools.partial(digits_mlp.model_fn, hidden_units=(32,))


def digits_input(split):
  return lambda params: digits.input_fn(params, split=split, training=split == "train")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
  """A run of the digits with a report, and its model_dir."""
  model_dir = tmp_path_factory.mktemp("runs") / "digits"
  programs.run_experiment(
    model_fn=MODEL_FN,
    train_input_fn=digits_input("train"),
    eval_input_fn=digits_input("test"),
    train_steps=60,
    train_batch_size=32,
    eval_batch_size=64,
    exporters=[],
    class_names=digits.CLASS_NAMES,
    evaluation_report=Report(resamples=50, worst=5),
    model_dir=str(model_dir),
    device="cpu",
  )
  return model_dir


@long.ON_TWO_CORES
def test_figures_are_those_of_scikit_learn_on_any_device(trained, device):
  estimator = trainer.Estimator(
    MODEL_FN,
    str(trained),
    trainer.RunConfig(device=device),
    train_batch_size=32,
    eval_batch_size=64,
  )
  pairs = list(estimator.predict(digits_input("test"), with_examples=True))
  predicted = [prediction["class"] for prediction, _ in pairs]
  labels = [example[1] for _, example in pairs]
  found = Report(resamples=50).write(estimator, digits_input("test"), step=60, name=device)
  assert found["examples"] == 360
  assert found["metrics"]["accuracy"]["value"] == pytest.approx(
    metrics.accuracy_score(labels, predicted)
  )
  assert found["confusions"]["counts"] == metrics.confusion_matrix(labels, predicted).tolist()
  (of_run,) = [each for each in evaluation_reports.newest(trained) if not each["evaluation"]]
  assert found["confusions"]["counts"] == of_run["confusions"]["counts"]
  assert found["features"] == of_run["features"]
  for name, value in found["metrics"].items():
    assert value == pytest.approx(of_run["metrics"][name], rel=1e-4), name


def test_the_last_evaluation_has_a_report_in_all_its_places(trained):
  (report,) = [each for each in evaluation_reports.newest(trained) if not each["evaluation"]]
  assert report["step"] == 60
  stem = trained / "evaluation_reports" / "eval-60"
  for row in report["worst"]:
    assert set(row) == {"example", "label", "predicted", "probability", "of the label"}
  assert len(report["worst"]) == 5
  assert stem.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
  assert len(evaluation_reports.observed(trained, "", 60)["label"]) == 360

  reader = plugin_event_accumulator.EventAccumulator(str(trained / "eval"))
  tags = reader.Reload().Tags()["tensors"]
  assert {"report/ece", "report/accuracy"} <= set(tags)

  page = run_report.page(str(trained), curves.collect([str(trained)]))
  sentence, matrix = page.index(report["sentence"]), page.index('aria-label="confusion matrix"')
  assert sentence < matrix
  assert "Worst examples" in page


def test_a_report_of_each_evaluation_and_of_slices(tmp_path):
  def input_fn(params):
    x, y = programs.arrays(30)
    places = np.array([b"low", b"high", b"high"] * 10)
    return tf.data.Dataset.from_tensor_slices(
      ({"x": x, "place": places, "size": x[:, 0]}, y)
    ).batch(params["batch_size"])

  programs.run_experiment(
    model_fn=programs.line,
    train_input_fn=lambda params: input_fn(params).unbatch().repeat().batch(8, drop_remainder=True),
    eval_input_fn=input_fn,
    train_steps=4,
    train_batch_size=8,
    eval_batch_size=8,
    exporters=[],
    evaluation_report=Report(
      every_evaluation=True, slices=["place", "size"], prediction="y", resamples=20
    ),
    model_dir=str(tmp_path),
    device="cpu",
  )
  report = evaluation_reports.newest(tmp_path)[0]
  assert report["kind"] == "numbers"
  places = {part["value"]: part["examples"] for part in report["slices"]["place"]}
  assert places == {"high": 20, "low": 10}
  assert sum(part["examples"] for part in report["slices"]["size"]) == 30
  observed = evaluation_reports.observed(tmp_path, "", 4)
  errors_ = np.abs(observed["predicted"] - observed["label"])
  (high,) = [part for part in report["slices"]["place"] if part["value"] == "high"]
  assert high["mae"]["value"] == pytest.approx(errors_[np.arange(30) % 3 > 0].mean())
  assert (
    0 in evaluation_reports.steps_of(tmp_path)[""] or 4 in evaluation_reports.steps_of(tmp_path)[""]
  )
  assert "By place" in run_report.page(str(tmp_path), curves.collect([str(tmp_path)]))


@pytest.mark.parametrize(
  "report, message",
  [
    (Report(), "predicts first, y: name the number"),
    (Report(prediction="z"), "name the number"),
    (Report(prediction="y", slices=["city"]), "slices has 'city', and the features have x"),
    (Report(prediction="y", slices=["x"]), "its shape for an example is"),
  ],
)
def test_what_a_report_lacks_is_told_before_anything_is_written(tmp_path, report, message):
  with pytest.raises(errors.SettingError, match=message):
    programs.run_experiment(
      model_fn=programs.line,
      train_input_fn=programs.train_input,
      eval_input_fn=programs.examples(11),
      train_steps=4,
      train_batch_size=8,
      eval_batch_size=8,
      evaluation_report=report,
      model_dir=str(tmp_path / "run"),
      device="cpu",
    )
  assert not (tmp_path / "run").exists()


def test_settings_of_a_report_are_checked():
  with pytest.raises(errors.SettingError, match=r"EvaluationReport.confidence is 95"):
    Report(confidence=95)
  with pytest.raises(errors.SettingError, match=r"EvaluationReport.slices is 'country'"):
    Report(slices="country")


def test_a_damaged_report_is_told(tmp_path):
  folder = tmp_path / "evaluation_reports"
  folder.mkdir()
  (folder / "eval-3.json").write_text(json.dumps({"step": 3}))
  with pytest.raises(errors.FileDamagedError, match="evaluate again"):
    evaluation_reports.newest(str(tmp_path))


def test_a_table_has_slices_rows_and_gaps(tmp_path):
  train, test = tmp_path / "train.csv", tmp_path / "test.csv"
  rows = [f"{age},{job},{int(age > 40)}" for age in (20, 30, 50, 60) for job in ("cook", "smith")]
  train.write_text("\n".join(["age,job,won", *rows]))
  test.write_text("\n".join(["age,job,won", "20,cook,1", "50, cook,1", ",baker,0", "60,,1"]))
  schema = {"age": "number", "job": "category", "won": "label"}

  def input_fn(params, path, training=False):
    return tabular.input_fn(params, str(path), str(train), schema, training=training)

  programs.run_experiment(
    model_fn=functools.partial(tabular_mlp.model_fn, classes=2, vocabulary_sizes=(3,)),
    train_input_fn=functools.partial(input_fn, path=train, training=True),
    eval_input_fn=functools.partial(input_fn, path=test),
    train_steps=50,
    train_batch_size=8,
    eval_batch_size=4,
    evaluation_report=Report(
      slices=["job", "age"], resamples=20, worst=2, class_names=("no", "yes")
    ),
    model_dir=str(tmp_path / "run"),
    device="cpu",
  )
  (report,) = evaluation_reports.newest(tmp_path / "run")
  parts = {part["value"]: part["examples"] for part in report["slices"]["job"]}
  assert parts == {"baker": 1, "cook": 2, "missing": 1}
  assert {part["value"] for part in report["slices"]["age"]} == {"20", "50", "60", "missing"}
  worst = report["worst"][0]
  assert list(worst)[:2] == ["example", "label"]
  lines = [(20, "cook"), (50, "cook"), (None, "baker"), (60, None)]
  assert (worst["age"], worst["job"]) == lines[worst["example"]]
  assert report["gaps"]["job"] == {"unknown": 0.25, "missing": 0.25, "missing in training": 0.0}
  assert "job 25.0% unknown" in report["notes"][-1]
  (card,) = (tmp_path / "run" / "export").glob("*/MODEL_CARD.md")
  assert "| job | 25.00% | 25.00% | 0.00% |" in card.read_text()
