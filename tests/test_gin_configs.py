"""Every shipped gin file parses, binds nothing that nobody uses, and runs a step of each kind.

Where the data of a file are not at hand, batches made up from their shapes stand in for them.
"""

import pathlib

import pytest

from trainer import config, experiment

ROOT = pathlib.Path(__file__).parents[1] / "gin_configs"
FILES = sorted(path.name for path in ROOT.glob("*.gin"))

SIZES = ["run.train_batch_size = 16", "run.eval_batch_size = 16"]


def made_up(shape, classes, key="image", dtype="float32"):
  """Bindings that put made-up batches in the place of a file's data."""
  return [
      "import input_pipelines.random_inputs",
      "run.train_input_fn = @random_inputs.input_fn",
      "run.eval_input_fn = @made_up_eval/random_inputs.input_fn",
      "made_up_eval/random_inputs.input_fn.training = False",
      f'random_inputs.input_fn.features = {{"{key}": ({shape}, "{dtype}")}}',
      f"random_inputs.input_fn.classes = {classes}",
  ]


FLOWERS = [*made_up((72, 72, 3), 5), "IMAGE_SIZE = 72"]

# What a file needs to run here: its data, and a size at which that takes seconds.
RUNS = {
    "digits.gin": [],
    "fashion_mnist_cnn.gin": [*made_up((28, 28, 1), 10), "fashion_mnist_cnn.model_fn.filters = (2, 2, 2)"],
    "cifar10_cnn.gin": made_up((32, 32, 3), 10),
    "cifar10_cnn_best.gin": made_up((32, 32, 3), 10),
    "flowers_resnet50.gin": FLOWERS,
    "flowers_vgg16.gin": FLOWERS,
    "flowers_xception.gin": FLOWERS,
    "conv_op.gin": ['random_inputs.input_fn.features = {"image": ((16, 16, 3), "float32")}'],
    "paradnn_bottleneck.gin": [],
    "paradnn_fully_connected.gin": [],
    "paradnn_lstm.gin": [],
    "paradnn_residual.gin": [],
}

# Where eight cores take no longer than a quick test may.
ON_EIGHT_CORES = ["digits.gin", "conv_op.gin"]

# The file's own data cannot be made up by shape alone: its vocabulary is a file of the user's.
REQUIRED = {"transformer_classifier.gin": ['TRAIN_FILE = "train.tsv"', 'TEST_FILE = "test.tsv"', 'VOCABULARY_FILE = "words.txt"']}


def test_every_file_is_listed():
  assert set(FILES) == set(RUNS) | set(REQUIRED)


@pytest.mark.parametrize("file", FILES)
def test_parses_and_binds_nothing_in_vain(file):
  config.load([f"gin_configs/{file}"], REQUIRED.get(file, []))
  assert config.dead_bindings() == []


@pytest.mark.parametrize("file", FILES)
def test_says_how_to_run_it(file):
  """The header has the command, with this file in it."""
  header = (ROOT / file).read_text().split("\n\n", 1)[0]
  assert all(line.startswith("#") for line in header.splitlines())
  assert f"python -m trainer.main --gin_file=gin_configs/{file}" in header


@pytest.mark.parametrize(("file", "device"), [(file, "cpu") for file in RUNS] + [(file, "cpu:8") for file in ON_EIGHT_CORES])
def test_runs_a_step_of_each_kind(file, device, caplog):
  config.load([f"gin_configs/{file}"], [*SIZES, *RUNS[file]])
  with caplog.at_level("INFO", logger="absl"):
    experiment.run(dry_run=True, device=device)
  assert "one train step" in caplog.text
  assert "one eval step" in caplog.text
