"""A SavedModel's inputs: the features of an input_fn, or the tensors of a receiver function.

    inputs = of_dataset("eval", dataset)             # {"image": float32 [None, 28, 28, 1]}
    inputs = of_receiver(serving_input_receiver_fn)  # what its placeholders take

A feature has its name in the model_fn: "image" for features["image"], "pair_0" for
features["pair"][0], "features" for a single tensor. TensorFlow's signatures have ASCII letters,
digits and underscores alone: "mean radius" is mean_radius there.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.inputs import decodable, elements

v1 = tf.compat.v1

# Function of a number that returns at most so many examples: (features by their served names,
# labels or None).
Sample = Callable[[int], tuple[dict[str, np.ndarray], np.ndarray | None]]


@dataclasses.dataclass(frozen=True)
class ServedInputs:
  """The inputs of a SavedModel.

  Attributes:
    spec: nest of tf.TensorSpec with the served names, and None for the batch.
    feature_spec: nest of tf.TensorSpec: the features of the model_fn.
    to_features: function from tensors like `spec` to the features.
    decoders: feature → function that decodes it from bytes; {} for a receiver function.
    raw: the user's data instead of the features, or None.
    sample: reads examples of the data; None for a receiver function.
  """

  spec: Any
  feature_spec: Any
  to_features: Callable[[Any], Any] = lambda received: received
  decoders: Mapping[str, Callable] = dataclasses.field(default_factory=dict)
  raw: decodable.Raw | None = None
  sample: Sample | None = None

  @property
  def are_features(self) -> bool:
    """Whether the inputs are the features themselves, without a receiver function."""
    return self.spec is self.feature_spec

  @property
  def by_name(self) -> dict[str, tf.TensorSpec]:
    """The specs by their served names."""
    return {leaf.name: leaf for leaf in tf.nest.flatten(self.spec)}

  def pack(self, by_name: Mapping[str, Any]) -> Any:
    """Returns tensors by name in the structure of `spec`."""
    # `self.by_name` has the order of tf.nest.flatten, as pack_sequence_as needs it.
    return tf.nest.pack_sequence_as(self.spec, [by_name[name] for name in self.by_name])


def of_dataset(
  kind: str | None, dataset: tf.data.Dataset | None, decoders: Mapping[str, Callable] | None = None
) -> ServedInputs:
  """Returns the features of a dataset.

  Args:
    kind: of the input_fn, see `Feeder.feature_dataset`.
    dataset: see `Feeder.feature_dataset`.
    decoders: feature → decoder, instead of the dataset's marks.

  Raises:
    SettingError: there is no dataset.
  """
  if kind is None or dataset is None:
    raise errors.SettingError(
      "export_saved_model does not know the features of the model: give serving_input_receiver_fn, "
      "or evaluate first."
    )
  spec = free_batch(dataset.element_spec[0])
  return ServedInputs(
    spec,
    spec,
    decoders={
      _plain(name): decode
      for name, decode in (decodable.decoders_of(dataset) if decoders is None else decoders).items()
    },
    raw=decodable.raw_of(dataset) if decoders is None else None,
    sample=lambda count: _read(dataset, kind, count),
  )


def free_batch(feature_spec: Any) -> Any:
  """Makes the batch axis of each spec unknown, and gives each its served name.

  Args:
    feature_spec: a nest of tf.TensorSpec.

  Returns:
    The same nest of new specs.

  Raises:
    SettingError: two features would have the same served name.
  """
  specs = [
    tf.TensorSpec([None, *leaf.shape.as_list()[1:]], leaf.dtype, _served_name(path))
    for path, leaf in elements.named_leaves((feature_spec,))
  ]
  names = [input_name(each.name) for each in specs]
  if twice := next((name for name in names if names.count(name) > 1), None):
    raise errors.SettingError(
      f"Two features have the name {twice!r} in an export, whose names have ASCII letters, digits "
      "and underscores alone: rename one in the input_fn and the model_fn."
    )
  return tf.nest.pack_sequence_as(feature_spec, specs)


def input_name(name: str) -> str:
  """Returns a signature's name of an input: only letters, digits and underscores."""
  return re.sub(r"\W", "_", name, flags=re.ASCII)


def _served_name(path):
  """Returns the served name of a leaf.

  `image` for `features["image"]`, `pair_0` for `features["pair"][0]`, `features` for `features`.
  """
  name = ""
  for key, index in re.findall(r'\["([^"]*)"\]|\[(\d+)\]', path):
    name += f"_{index}" if index else f"/{key}"
  return _plain(name) or _plain(path)


def _plain(name):
  """Returns a name that TensorFlow accepts for a placeholder."""
  return re.sub(r"[^\w/]", "_", name, flags=re.ASCII).strip("/_")


def _read(dataset, kind, count):
  """Reads the first examples of a dataset, see `Sample`."""
  features: dict[str, list[np.ndarray]] = {}
  labels, rows = [], 0
  for element in dataset.as_numpy_iterator():
    for path, array in elements.named_leaves(element[:1]):
      features.setdefault(_served_name(path), []).append(array)
    if len(element) > 1 and isinstance(element[1], np.ndarray):
      labels.append(element[1])
    rows += len(array)
    if rows >= count:
      break
  if not rows:
    raise errors.InputError(f"The {kind} input_fn gives no batch to check the export with.")
  return {name: np.concatenate(parts)[:count] for name, parts in features.items()}, (
    np.concatenate(labels)[:count] if labels else None
  )


def of_receiver(serving_input_receiver_fn: Callable) -> ServedInputs:
  """Traces a receiver function, as TPUEstimator programs write it.

  Args:
    serving_input_receiver_fn: makes placeholders and returns an object with `features` and
      `receiver_tensors`, or a pair of both.
  """
  made = []  # wrap_function returns flat tensors; the structure leaves `make` through this list.

  def make():
    result = serving_input_receiver_fn()
    features, received = (
      result
      if isinstance(result, tuple) and len(result) == 2
      else (result.features, result.receiver_tensors)
    )
    made.append((features, {"input": received} if tf.is_tensor(received) else received))
    return tf.nest.flatten(features)

  graph_function = v1.wrap_function(make, [])
  features, received = made[0]
  pruned = graph_function.prune(tf.nest.flatten(received), tf.nest.flatten(features))
  # Signatures take tensors by the names that the function gives them.
  spec = (
    {name: tf.TensorSpec(t.shape, t.dtype, _plain(name)) for name, t in received.items()}
    if isinstance(received, dict)
    else tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype, t.op.name), received)
  )
  return ServedInputs(
    spec,
    tf.nest.map_structure(lambda t: tf.TensorSpec(t.shape, t.dtype), features),
    lambda tensors: tf.nest.pack_sequence_as(features, pruned(*tf.nest.flatten(tensors))),
  )
