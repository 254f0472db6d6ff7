"""Makes batches of features: reads and decodes files, checks values, and stacks the examples.

    for batch in prepare_batches(examples, loaded, batch_size=128):
      batch.names, batch.errors, batch.features

While the model predicts a batch, other threads read and decode the next ones.
"""

import collections
import concurrent.futures
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.cli import processes
from trainer.io import storage
from trainer.outputs.preprocessing import FROM_RAW
from trainer.serving.examples import Example
from trainer.serving.loaded_model import LoadedModel


@dataclasses.dataclass
class Batch:
  """A batch of examples.

  Attributes:
    names: of all examples, in order.
    errors: index of an unusable example → its reason.
    features: feature → array of the other examples in order; empty if there are none.
  """

  names: list[str]
  errors: dict[int, str]
  features: dict[str, np.ndarray]


def prepare_batches(
  examples: Iterable[Example], loaded: LoadedModel, batch_size: int, threads: int | None = None
) -> Iterator[Batch]:
  """Yields batches in order. Threads read and decode some batches ahead."""
  threads = threads or processes.cpu_count()
  waiting: collections.deque[concurrent.futures.Future[Batch]] = collections.deque()
  with concurrent.futures.ThreadPoolExecutor(threads) as pool:
    for chunk in _chunks(examples, batch_size):
      waiting.append(pool.submit(_prepare, chunk, loaded))
      # The limit bounds the memory: the decoded files of a whole folder may not fit.
      if len(waiting) > threads + 1:
        yield waiting.popleft().result()
    while waiting:
      yield waiting.popleft().result()


def _chunks(examples, size):
  chunk = []
  for example in examples:
    chunk.append(example)
    if len(chunk) == size:
      yield chunk
      chunk = []
  if chunk:
    yield chunk


def _prepare(chunk, loaded):
  failed = {place: example.error for place, example in enumerate(chunk) if example.error}
  rows = {}
  for place, example in enumerate(chunk):
    if place not in failed:
      try:
        rows[place] = _values(example, loaded)
      except errors.OctetError as error:
        failed[place] = str(error)
  try:
    features = features_of(list(rows.values()), loaded) if rows else {}
  except errors.OctetError:  # One example does not fit: a batch of each alone finds it.
    usable = []
    for place, values in rows.items():
      try:
        usable.append(features_of([values], loaded))
      except errors.OctetError as error:
        failed[place] = str(error)
    features = {
      name: np.concatenate([one[name] for one in usable]) for name in loaded.inputs if usable
    }
  return Batch([example.name for example in chunk], dict(sorted(failed.items())), features)


def features_of(rows: Sequence[Mapping[str, Any]], loaded: LoadedModel) -> dict[str, np.ndarray]:
  """Makes the features of examples from their values, raw or not, and checks them.

  Raises:
    InputError: the values do not fit the model.
  """
  are_raw = {row.keys() == loaded.raw.keys() for row in rows}
  if are_raw == {True} and loaded.preprocess is not None:
    given = {name: [row[name] for row in rows] for name in loaded.raw}
    return loaded.preprocess(loaded.check(given, FROM_RAW))
  if len(are_raw) > 1:
    raise errors.InputError("Some examples have columns or texts, and others have features.")
  columns: dict[str, Any] = {name: [row[name] for row in rows] for name in loaded.inputs}
  for name in loaded.decoders:
    if all(isinstance(value, bytes) for value in columns[name]):
      columns[name] = loaded.decode(name, columns[name])
    elif any(isinstance(value, bytes) for value in columns[name]):
      raise errors.InputError(f"{name!r} is a file for some examples and numbers for others.")
  return loaded.check(columns)


def _values(example, loaded):
  """Returns an example's content for each feature: bytes of a file, or a value."""
  if example.record is not None:
    return parse_example(example.record, loaded)
  values = dict(example.values)
  for name, path in example.paths.items():
    try:
      values[name] = storage.read(path, "rb")
    except tf.errors.OpError as error:
      raise errors.InputError(f"Cannot read {path}: {error.message}") from error
  return values


def parse_example(content: bytes, loaded: LoadedModel) -> dict[str, Any]:
  """Returns the values of a serialised tf.train.Example, in the shapes that the model takes.

  An optional column may be missing in the Example.

  Raises:
    InputError: the content is no Example, or does not fit the model.
  """
  try:
    stored = tf.train.Example.FromString(content).features.feature
  except Exception as error:  # the protobuf library has errors of its own
    raise errors.InputError(f"it is no tf.train.Example: {error}") from error
  values: dict[str, Any] = {}
  taken = loaded.takes(stored)
  missing = [name for name in sorted(taken) if name not in stored]
  if required := [repr(name) for name in missing if not taken[name].get("optional")]:
    raise errors.InputError(
      f"it has no feature {', '.join(required)}; it has {', '.join(sorted(stored))}."
    )
  for name, spec in taken.items():
    if name in missing:
      values[name] = None
      continue
    kind = stored[name].WhichOneof("kind")
    found = list(getattr(stored[name], kind).value) if kind else []
    if name in loaded.decoders or spec["dtype"] == "string":
      if kind != "bytes_list" or not found:
        raise errors.InputError(f"its feature {name!r} has no bytes.")
      takes_one = len(spec["shape"]) == 1 or name in loaded.decoders
      if takes_one and len(found) > 1:
        raise errors.InputError(f"its feature {name!r} has {len(found)} values; expected one.")
      values[name] = found[0] if takes_one else found
      continue
    shape = spec["shape"][1:]
    try:
      if kind == "bytes_list":
        raise ValueError("bytes are no numbers")
      # An axis of any size, such as the length of a text, takes what the others leave.
      values[name] = np.reshape(found, [-1 if size is None else size for size in shape])
    except ValueError:
      raise errors.InputError(
        f"its feature {name!r} has {len(found)} values; the model takes {spec['dtype']}{shape}."
      ) from None
  return values
