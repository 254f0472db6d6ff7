"""Each kind of project trains, exports, predicts and passes its test as it is, offline."""

import json

import pytest

from tests import long
from tests.trainer.new import test_main
from trainer import testing
from trainer.new import main, samples
from trainer.serving import predictor


@pytest.mark.parametrize("kind", long.except_for(("table",), main.KINDS))
def test_a_kind_trains_and_its_export_takes_what_its_data_are(kind, tmp_path, monkeypatch):
  name = f"project_of_{kind}"
  main.create(tmp_path / name, kind)
  monkeypatch.chdir(tmp_path / name)
  monkeypatch.syspath_prepend(str(tmp_path / name))
  weights = [] if kind == "regression" else ['RunConfig.class_weight = "balanced"']
  found = testing.run_gin(f"configs/{name}.gin", steps=2, model_dir="out", bindings=weights)
  assert found["global_step"] == 2
  loaded = predictor.Predictor("out/export", "tensorflow").loaded
  assert loaded.for_users == ("from_bytes" if kind in ("images", "keras") else "from_raw")


@pytest.mark.long
@pytest.mark.parametrize("kind", main.KINDS)
def test_a_kind_does_what_its_readme_says(kind, tmp_path):
  made = test_main.python(tmp_path, "trainer.new", "my_project", f"--kind={kind}")
  assert made.returncode == 0, made.stdout
  folder = tmp_path / "my_project"
  _, _, told = made.stdout.partition("Next:")
  train, predict, _ = (line.split()[2:] for line in told.splitlines()[2:])
  trained = test_main.python(folder, *train)
  assert trained.returncode == 0, trained.stdout
  output = "--output=found.jsonl"
  predicted = test_main.python(folder, *predict, output, "--engine=tensorflow")
  assert predicted.returncode == 0, predicted.stdout
  found = [json.loads(line) for line in (folder / "found.jsonl").read_text().splitlines()]
  assert len(found) == (180 if kind in ("images", "keras") else 100)
  assert "error" not in found[0]


@pytest.mark.long
@pytest.mark.parametrize("kind", main.KINDS)
def test_its_own_test_passes(kind, tmp_path):
  folder = tmp_path / "mine"
  main.create(folder, kind)
  tested = test_main.python(folder, "unittest", "discover", "tests")
  assert "OK" in tested.stdout, tested.stdout


@pytest.mark.parametrize("kind", main.KINDS)
def test_a_project_is_short_python_and_has_data(kind, tmp_path):
  made = main.create(tmp_path / "mine", kind)
  for path in made:
    if path.suffix == ".py":
      compile(path.read_text(), path, "exec")
      assert max(map(len, path.read_text().splitlines())) <= 100
  assert len((tmp_path / "mine" / "README.md").read_text().splitlines()) <= 15
  assert any("data" in path.parts for path in made)
  assert {path.name for path in tmp_path.iterdir()} == {"mine"}


@pytest.mark.parametrize("kind", main.KINDS)
def test_data_are_the_same_each_time(kind):
  assert samples.files(kind) == samples.files(kind)
