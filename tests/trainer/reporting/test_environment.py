"""environment.json tells what a training ran on, and what those before it did."""

import hashlib
import importlib
import json
import os
import sys
import types
import uuid

import pytest

import trainer
from trainer import errors
from trainer.devices import device as device_lib
from trainer.reporting import environment


def save(model_dir, **config):
  environment.save(
    str(model_dir), device_lib.connect(config.get("device", "cpu")), trainer.RunConfig(**config)
  )
  return json.loads((model_dir / environment.NAME).read_text())


def test_what_a_training_runs_on(tmp_path, monkeypatch):
  monkeypatch.setattr(sys, "argv", ["/somewhere/pytest/__main__.py", "--model_dir=out/a b"])
  found = save(tmp_path, device="cpu:8", precision="bfloat16", tf_random_seed=5)
  expected = {
    "device": "cpu, 8 replicas",
    "cores": 8,
    "hosts": 1,
    "precision": "bfloat16",
    "seed": 5,
    "octet": trainer.__version__,
    "earlier": [],
  }
  assert {name: found[name] for name in expected} == expected
  assert found["command"].startswith("python ")
  assert found["command"].endswith(" '--model_dir=out/a b'")


def test_earlier_trainings_are_kept_the_oldest_first(tmp_path):
  for seed in (1, 2):
    save(tmp_path, tf_random_seed=seed)
  found = save(tmp_path, tf_random_seed=3)
  assert [found["seed"], *(earlier["seed"] for earlier in found["earlier"])] == [3, 1, 2]
  assert all("earlier" not in earlier for earlier in found["earlier"])


@pytest.mark.parametrize("text", ["{", "3", '"text"', "", '{"earlier": 3}', "{}"])
def test_a_damaged_file_is_said_and_replaced(text, tmp_path, caplog):
  (tmp_path / environment.NAME).write_text(text)
  assert save(tmp_path)["earlier"] == []
  assert "environment.json is damaged" in caplog.text


def test_a_folder_that_cannot_be_written(tmp_path):
  (tmp_path / "file").write_text("in the way of a folder")
  with pytest.raises(errors.OutputError, match=r"Cannot write .*environment.json "):
    environment.save(str(tmp_path / "file"), device_lib.connect("cpu"), trainer.RunConfig())


def test_commit_packages_and_folder_are_saved_and_no_variables(tmp_path, monkeypatch):
  secret = uuid.uuid4().hex
  monkeypatch.setenv("WANDB_API_KEY", secret)
  found = save(tmp_path)
  assert found["packages"]["absl-py"]
  assert found["folder"]
  assert secret not in (tmp_path / environment.NAME).read_text()


def test_own_modules_have_digests_that_see_a_change(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  monkeypatch.syspath_prepend(tmp_path)
  (tmp_path / "nets").mkdir()
  name = f"net_{uuid.uuid4().hex}"
  module = tmp_path / "nets" / f"{name}.py"
  module.write_text("SIZE = 3\n")
  importlib.import_module(f"nets.{name}")
  written = types.ModuleType("__autograph_generated_file_of_test")
  written.__file__ = str(tmp_path / "nets" / "written.py")
  monkeypatch.setitem(sys.modules, written.__name__, written)
  path = f"nets/{name}.py"
  recorded = save(tmp_path)["modules"]
  assert recorded[path] == hashlib.sha256(b"SIZE = 3\n").hexdigest()
  octet = os.path.dirname(trainer.__file__)
  assert "nets/written.py" not in recorded
  # The folder tests/trainer/ has modules of users, to Octet: only its own folder has none.
  assert not any("site-packages" in each or each.startswith(octet) for each in recorded)
  assert environment.digests(recorded) == recorded
  module.write_text("SIZE = 4\n")
  assert environment.digests([path])[path] != recorded[path]
  module.unlink()
  assert environment.digests([path]) == {}


def test_long_values_are_kept_where_they_change(tmp_path, monkeypatch):
  texts = iter(["a", "b", "b"])
  monkeypatch.setattr(
    environment, "here", lambda: {"diff": next(texts), "packages": {"keras": "3"}}
  )
  for _ in range(3):
    found = save(tmp_path)
  assert found["diff"] == "b"
  assert [record.get("diff") for record in found["earlier"]] == ["a", None]
  assert [record.get("packages") for record in found["earlier"]] == [None, None]
