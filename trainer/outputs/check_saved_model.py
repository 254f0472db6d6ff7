"""Loads SavedModels where Octet cannot be imported, and runs them.

A program by itself: it is started by `verification` with the path of this file, and imports nothing
of this project.

It reads requests, a JSON object a line, from its standard input until that ends or nothing has come
for some minutes:

    {"saved_model": path, "calls": [{"signature": name, "inputs": npz, "outputs": npz}, ...]}

and answers each with a line on its standard output: {"error": null}, once the outputs are written.
What npz files cannot hold is packed, see `pack`: strings (numpy's "S" would lose zeros at their
ends) as an array of uint8 and one of lengths, bfloat16 as float32.
"""

import json
import os
import select
import sys

_REFUSED = ("trainer", "models", "input_pipelines", "gin_configs")
_IDLE_SECS = 600.0


class Refusal:
  """An importer that refuses the project's packages, wherever they may be found."""

  def find_spec(self, name, path=None, target=None):
    """As importlib asks for it."""
    if name.partition(".")[0] in _REFUSED:
      raise ImportError(f"{name} cannot be imported where an export is checked")


def pack(arrays):
  """dict of plain numeric arrays, from one that may have bfloat16 and bytes (dtype object)."""
  import numpy as np

  packed = {}
  for name, array in arrays.items():
    array = np.asarray(array)
    if array.dtype == object:
      items = [bytes(item) for item in array.ravel()]
      packed[f"bytes:{name}"] = np.frombuffer(b"".join(items), np.uint8)
      packed[f"lengths:{name}"] = np.array([len(item) for item in items], np.int64).reshape(
        array.shape
      )
    elif array.dtype.kind == "V":
      packed[f"bfloat16:{name}"] = array.astype(np.float32)
    else:
      packed[f"array:{name}"] = array
  return packed


def unpack(packed):
  """What `pack` was given."""
  import numpy as np

  arrays = {}
  for key in packed:
    kind, _, name = key.partition(":")
    if kind == "array":
      arrays[name] = packed[key]
    elif kind == "bfloat16":
      import ml_dtypes  # which TensorFlow brings

      arrays[name] = packed[key].astype(ml_dtypes.bfloat16)
    elif kind == "lengths":
      lengths, content = packed[key], packed[f"bytes:{name}"].tobytes()
      ends = np.cumsum(lengths.ravel())
      items = [
        content[end - length : end] for end, length in zip(ends, lengths.ravel(), strict=True)
      ]
      arrays[name] = np.empty(lengths.shape, object)
      arrays[name].ravel()[:] = items
  return arrays


def run(request):
  """Does what a request says."""
  import numpy as np
  import tensorflow as tf

  loaded = tf.saved_model.load(request["saved_model"])
  for call in request["calls"]:
    with np.load(call["inputs"]) as file:
      inputs = unpack(file)
    function = loaded.signatures[call["signature"]]
    outputs = function(**{name: tf.constant(array) for name, array in inputs.items()})
    np.savez(call["outputs"], **pack({name: tensor.numpy() for name, tensor in outputs.items()}))


def main():
  """Answers requests until there are no more."""
  # What TensorFlow's libraries print goes elsewhere, so that the answers are alone where they are.
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)
  sys.meta_path.insert(0, Refusal())
  import tensorflow  # noqa: F401  while the other process still writes its SavedModel

  while select.select([sys.stdin], [], [], _IDLE_SECS)[0]:
    line = sys.stdin.readline()
    if not line:
      return
    try:
      run(json.loads(line))
      answer = {"error": None}
    except Exception as error:  # of whatever kind: the other process says what is wrong
      answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
  main()
