"""Requests of the Open Inference Protocol, answered without a server."""

import json

from trainer.serving import open_inference


def answer(loaded, message, *tensors):
  """Returns the answer to a request, (headers, JSON, what follows it)."""
  head = json.dumps(message).encode()
  size = str(len(head)) if tensors else None
  call = open_inference.read_infer(b"".join([head, *tensors]), loaded, "echo", size)
  written = call.write(loaded.engines[call.signature].predict_batch(call.features))
  end = int(written.headers.get(open_inference.JSON_SIZE, len(written.content)))
  return written, json.loads(written.content[:end]), written.content[end:]
