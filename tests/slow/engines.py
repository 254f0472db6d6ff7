"""Compares the predictions of every shipped experiment's export in every engine, in one table.

    python -m tests.slow.engines                      all of them, in their shipped sizes
    python -m tests.slow.engines digits.gin           some of them
    python -m tests.slow.engines --int8               what int8 costs, of models that were trained

Needs the extras [onnx] and [openvino]. Each experiment trains two steps. For one batch, it compares
the live model's predictions with the SavedModel in a process without Octet (to 1e-5), with the
engines TensorFlow, ONNX Runtime and OpenVINO (to 1e-4) and with TensorFlow Lite (to 1e-3). The
table shows the largest difference of a probability, or of a logit as a share of the largest logit;
classes must be the same. Random batches replace data that need a download.

--int8 trains the digits, and Fashion-MNIST if its files exist, and prints the accuracy of each
export before and after quantization.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import numpy as np
import rich.console
import rich.table

from tests.slow import preflight_all
from trainer import config, errors, experiment
from trainer.outputs import description, engines, options, verification

SIZES = ["run.train_batch_size = 8", "run.eval_batch_size = 8"]
TOLERANCE = {"tensorflow": 1e-4, "onnx": 1e-4, "openvino": 1e-4, "tflite": 1e-3}
CLEAN = "SavedModel, clean process"
COLUMNS = (CLEAN, *TOLERANCE)
ROOT = pathlib.Path(__file__).parents[2] / "gin_configs"
_DEFAULT = "serving_default"

# Trainings long enough for a meaningful accuracy.
TRAINED = {
  "digits.gin": [],
  "fashion_mnist_cnn.gin": [
    "run.train_batch_size = 128",
    "run.train_steps = 120",
    "run.eval_batch_size = 256",
    "run.eval_steps = 4",
  ],
}


class _Keep:
  """A hook that keeps the Estimator of a run."""

  def begin(self, estimator):
    self.estimator = estimator

  def __call__(self, step, metrics, estimator):
    pass


def trained(file, folder, bindings, **export_options):
  """Returns (Estimator, input_fn of its evaluation) of a trained experiment, without exports."""
  config.clear()
  config.load([f"gin_configs/{file}"], bindings)
  keep = _Keep()
  asked = experiment.Experiment(
    train_hooks=[keep], exporters=[], export_options=options.ExportOptions(**export_options)
  )
  experiment.run(experiment.Flags(model_dir=folder, device="cpu"), asked)
  return keep.estimator, asked.eval_input_fn


def compare(file, folder):
  """Returns a dict of engine → the largest difference from the live model, or its error."""
  words = pathlib.Path(folder) / "words.txt"
  words.write_text("".join(f"{word}\n" for word in range(preflight_all.WORDS)))
  bindings = [
    binding.replace("{results}", folder) for binding in preflight_all.BINDINGS.get(file, ())
  ]
  estimator, input_fn = trained(
    file,
    os.path.join(folder, "model"),
    [*bindings, *SIZES, "run.train_steps = 2", "run.eval_steps = 1"],
    verify=False,
  )
  predicted, (features, *_) = next(
    estimator.predict(input_fn, yield_single_examples=False, with_examples=True)
  )
  path = estimator.export_saved_model(os.path.join(folder, "export"))
  live = {
    name: predicted[name] for name in description.read(path)["signatures"][_DEFAULT]["outputs"]
  }
  found = {CLEAN: _outcome(live, lambda: _in_clean_process(path, features, live))}
  for name, tolerance in TOLERANCE.items():
    found[name] = _outcome(
      live,
      lambda name=name, tolerance=tolerance: verification.compare(
        live, engines.load(path, name).predict_batch(features), name, tolerance
      ),
    )
  return found


def _in_clean_process(path, features, live):
  check = verification.Check(_DEFAULT, features, live)
  return verification.verify(path, [check])[_DEFAULT]


def _outcome(live, call):
  try:
    differences = call()
  except errors.OctetError as error:
    return error
  return max(
    difference / (1 if name == "probabilities" else np.max(np.abs(live[name])))
    for name, difference in differences.items()
    if live[name].dtype.kind == "f"
  )


def int8(file, folder):
  """Returns octet.json's report on an export's int8."""
  estimator, _ = trained(
    file, os.path.join(folder, "model"), TRAINED[file], runtimes=("tflite", "tflite_int8")
  )
  path = estimator.export_saved_model(os.path.join(folder, "export"))
  return description.read(path)["runtimes"]["tflite_int8"]


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("files", nargs="*", help="gin files, by their names")
  parser.add_argument("--int8", action="store_true")
  arguments = parser.parse_args()
  shipped = TRAINED if arguments.int8 else sorted(path.name for path in ROOT.glob("*.gin"))
  if unknown := set(arguments.files) - set(shipped):
    parser.error(f"expected some of {', '.join(shipped)}; got {', '.join(sorted(unknown))}")
  columns = ("examples", "same_class", "accuracy", "accuracy_int8") if arguments.int8 else COLUMNS
  table = rich.table.Table("experiment", *columns)
  failed = []
  for file in arguments.files or shipped:
    with tempfile.TemporaryDirectory() as folder:
      found = (int8 if arguments.int8 else compare)(file, folder)
    table.add_row(file, *(_cell(found[name]) for name in columns))
    failed += [
      f"{file}: {value}" for value in found.values() if isinstance(value, errors.OctetError)
    ]
    rich.console.Console(width=140).print(table)
  if failed:
    sys.exit("\n".join(failed))


def _cell(value):
  if isinstance(value, errors.OctetError):
    return "failed"
  return f"{value:.1e}" if 0 < value < 1e-2 else f"{value:.4g}"


if __name__ == "__main__":
  main()
