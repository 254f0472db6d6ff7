"""The notebooks run from beginning to end on virtual devices, and lie in the repository without
outputs.
"""

import ast
import os
import pathlib
import re
import subprocess
import sys

import nbclient
import nbformat
import numpy as np
import pytest
from matplotlib import image

ROOT = pathlib.Path(__file__).parents[2]
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def read(name):
  return nbformat.read(ROOT / "notebooks" / name, as_version=4)


def tagged(notebook, tag):
  """Returns the index of the one cell with a tag."""
  (index,) = (
    index for index, cell in enumerate(notebook.cells) if tag in cell.metadata.get("tags", ())
  )
  return index


def execute(name, folder, monkeypatch, **parameters):
  """Runs a notebook in a folder; returns what each of its cells printed, by the cell's id.

  Args:
    name: of the file.
    folder: where its kernel works.
    monkeypatch: pytest's.
    parameters: what the cell "parameters" sets, with other values.
  """
  notebook = read(name)
  place = tagged(notebook, "parameters")
  known = {node.targets[0].id for node in ast.parse(notebook.cells[place].source).body}
  assert set(parameters) <= known
  settings = "\n".join(f"{key} = {value!r}" for key, value in parameters.items())
  notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(settings))
  for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
    monkeypatch.setenv(variable, str(folder / variable))
  environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
  client = nbclient.NotebookClient(
    notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
  )
  client.execute(env=environment)
  return {cell.id: text(cell) for cell in notebook.cells if cell.cell_type == "code"}


def text(cell):
  """Returns what a cell printed; a picture counts as the text "[picture]"."""
  return "".join(
    output.get("text") or "[picture]" * ("image/png" in output.get("data", ()))
    for output in cell.outputs
  )


@pytest.mark.long
def test_quickstart(tmp_path, monkeypatch):
  printed = execute("quickstart.ipynb", tmp_path, monkeypatch, STEPS=200)
  assert printed["connect"].endswith("cpu, 8 replicas\n")
  accuracy, step = re.search(
    r"'accuracy': ([\d.]+).*'global_step': (\d+)", printed["evaluate"]
  ).groups()
  assert float(accuracy) > 0.8
  assert step == "200"
  assert "[picture]" in printed["predict"]
  assert list(tmp_path.glob("out/quickstart/export/*/saved_model.pb"))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_colab(tmp_path, monkeypatch):
  tiny = [
    "import input_pipelines.random_inputs",
    "run.train_input_fn = @random_inputs.input_fn",
    "run.eval_input_fn = @eval/random_inputs.input_fn",
    "random_inputs.input_fn.features = {'image': ((28, 28, 1), 'float32')}",
    "random_inputs.input_fn.batches = 2",
    "eval/random_inputs.input_fn.training = False",
    "fashion_mnist_cnn.model_fn.filters = (8, 8, 8)",
    "run.train_batch_size = 16",
    "run.eval_batch_size = 16",
    "run.train_steps = 4",
    "RunConfig.log_step_count_steps = 2",
  ]
  printed = execute(
    "colab_tpu.ipynb",
    tmp_path,
    monkeypatch,
    DEVICE="xla:8",
    PRECISION="float32",
    MODEL_DIR="out/fashion_mnist",
    GIN_BINDINGS=tiny,
    COMPARE_GIN_FILE="gin_configs/compare/small.gin",
    COMPARE_BINDINGS=[
      "compare.workloads = [@digits/Workload()]",
      "digits/Workload.batch_sizes = [32]",
      "digits/Workload.slice_steps = 5",
    ],
    COMPARE_DEVICES="cpu:8",
    COMPARE_DIR="out/compare",
  )
  assert "Evaluated 4 examples" in printed["train"]
  assert "[picture]" in printed["curves"]
  assert "digits MLP, batch 32 on cpu:8: " in printed["compare"]
  assert "[picture]" in printed["compare"]
  assert (tmp_path / "out" / "compare" / "times.png").stat().st_size


@pytest.mark.long
@pytest.mark.timeout(900)
def test_kaggle(tmp_path, monkeypatch):
  noise = np.random.default_rng(0)
  for name, brightness in (("dark photos", 0), ("light photos", 128)):
    (tmp_path / "photos" / name).mkdir(parents=True)
    for number in range(40):
      pixels = noise.integers(brightness, brightness + 128, (40, 40, 3), np.uint8)
      image.imsave(tmp_path / "photos" / name / f"{number}.png", pixels)
  network = "import models.cifar10_cnn\nrun.model_fn = @cifar10_cnn.model_fn\n"
  (tmp_path / "working").mkdir()
  printed = execute(
    "kaggle_tpu.ipynb",
    tmp_path,
    monkeypatch,
    DEVICE="xla:8",
    PRECISION="float32",
    DATA="photos",
    WORKING="working",
    NETWORK=f"{network}cifar10_cnn.model_fn.classes = %CLASSES",
    IMAGE_SIZE=32,
    BATCH_SIZE=16,
    STEPS=6,
  )
  assert printed["experiment"] == "2 classes: dark photos, light photos\n"
  assert re.search(r"Evaluated \d+ examples", printed["train"])
  assert "[picture]" in printed["export"]
  assert (tmp_path / "working" / "predictions.png").stat().st_size


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path):
  notebook = nbformat.read(path, as_version=4)
  nbformat.validate(notebook)
  for cell in notebook.cells:
    if cell.cell_type == "code":
      assert (cell.outputs, cell.execution_count) == ([], None), f"{cell.id}: clear all outputs"


@pytest.mark.parametrize("place", ["/clone", "https://host/octet.whl"])
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_first_cell_installs_from_the_place_that_it_names(path, place, monkeypatch):
  notebook = nbformat.read(path, as_version=4)
  source = next(cell.source for cell in notebook.cells if cell.cell_type == "code")
  source, count = re.subn(r'^OCTET = ".*"$', f"OCTET = {place!r}", source, flags=re.M)
  assert count == 1
  commands = []
  monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
  exec(source, {})
  assert commands == []  # it is installed already
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  exec(source, {})
  ((*command, wanted),) = commands
  assert command == [sys.executable, "-m", "pip", "install", "-q"]
  assert re.fullmatch(
    r"/clone\[\w+,plot\]" if place == "/clone" else rf"octet-trainer\[\w+,plot\] @ {place}", wanted
  )
