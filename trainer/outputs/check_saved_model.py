"""Loads and runs SavedModels in a process that cannot import Octet.

`verification` starts this file as a program of its own. The file imports nothing of this project.

Its standard input is a socket. The process reads requests, one JSON object a line, until the other
side closes it or ten minutes pass without a request:

    {"saved_model": path, "calls": [{"signature": name, "inputs": npz, "outputs": npz}, ...]}

The process runs each call, writes the outputs, and answers a request with a line: {"error": null},
or the error as a string. npz files cannot hold all arrays, so `pack` converts them: strings become
an array of uint8 and an array of lengths (numpy's "S" loses zeros at the end), bfloat16 becomes
float32.
"""

import contextlib
import json
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any

_REFUSED = ("trainer", "octet_trainer", "models", "input_pipelines", "gin_configs")
_IDLE_SECS = 600.0


class Refusal:
  """An import hook that raises ImportError for Octet's packages."""

  def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
    """Raises ImportError for the packages in _REFUSED. The arguments are importlib's."""
    if name.partition(".")[0] in _REFUSED:
      raise ImportError(f"a program without Octet cannot import {name}")


def pack(arrays: Mapping[str, Any]) -> dict[str, Any]:
  """Converts arrays to numeric arrays for an npz file: key → array. `unpack` takes it.

  Args:
    arrays: name → array, also of bfloat16 or of bytes (dtype object).
  """
  import numpy as np

  packed: dict[str, Any] = {}
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


def unpack(packed: Mapping[str, Any]) -> dict[str, Any]:
  """Reverses `pack`."""
  import numpy as np

  arrays = {}
  for key in packed:
    kind, _, name = key.partition(":")
    if kind == "array":
      arrays[name] = packed[key]
    elif kind == "bfloat16":
      import ml_dtypes  # TensorFlow brings ml_dtypes.

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


def answer(request: Mapping[str, Any]) -> None:
  """Loads the SavedModel of a request, runs its calls and writes their outputs."""
  import numpy as np
  import tensorflow as tf

  loaded = tf.saved_model.load(request["saved_model"])
  for call in request["calls"]:
    with np.load(call["inputs"]) as file:
      inputs = unpack(file)
    function = loaded.signatures[call["signature"]]
    outputs = function(**{name: tf.constant(array) for name, array in inputs.items()})
    np.savez(call["outputs"], **pack({name: tensor.numpy() for name, tensor in outputs.items()}))


def main() -> None:
  """Answers requests until there are no more."""
  # A terminal sends Ctrl-C to this process too. The other process decides what to do.
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  sys.meta_path.insert(0, Refusal())
  # Import now, while the other process still writes its SavedModel: the import takes seconds.
  import tensorflow  # noqa: F401

  with socket.socket(fileno=0) as connection, connection.makefile("rw") as lines:
    connection.settimeout(_IDLE_SECS)
    with contextlib.suppress(TimeoutError):
      for line in lines:
        error = None
        try:
          answer(json.loads(line))
        except Exception as caught:  # Any error is an answer: the other process reports it.
          error = f"{type(caught).__name__}: {caught}"
        print(json.dumps({"error": error}), file=lines, flush=True)


if __name__ == "__main__":
  main()
