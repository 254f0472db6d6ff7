"""Loads and runs SavedModels in a process that cannot import Octet.

`verification` starts this file as a program of its own. The file imports nothing of this project.

Its standard input is a socket. The process reads requests, one JSON object a line, until the other
side closes it or ten minutes pass without a request:

    {"saved_model": path, "calls": [{"signature": name, "inputs": path, "outputs": path}, ...]}

The process runs each call, writes the outputs, and answers a request with a line: {"error": null},
or the error as a string. Inputs and outputs are files by `pack`.
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


def pack(arrays: Mapping[str, Any]) -> bytes:
  """Serializes arrays of any dtype of TensorFlow, name → array. `unpack` takes the result."""
  import tensorflow as tf

  def feature(array):
    serialized = tf.make_tensor_proto(array).SerializeToString()
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[serialized]))

  features = {name: feature(array) for name, array in arrays.items()}
  return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def unpack(content: bytes) -> dict[str, Any]:
  """Reverses `pack`; bytes are arrays of the dtype object."""
  import tensorflow as tf

  tensor_proto = type(tf.make_tensor_proto(0))
  features = tf.train.Example.FromString(content).features.feature
  return {
    name: tf.make_ndarray(tensor_proto.FromString(feature.bytes_list.value[0]))
    for name, feature in features.items()
  }


def answer(request: Mapping[str, Any]) -> None:
  """Loads the SavedModel of a request, runs its calls and writes their outputs."""
  import tensorflow as tf

  loaded = tf.saved_model.load(request["saved_model"])
  for call in request["calls"]:
    with open(call["inputs"], "rb") as file:
      inputs = unpack(file.read())
    function = loaded.signatures[call["signature"]]
    outputs = function(**{name: tf.constant(array) for name, array in inputs.items()})
    with open(call["outputs"], "wb") as file:
      file.write(pack({name: tensor.numpy() for name, tensor in outputs.items()}))


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
