r"""Shows checkpoints, and exports their weights.

  python -m trainer.checkpoints list out/digits
  python -m trainer.checkpoints show out/digits --stats
  python -m trainer.checkpoints export-weights out/digits --weights_file=digits.safetensors
  python -m trainer.checkpoints export-weights out/digits --weights_file=digits.weights.h5 \
    --model=my_model.build

`show` reads every source of a warm start (a folder's newest checkpoint, a SavedModel,
Keras files, safetensors files). `export-weights` writes a safetensors file with the variables'
names, or a file for `keras.Model.load_weights`, for which it needs a function that makes the Keras
model. No other command needs a model or a gin file.
"""

import datetime
import importlib
import os
import pathlib
import tempfile
from collections.abc import Callable, Sequence

from absl import flags

from trainer import errors
from trainer.checkpoints import file_names, state_file
from trainer.cli import formatting
from trainer.io import paths

_OUTPUT = flags.DEFINE_string(
  "weights_file", None, "export-weights: the file, *.weights.h5 or *.safetensors."
)
_MODEL = flags.DEFINE_string(
  "model", None, "export-weights to *.weights.h5: module.function that makes the Keras model."
)
_STATS = flags.DEFINE_bool(
  "stats", False, "show: add the mean and the standard deviation of each variable."
)


def main(argv: Sequence[str]) -> None:
  """Runs the command in argv[1] with the arguments that follow it, and prints its lines."""
  name, *arguments = argv[1:] or [""]
  if name not in _COMMANDS:
    raise errors.SettingError(
      f"The command is {name!r}; expected one of {', '.join(_COMMANDS)}. "
      "Try: python -m trainer.checkpoints list out/digits"
    )
  function, takes = _COMMANDS[name]
  if len(arguments) != len(takes):
    raise errors.SettingError(
      f"{name} got {len(arguments)} arguments ({' '.join(arguments)}); "
      f"expected: {name} {' '.join(takes)}"
    )
  print("\n".join(function(*arguments)))


def list_checkpoints(model_dir: str) -> list[str]:
  """Lists the checkpoints of a folder, oldest first.

  Returns:
    The lines of a table: step, size and date of each checkpoint, and a mark for the newest and for
    the one that a person has named in the file `checkpoint`, to go back to.

  Raises:
    CheckpointNotFoundError: there are none.
  """
  folder = paths.path(model_dir)  # This needs no TensorFlow, so a list appears at once.
  rows = [
    [str(step), formatting.size(size), f"{datetime.datetime.fromtimestamp(date):%Y-%m-%d %H:%M:%S}"]
    for step, size, date in file_names.written(folder)
  ]
  if not rows:
    raise errors.CheckpointNotFoundError(f"There is no checkpoint in {model_dir}.")
  file = folder / file_names.STATE
  state = state_file.parse(file.read_bytes().decode(errors="replace")) if file.exists() else None
  named = file_names.step_of(state.newest) if state and not state.is_own else None
  for row in rows:
    row.append("resumes here" if row[0] == str(named) else "")
  rows[-1][-1] = "newest"
  return formatting.table(["step", "size", "written", ""], rows, right=(0, 1)).splitlines()


def show(path: str, stats: bool = False) -> list[str]:
  """Shows the content of a source.

  Args:
    path: a source, see weight_sources.read.
    stats: whether to add the mean and the standard deviation of each variable.

  Returns:
    The lines of a table: name, shape, dtype, number of values and size of each variable, sorted by
    name, and the sums.
  """
  from trainer.checkpoints import weight_sources

  return weight_sources.read(path, lambda source: _shown(source, stats))


def _shown(source, stats):
  import numpy as np
  import tensorflow as tf

  rows, totals = [], [0, 0]
  for name, (shape, kind) in sorted(source.shapes.items()):
    dtype = tf.as_dtype(kind) if kind != "string" else None
    count = int(np.prod(shape, dtype=np.int64))
    size = count * dtype.size if dtype else 0
    totals = [totals[0] + count, totals[1] + size]
    rows.append([name, _shape(shape), kind, f"{count:,}", formatting.size(size)])
    if stats:
      values = source.read([name])[name].astype(np.float64) if dtype and count else None
      rows[-1] += ["", ""] if values is None else [f"{values.mean():.4g}", f"{values.std():.4g}"]
  header = ["name", "shape", "dtype", "values", "size", *(["mean", "std"] if stats else [])]
  return [
    source.path,
    *formatting.table(header, rows, right=(3, 4, 5, 6)).splitlines(),
    f"{len(rows)} variables, {totals[0]:,} values, {formatting.size(totals[1])}",
  ]


def export_weights(path: str, output: str | None, model: str | None = None) -> list[str]:
  """Writes the model's own weights in a checkpoint to a Keras .weights.h5 or a .safetensors file.

  Args:
    path: a checkpoint, or a folder (for its newest checkpoint).
    output: the file, ending in .weights.h5 or .safetensors.
    model: for .weights.h5: "module.function" of a function that makes the Keras model.

  Returns:
    A line about the written file.

  Raises:
    SettingError: the output has another ending, or the model is missing or needless.
    OutputError: it cannot write the file.
  """
  from trainer.checkpoints import safetensors_file
  from trainer.io import files

  is_safetensors = bool(output) and str(output).endswith(safetensors_file.ENDING)
  if not output or not (is_safetensors or output.endswith(".weights.h5")):
    raise errors.SettingError(
      f"--weights_file is {output!r}: expected a file that ends in .weights.h5 or .safetensors."
    )
  if is_safetensors == bool(model):
    raise errors.SettingError(
      f"--model is {model!r}, and --weights_file is {output!r}: give --model=module.function, a "
      "function that makes the Keras model, for .weights.h5 alone."
    )
  if model:
    files.write(output, _as_saved_by_keras(path, _function(model)), "--weights_file")
    return [f"Wrote {output}, the weights of {model} from {path}"]
  found, values = _own_values(path)
  safetensors_file.write(output, values)
  return [f"Wrote {output}, {len(values)} variables from {found}"]


def _own_values(path):
  """Returns the path of the read checkpoint, and name → value of the model's own."""
  from trainer.checkpoints import own_names, weight_sources

  def read(source):
    names = sorted(own_names.own_names(source.shapes, set(source.shapes)))
    return source.path, source.read(names)

  return weight_sources.read(path, read)


def _as_saved_by_keras(path, build_model):
  from trainer.checkpoints import into_keras

  with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "model.weights.h5")
    into_keras.load_into_keras(path, build_model).save_weights(file)
    return pathlib.Path(file).read_bytes()


def _function(name):
  module, _, attribute = name.rpartition(".")
  try:
    return getattr(importlib.import_module(module), attribute)
  except (ImportError, AttributeError, ValueError) as error:
    raise errors.SettingError(
      f"--model is {name!r}: expected module.function, and there is none: {error}."
    ) from error


def _shape(shape):
  return "×".join(map(str, shape)) or "scalar"


_COMMANDS: dict[str, tuple[Callable[..., list[str]], list[str]]] = {
  "list": (list_checkpoints, ["MODEL_DIR"]),
  "show": (lambda path: show(path, _STATS.value), ["PATH"]),
  "export-weights": (lambda path: export_weights(path, _OUTPUT.value, _MODEL.value), ["PATH"]),
}
