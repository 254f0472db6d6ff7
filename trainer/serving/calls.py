"""Calls of the model: a request, with the function that answers it.

call = tf_serving.read_predict(body, loaded)
outputs = loaded.engines[call.signature].predict_batch(call.features)
call.write(outputs)                        # the body of the answer
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trainer import errors
from trainer.outputs import signatures
from trainer.outputs.preprocessing import FROM_BYTES, FROM_RAW
from trainer.serving import features
from trainer.serving.loaded_model import LoadedModel


@dataclasses.dataclass(frozen=True)
class Call:
  """A call of the model.

  Attributes:
    signature: a key of `LoadedModel.engines`.
    features: name → array, as the signature takes them.
    write: function of the outputs that returns the body of the answer.
  """

  signature: str
  features: Mapping[str, np.ndarray]
  write: Callable[[Mapping[str, np.ndarray]], bytes]


# Reads the body of a request; InputError if the model cannot use it.
Read = Callable[[bytes, LoadedModel], Call]


def inputs_of(signature: Any, loaded: LoadedModel) -> Mapping[str, dict]:
  """Returns name → {"dtype", "shape"} of the inputs of a signature that a request names.

  Raises:
    InputError: the model has no such signature, or it has another method, such as classify.
  """
  described = loaded.description["signatures"]
  known = [name for name in described if name in {*loaded.engines, signatures.FROM_EXAMPLES}]
  if signature not in known:
    raise errors.InputError(
      f'"signature_name" is {signature!r}: expected one of {", ".join(known)}.'
    )
  return described[signature]["inputs"]


def prepare(
  signature: str,
  columns: Mapping[str, Any],
  loaded: LoadedModel,
  write: Callable[[Mapping[str, np.ndarray]], bytes],
) -> Call:
  """Checks the columns of a request, and prepares the call.

  Args:
    signature: the name in the request.
    columns: name → values of all examples: an array, or a list. Bytes and texts are lists.
    loaded: the model.
    write: see `Call`.

  Raises:
    InputError: the signature cannot take the columns.
  """
  if signature == signatures.FROM_EXAMPLES and signature not in loaded.engines:
    signature, columns = _of_examples(columns.get(signatures.EXAMPLES), loaded)
  for name in loaded.decoders if signature == FROM_BYTES else ():
    if not _are_bytes(columns.get(name, [])):
      raise errors.InputError(
        f'{name!r} must be the bytes of files. JSON has them as {{"b64": "..."}}.'
      )
  checked = loaded.check(columns, signature)
  optional = {each["input"] for each in loaded.raw.values() if each["optional"]}
  for name, array in checked.items():
    # NaN is a missing value there.
    may_be_nan = signature == FROM_RAW and name in optional and array.dtype != object
    _require_finite(name, array[~np.isnan(array)] if may_be_nan else array)
  return Call(signature, checked, write)


def _are_bytes(values):
  return isinstance(values, list) and all(isinstance(value, bytes) for value in values)


def _require_finite(name, array):
  """Refuses NaN and infinity: they are no JSON although Python's parser takes them."""
  # Numbers such as 1e999 are JSON. Parsing or conversion makes them infinite.
  if array.dtype == object or np.issubdtype(array.dtype, np.integer):
    return
  finite = np.isfinite(array)
  if not finite.all():
    place = [int(index) for index in np.argwhere(~finite)[0]]
    raise errors.InputError(
      f"The feature {name!r} is {float(array[tuple(place)])} at {place}: expected finite numbers."
    )


def _of_examples(serialised, loaded):
  """Returns (signature, columns) of serialised Examples."""
  if not _are_bytes(serialised) or not serialised:
    raise errors.InputError(
      f'{signatures.EXAMPLES!r} must be serialised tf.train.Examples. JSON has them as {{"b64": '
      '"..."}.'
    )
  rows = [features.parse_example(item, loaded) for item in serialised]
  if any(row.keys() != rows[0].keys() for row in rows):
    raise errors.InputError("Some examples have columns or texts, and others have features.")
  return loaded.for_users, {name: [row[name] for row in rows] for name in rows[0]}
