"""Calls an input_fn, and checks its dataset before anything compiles.

The datasets of this file have elements in the form of `trainer.inputs`.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from trainer import errors, spec
from trainer.devices import tensorflow_behavior
from trainer.inputs import decodable, weights
from trainer.internals import tensorflow_internals
from trainer.tracing import seeds

_seeds = seeds.InputSeeds()

# AutoGraph would read and rewrite the source of a mapped function, which takes milliseconds.
_as_written = tf.autograph.experimental.do_not_convert


def call(
  input_fn: Callable[..., tf.data.Dataset],
  params: Mapping[str, Any],
  batch_size: int | None,
  seed: int,
  kind: str,
  input_context: tf.distribute.InputContext | None = None,
  start: int = 0,
) -> tf.data.Dataset:
  """Calls an input_fn.

  Args:
    input_fn: the function. It may take `params`, `input_context` and `start`.
    params: the input_fn gets a deep copy of it with "batch_size".
    batch_size: for params["batch_size"]; None to leave it out.
    seed: the base of the dataset's random numbers.
    kind: "train", "eval" or "predict", for messages.
    input_context: of this host. If the input_fn does not take it, every host makes the same batches
      and keeps its share of them.
    start: number of examples of the training data, over all hosts, already seen. An input_fn with
      the argument `start` begins there. For others the call reads and drops the examples.

  Returns:
    A dataset of tuples, (features,), (features, labels) or (features, labels, sample_weight).

  Raises:
    SettingError: input_fn is not callable, or needs an unknown argument.
    SpecError: it did not return a dataset of these, or of features.
    InputError: it raised an error.
  """
  if not callable(input_fn):
    raise errors.SettingError(
      f"The {kind} input_fn must be callable; got {input_fn!r}. In gin: "
      f"run.{kind}_input_fn = @my_data.input_fn."
    )
  name = f"{kind} input_fn {spec.name_of(input_fn)}"
  parameters = inspect.signature(input_fn).parameters
  arguments: dict[str, Any] = {}
  if "params" in parameters:
    arguments["params"] = spec.copy_params(params)
    if batch_size is not None:
      arguments["params"]["batch_size"] = batch_size
  if "input_context" in parameters:
    arguments["input_context"] = input_context or tf.distribute.InputContext()
  if "start" in parameters:
    arguments["start"] = start
  # Dataset.shuffle and others use this seed if the input_fn gives them none.
  with _seeds.set(input_fn, seed):
    returned = _returned(input_fn, arguments, name)
  tensorflow_behavior.check()  # an input_fn may import a module that changes it
  if not isinstance(returned, tf.data.Dataset):
    raise errors.SpecError(
      f"The {name} must return a tf.data.Dataset of features or of (features, "
      f"labels); it returned {_described(returned)}."
    )
  hosts = input_context.num_input_pipelines if input_context else 1
  dataset = returned
  if input_context is not None and hosts > 1 and "input_context" not in parameters:
    # Every host's pipeline makes the same batches, and each host keeps every n-th. So a step gets
    # the same examples as with one pipeline.
    dataset = dataset.shard(hosts, input_context.input_pipeline_id)
  if start and "start" not in parameters:
    assert batch_size is not None  # only a training has a start, and it has a batch size
    passed_over = start // (batch_size * hosts)
    logging.info(
      "The %s has no argument `start`: Octet reads it from its beginning, and skips %d batches "
      "that the training has seen.",
      name,
      passed_over,
    )
    dataset = dataset.skip(passed_over)
  dataset = _of_tuples(dataset, name)
  return weights.keep_labels(returned, decodable.keep_mark(returned, dataset))


def _returned(input_fn, arguments, name):
  """Returns an input_fn's result; turns its exception into an error that names it."""
  try:
    return input_fn(**arguments)
  except errors.OctetError:
    raise
  except Exception as error:
    missing = [
      each
      for each in spec.parameters_without_default(inspect.signature(input_fn).parameters)
      if each not in arguments
    ]
    # gin may have given it, and another TypeError may come from inside of the input_fn.
    if missing and isinstance(error, TypeError) and "required" in str(error):
      raise errors.SettingError(
        f"The {name} has the argument {missing[0]!r} without a value: expected params, "
        "input_context, start, or a default value."
      ) from error
    raise errors.InputError(f"The {name} raised {type(error).__name__}: {error}") from error


def _of_tuples(dataset, name):
  """Returns the dataset with tuples as elements; their last parts are not None."""
  element = dataset.element_spec
  if not isinstance(element, tuple):
    return dataset.map(_as_written(lambda features: (features,)))
  if len(element) not in (1, 2, 3):
    raise errors.SpecError(
      f"The {name} must return a dataset of features, of (features, labels) or of (features, "
      f"labels, sample_weight); its elements are tuples of {len(element)}."
    )
  given = [not isinstance(part, tensorflow_internals.NoneTensorSpec) for part in element]
  if given == [True, False, True]:
    raise errors.SpecError(f"The {name} gives a sample_weight and no labels (None).")
  count = sum(given)
  return (
    dataset if count == len(element) else dataset.map(_as_written(lambda *parts: parts[:count]))
  )


def _described(value):
  if value is None:
    return "None (missing return statement?)"
  if isinstance(value, tuple | list | dict) or tf.is_tensor(value):
    return (
      f"{type(value).__name__}: tensors must come from a dataset, as in "
      "tf.data.Dataset.from_tensors(...)"
    )
  return f"{type(value).__name__}"
