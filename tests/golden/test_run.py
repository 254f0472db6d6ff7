"""The folder of a run by gin, and of a sweep, that an earlier version has written."""

import json
import shutil

import pytest

import trainer
from tests import golden
from trainer import config, experiment
from trainer.hooks import early_stopping
from trainer.outputs import exported_records
from trainer.plot import curves, run_report
from trainer.reporting import evaluations_file
from trainer.sweep import report as sweep_report
from trainer.sweep import study

pytestmark = pytest.mark.parametrize("version", golden.VERSIONS, ids=lambda path: path.name)


def of(path):
  return json.loads(path.read_text())


def test_its_metrics_are_drawn_and_told(version):
  run = version / "run"
  found = curves.collect([str(run)])
  accuracy = {curve.kind: curve for curve in found["accuracy"]}
  assert accuracy["eval"].steps == accuracy["eval_train"].steps == [20, 40, 60]
  losses = next(curve for curve in found["loss"] if curve.kind == "train")
  assert losses.steps == [10, 20, 30, 40, 50, 60]
  page = run_report.page(str(run), found)
  for told in (f"{accuracy['eval'].values[-1]:.4g}"[:5], "EarlyStopping.patience = 3", "best"):
    assert told in page


def test_its_evaluations_count(version):
  run = str(version / "run")
  accuracies = evaluations_file.read_metric(run, "", "accuracy")
  assert list(accuracies) == [20, 40, 60]
  assert set(evaluations_file.read(run, "train")) == {20, 40, 60}
  drawn = next(c for c in curves.collect([run])["accuracy"] if c.kind == "eval")
  assert list(accuracies.values()) == pytest.approx(drawn.values)

  class Run:
    model_dir = run

    def latest_step(self):
      return 60

  def ends(patience):  # by the loss that was to grow: each evaluation has less
    return early_stopping.EarlyStopping("loss", "max", patience=patience).begin(Run())

  assert (ends(2), ends(3)) == (True, False)


def test_an_exporter_remembers_what_was_best(version, tmp_path):
  folder = shutil.copytree(version / "run" / "export" / "best", tmp_path / "best")
  before = of(folder / "exported.json")
  assert (folder / before["folder"] / "saved_model.pb").exists()
  exported = []

  class Exports:
    def export_saved_model(self, base, *_):
      exported.append(base)
      (folder / "9999999999").mkdir()
      return f"{base}/9999999999"

  best = trainer.BestExporter("accuracy", "max")
  for gain, count in ((-0.01, 0), (0.0, 0), (0.01, 1)):
    result = {"accuracy": before["metrics"]["accuracy"] + gain, "global_step": 80}
    best.export(Exports(), str(folder), "model.ckpt-80", result, False)
    assert len(exported) == count


def test_it_goes_on_by_its_own_config(version, tmp_path):
  run = shutil.copytree(version / "run", tmp_path / "run")
  earlier = of(run / "environment.json")
  config.load([str(run / "config.gin")], ["run.train_steps = 80"])
  result = experiment.run(experiment.Flags(model_dir=str(run), device="cpu", seed=3))
  assert result["global_step"] == 80
  assert of(run / "environment.json")["earlier"] == [*earlier.pop("earlier"), earlier]
  accuracies = evaluations_file.read_metric(str(run), "", "accuracy")
  assert list(accuracies) == [20, 40, 60, 80]
  assert result["accuracy"] == pytest.approx(accuracies[80])
  best = exported_records.read(str(run / "export" / "best"))["metrics"]
  assert best["accuracy"] == pytest.approx(max(accuracies.values()))
  drawn = {curve.kind: curve.steps for curve in curves.collect([str(run)])["accuracy"]}
  assert drawn["eval"] == drawn["eval_train"] == [20, 40, 60, 80]


def test_a_sweep_is_told_of_and_its_best_is_run(version, tmp_path, capsys):
  pytest.importorskip("optuna")
  sweep = shutil.copytree(version / "sweep", tmp_path / "sweep")
  found = sweep_report.Report(*study.Study.read(study.url_for(str(sweep)), "sweep"))
  assert found.counts() == {"complete": 2}
  found.write_csv(str(tmp_path / "trials.csv"))
  assert (tmp_path / "trials.csv").read_text() == (sweep / "trials.csv").read_text()
  config.load([str(sweep / "best.gin")])
  evaluations = of(sweep / "trials" / "0" / "evaluations.json")[""]
  config.load([str(sweep / "trials" / "0" / "config.gin")])
  trial = str(sweep / "trials" / "0")
  assert experiment.run(
    experiment.Flags(model_dir=trial, mode="evaluate", device="cpu")
  ) == pytest.approx(evaluations["20"] | {"global_step": 20}, abs=1e-6)
