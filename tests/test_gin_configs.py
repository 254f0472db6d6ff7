"""Every shipped gin file parses, binds nothing that nobody uses, and trains, evaluates and exports;
with the settings that all have in common.

Where the data of a file are not at hand, batches made up from their shapes stand in for them.
"""

import pathlib
import re

import numpy as np
import pytest

from tests import long
from trainer import config, experiment, testing
from trainer.checkpoints import reader

ROOT = pathlib.Path(__file__).parents[1] / "gin_configs"
FILES = sorted(path.name for path in ROOT.glob("*.gin"))


@pytest.mark.parametrize("file", FILES)
def test_batches_divide_among_eight_cores(file):
  sizes = re.findall(r"^run\.\w+(?<!per_core)_batch_size = (\d+)", (ROOT / file).read_text(), re.M)
  assert [size for size in sizes if int(size) % 8] == []


SIZES = ["run.train_batch_size = 16", "run.eval_batch_size = 16"]

# What every experiment can be told. Gradients of this norm move nothing by more than a rounding
# error, whichever optimizer applies them.
COMMON = ["minimize.clip_norm = 1e-12", "minimize.accumulate_steps = 2", "minimize.ema_decay = 0.5"]


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

AIR = [
  *made_up((32, 32, 3), 10),
  "cifar10_air.model_fn.images = @random_inputs.input_fn",
  "cifar10_air.model_fn.filters = (24, 8, 8)",
  "cifar10_air.model_fn.weight_decay = 0.0",  # what follows has gradients of the examples alone
]

# What a file needs to run here: its data, and a size at which that takes seconds.
RUNS = {
  "breast_cancer.gin": [],
  "diabetes.gin": [],
  "digit_scenes.gin": ["cifar10_cnn.model_fn.filters = (2, 4)", "cifar10_cnn.model_fn.units = 8"],
  "digit_segments.gin": ["unet.model_fn.filters = (2, 4)"],
  "digits.gin": [],
  "fashion_mnist_cnn.gin": [
    *made_up((28, 28, 1), 10),
    "fashion_mnist_cnn.model_fn.filters = (2, 2, 2)",
  ],
  "cifar10_air94.gin": AIR,
  "cifar10_air95.gin": AIR,
  "cifar10_cnn.gin": made_up((32, 32, 3), 10),
  # Updates of a size from the first one on, and of gradients alone.
  "cifar10_cnn_best.gin": [
    *made_up((32, 32, 3), 10),
    "keras.optimizers.schedules.CosineDecay.initial_learning_rate = 0.001",
    "keras.optimizers.AdamW.weight_decay = 0.0",
  ],
  "flowers_resnet50.gin": FLOWERS,
  "flowers_resnet50_short.gin": FLOWERS,
  "flowers_vgg16.gin": FLOWERS,
  "flowers_xception.gin": FLOWERS,
  "conv_op.gin": ['random_inputs.input_fn.features = {"image": ((16, 16, 3), "float32")}'],
  "paradnn_bottleneck.gin": [],
  "paradnn_fully_connected.gin": [],
  "paradnn_lstm.gin": [],
  "paradnn_residual.gin": [],
}

# The model of a file, by the beginning of its name.
MODELS = {
  "breast": "tabular_mlp",
  "diabetes": "tabular_mlp",
  "digit_scenes": "cifar10_cnn",
  "digit_segments": "unet",
  "digits": "digits_mlp",
  "fashion": "fashion_mnist_cnn",
  "cifar10_air": "cifar10_air",
  "cifar10_cnn": "cifar10_cnn",
  "flowers": "keras_applications",
  "conv": "conv_op",
  "paradnn": "paradnn",
  "transformer": "transformer_classifier",
}

NO_CLASSES = ["diabetes.gin"]  # which can be smoothed

# Networks so deep that eight cores take minutes to trace, and all that an experiment can be told
# takes one: for these `python -m tests.slow.deep_networks` does the same.
DEEP = ["flowers_resnet50.gin", "flowers_resnet50_short.gin", "flowers_xception.gin"]

# Those that take a step of each kind and no more, and the device: the quick one has two cores.
STEPS = [
  ("digits.gin", "cpu:2"),
  ("digits.gin", "cpu:8"),
  ("conv_op.gin", "cpu:8"),
  *((file, "cpu") for file in DEEP),
]

# The file's own data are files of the user's.
REQUIRED = {
  "transformer_classifier.gin": [
    'TRAIN_FILE = "train.tsv"',
    'TEST_FILE = "test.tsv"',
    'VOCABULARY_FILE = "words.txt"',
  ]
}


def test_every_file_is_listed():
  assert set(FILES) == set(RUNS) | set(REQUIRED)


@pytest.mark.parametrize("file", FILES)
def test_parses_and_binds_nothing_in_vain(file):
  config.load([f"gin_configs/{file}"], REQUIRED.get(file, []))
  # model_fns call the last one.
  assert config.dead_bindings(("trainer.run", "trainer.RunConfig", "trainer.minimize")) == []


@pytest.mark.parametrize("file", FILES)
def test_says_how_to_run_it(file):
  """The header has the command, with this file in it."""
  header = (ROOT / file).read_text().split("\n\n", 1)[0]
  assert all(line.startswith("#") for line in header.splitlines())
  assert f"python -m trainer.main --gin_file=gin_configs/{file}" in header


@pytest.mark.parametrize(("file", "device"), long.except_for([("digits.gin", "cpu:2")], STEPS))
def test_runs_a_step_of_each_kind(file, device, caplog):
  config.load([f"gin_configs/{file}"], [*SIZES, *RUNS[file]])
  with caplog.at_level("INFO", logger="absl"):
    experiment.run(experiment.Flags(dry_run=True, device=device))
  assert "one train step" in caplog.text
  assert "one eval step" in caplog.text


@pytest.fixture
def texts(tmp_path, monkeypatch):
  """The files that REQUIRED names."""
  monkeypatch.chdir(tmp_path)
  pathlib.Path("words.txt").write_text("good\nbad\n")
  for name in ("train.tsv", "test.tsv"):
    pathlib.Path(name).write_text("text\tlabel\n" + "good\t1\nbad\t0\n" * 8)


@pytest.mark.parametrize(
  "file",
  long.except_for(("digits.gin", "conv_op.gin"), [file for file in FILES if file not in DEEP]),
)
def test_runs_with_what_all_experiments_can_be_told(file, texts, tmp_path):
  check_what_all_can_be_told(file, tmp_path)


def check_what_all_can_be_told(file, folder):
  """Three steps of which two are applied: the mean of their gradients, clipped to nothing; the
  third one's gradient waits.
  """
  (model,) = (MODELS[start] for start in MODELS if file.startswith(start))
  value = 0.0 if file in NO_CLASSES else 0.1
  smoothing = f"{model}.model_fn.label_smoothing = {value}"
  run = folder / "run"
  metrics = testing.run_gin(
    ROOT / file,
    steps=3,
    bindings=[*SIZES, *RUNS.get(file, []), *REQUIRED.get(file, []), *COMMON, smoothing],
    model_dir=run,
    strict_gin=False,
  )  # the file's own data are bound in vain where others are in their place
  assert metrics["global_step"] == 3
  assert np.isfinite(metrics["loss"])
  assert len(list((run / "export").glob("*/saved_model.pb"))) == 1
  assert smoothing.partition(".")[2] in (run / "operative_config.gin").read_text()

  before, after = (str(run / f"model.ckpt-{step}") for step in (0, 3))
  names = reader.shapes(after)
  trained = [
    name.removeprefix("ema/") for name in names if name.startswith("ema/") and name != "ema/updates"
  ]
  waiting = [f"accumulated/{name}" for name in trained]
  assert set(waiting) <= set(names)
  assert reader.read(after, ["ema/updates"])["ema/updates"] == 1, "one update in three steps"
  old, new, gradients = (
    reader.read(before, trained),
    reader.read(after, trained),
    reader.read(after, waiting),
  )
  assert max(np.abs(gradient).max() for gradient in gradients.values()) > 1e-4
  testing.assert_same_values(old, new, tolerance=1e-6)
