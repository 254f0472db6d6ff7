"""The model card of an export says what the run's files say, and what nobody has said yet."""

import re

import pytest

import trainer
from tests.trainer import programs
from trainer import errors
from trainer.outputs import description, model_card
from trainer.reporting import environment, evaluation_reports, metrics_file

SIZES = {"parameters": 9610, "trainable": 9600, "variables": 6, "bytes": 38440, "files": 91234}


def described(**about):
  return description.describe(
    {"serving_default": {"inputs": {"x": {"dtype": "float32", "shape": [None, 3]}}, "outputs": {}}},
    {"model": "digits.model_fn", "sizes": SIZES, **about},
    ["cat", "dog"],
    [],
  )


def section(text, heading):
  return re.search(rf"^## {heading}\n\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1].strip()


def test_metrics_have_their_intervals():
  report = {
    "examples": 1360,
    "features": "ab12",
    "confidence": 0.9,
    "metrics": {
      "accuracy": {"value": 0.98, "low": 0.97, "high": 0.99},
      "ece": {"value": None, "low": None, "high": None},
    },
    "sentence": "The only confusion: cat taken for dog (2 of 5).",
    "notes": ["The class owl has no example."],
  }
  text = model_card.text(described(report=report, metrics={"accuracy": 0.98, "a|b": 1.0}))
  metrics = section(text, "Metrics")
  assert metrics.startswith("On 1,360 examples of the evaluation set, with intervals of 90%")
  assert "| accuracy | 0.98 | 0.97 | 0.99 |\n| ece | not defined | not defined |" in metrics
  assert "cat taken for dog (2 of 5).\n\nThe class owl has no example." in metrics
  assert r"| a\|b | 1 |" in metrics  # a line would end the cell
  assert "Evaluated on 1,360 examples; SHA-256 of their features: `ab12`" in text


def test_what_is_not_known_is_said():
  text = model_card.text(described())
  assert section(text, "Metrics") == "The run did not evaluate this checkpoint."
  assert "without a record of their training" in section(text, "Training")
  assert section(text, "Limits").startswith("*Not filled in. Expected: known failures")
  plain = section(model_card.text(described(metrics={"loss": 0.5})), "Metrics")
  assert "| loss | 0.5 |" in plain
  assert "run.evaluation_report = @EvaluationReport()" in plain


def test_the_author_has_the_word():
  text = model_card.text(described(card={"limits": "Cats alone.", "Contact": "Us."}))
  assert section(text, "Limits") == "Cats alone."
  assert section(text, "Contact") == "Us."
  assert text.count("imits\n") == 1
  assert "Not filled in" in section(text, "License")


def test_sizes_and_signatures():
  text = model_card.text(described())
  assert section(text, "Sizes") == (
    "9,610 parameters in 6 variables, 9,600 of them trainable; 38.4 kB. The files of the "
    "export: 91.2 kB."
  )
  assert "| input | x | float32 | [any, 3] |" in section(text, "Inputs and outputs")


def test_training_time_is_the_sum_over_the_steps_that_count(tmp_path):
  folder = str(tmp_path)

  def report(step, rate, **more):
    values = {"steps_per_second": rate, "examples_per_second": 32 * rate, **more}
    metrics_file.append(folder, metrics_file.TRAIN, step, values)

  metrics_file.begin(folder, 0)
  report(10, 5.0)  # 2 s
  report(20, 0.1)  # cut off
  metrics_file.begin(folder, 10)
  report(20, 10.0)  # 1 s
  metrics_file.append(folder, "eval", 20, {"steps_per_second": 1.0})
  report(40, 1.0)
  assert model_card.trained(folder, 20) == {"steps": 20, "seconds": 3.0, "examples": 640}
  assert model_card.trained(folder, 30) == {"steps": 30}  # no line says when step 30 was reached
  text = model_card.text(described(training={"steps": 20, "seconds": 3661.0}))
  assert "| time | 1:01:01 (h:mm:ss)" in section(text, "Training")


def test_a_run_and_its_export(tmp_path):
  report = trainer.EvaluationReport(prediction="y")
  estimator = trainer.Estimator(
    programs.line,
    str(tmp_path / "run"),
    trainer.RunConfig(device="cpu", save_summary_steps=10, tf_random_seed=7),
    train_batch_size=8,
    eval_batch_size=8,
    export_options=trainer.ExportOptions(card={"License": "None yet."}),
  )
  trainer.train_and_evaluate(
    estimator,
    trainer.TrainSpec(programs.train_input, 20),
    trainer.EvalSpec(programs.examples(24), report=report),
  )
  environment.save(estimator.model_dir, estimator.device, estimator.config)  # as trainer.main does
  exported = estimator.export_saved_model(str(tmp_path / "export"))
  told = description.read(exported)
  written = evaluation_reports.newest(str(tmp_path / "run"))[0]
  assert told["report"]["metrics"] == written["metrics"]
  assert (told["report"]["examples"], told["training"]["examples"]) == (24, 160)
  record = environment.read(str(tmp_path / "run"))[0]
  assert told["training"].get("commit") == record.get("commit")
  assert told["training"]["seed"] == 7
  assert told["sizes"]["parameters"] == told["sizes"]["trainable"] == 4
  assert told["sizes"]["bytes"] == 16
  text = (tmp_path / "export" / exported.rpartition("/")[2] / "MODEL_CARD.md").read_text()
  assert text == model_card.text(told)
  assert section(text, "License") == "None yet."


def test_weights_from_elsewhere_have_no_metrics_of_this_run(tmp_path):
  first = programs.estimator(tmp_path / "first").train(programs.train_input, steps=5)
  second = programs.estimator(tmp_path / "second").train(programs.train_input, steps=5)
  exported = second.export_saved_model(
    str(tmp_path / "export"), checkpoint_path=first.latest_checkpoint()
  )
  told = description.read(exported)
  assert (told["training"], told["report"], told["metrics"]) == ({}, None, {})


def test_a_damaged_report_is_told(tmp_path):
  path = evaluation_reports.stem(str(tmp_path), "", 5) + ".json"
  (tmp_path / "evaluation_reports").mkdir()
  with open(path, "w") as file:
    file.write("{")
  with pytest.raises(errors.FileDamagedError, match="evaluate again"):
    model_card.report_of(str(tmp_path), 5)
