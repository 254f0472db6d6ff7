"""Input: calls an input_fn, checks what comes back before anything is compiled, and cuts it into
steps.

An element of every dataset that leaves this file is a tuple, `(features,)` or `(features, labels)`,
of nests of dense tensors whose first axis is the batch of one core. Training takes the elements in
turn, one for each replica. Evaluation and prediction take *groups*: `(element, rows)` with one more
axis in front, one entry for each replica, and rows (int64 [replicas]) telling how many examples of
each entry are real; the tail of a set is padded so that every shape is static.
"""

import contextlib
import inspect

import tensorflow as tf
from absl import logging

from trainer import errors, spec
from trainer.devices import tensorflow_behavior
from trainer.inputs import decodable
from trainer.internals import tensorflow_internals
from trainer.tracing import seeds

_seeds = seeds.InputSeeds()


def call(input_fn, params, batch_size, seed, kind, input_context=None, start=0):
  """Calls an input_fn.

  Args:
    input_fn: `input_fn(params)`, also with `input_context` and `start`.
    params: dict, of which the input_fn gets a copy with "batch_size".
    batch_size: int for params["batch_size"], or None to leave it out.
    seed: int; the random numbers that the dataset draws come from it.
    kind: "train", "eval" or "predict", for messages.
    input_context: a tf.distribute.InputContext, given if input_fn takes it; if it does not, the
      pipelines of several hosts share out its batches.

    start: how many examples of the training data, over all pipelines, were seen before. An input_fn
      that takes `start` begins there at once; of one that does not, so many are read and passed
      over.

  Returns:
    A tf.data.Dataset of tuples, (features,) or (features, labels).

  Raises:
    SettingError: input_fn is not callable.
    SpecError: it returned something else than a dataset of features or of (features, labels).
    InputError: it raised.
  """
  if not callable(input_fn):
    raise errors.SettingError(
      f"The {kind} input_fn must be callable; got {input_fn!r}. In gin: "
      f"run.{kind}_input_fn = @my_data.input_fn."
    )
  name = f"{kind} input_fn {spec.name_of(input_fn)}"
  arguments = {}
  parameters = inspect.signature(input_fn).parameters
  if "params" in parameters:
    arguments["params"] = (
      dict(params) if batch_size is None else dict(params, batch_size=batch_size)
    )
  if "input_context" in parameters:
    arguments["input_context"] = input_context or tf.distribute.InputContext()
  if "start" in parameters:
    arguments["start"] = start
  try:
    # From which Dataset.shuffle and its like draw when the input_fn gives no seed.
    with _seeds.set(input_fn, seed):
      dataset = input_fn(**arguments)
  except errors.OctetError:
    raise
  except Exception as error:
    raise errors.InputError(f"The {name} raised {type(error).__name__}: {error}") from error
  tensorflow_behavior.check()  # an input_fn may import a module that changes it
  if not isinstance(dataset, tf.data.Dataset):
    raise errors.SpecError(
      f"The {name} must return a tf.data.Dataset of features or of (features, "
      f"labels); it returned {_described(dataset)}."
    )
  said = dataset
  if (
    input_context is not None
    and input_context.num_input_pipelines > 1
    and "input_context" not in parameters
  ):
    # Each of the pipelines gives the same batches; they take turns. What one step sees is then what
    # it would see with one pipeline.
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
  if start and "start" not in parameters:
    passed_over = start // (
      batch_size * (input_context.num_input_pipelines if input_context else 1)
    )
    logging.info(
      "The %s has no argument `start`: it is read from its beginning, and %d batches, "
      "seen before, are passed over.",
      name,
      passed_over,
    )
    dataset = dataset.skip(passed_over)
  element = dataset.element_spec
  if not isinstance(element, tuple):
    return decodable.keep_mark(said, dataset.map(lambda features: (features,)))
  if len(element) == 2 and isinstance(element[1], tensorflow_internals.NoneTensorSpec):
    return decodable.keep_mark(said, dataset.map(lambda features, labels: (features,)))
  if len(element) != 2:
    raise errors.SpecError(
      f"The {name} must return a dataset of features or of (features, "
      f"labels); its elements are tuples of {len(element)}."
    )
  return decodable.keep_mark(said, dataset)


@contextlib.contextmanager
def translate_read_errors(input_fn, kind, failed_in_input=lambda: None):
  """Says of what goes wrong in reading a dataset whose input_fn it is.

  Args:
    failed_in_input: tells whether an error came from the dataset, and not from what was done with
      its batches; None if it cannot tell.

  Raises:
    InputError: an operation of the dataset failed inside.
  """
  try:
    yield
  except tf.errors.OutOfRangeError:
    raise
  except tf.errors.OpError as error:
    if failed_in_input() is False or (
      failed_in_input() is None and "IteratorGetNext" not in error.message
    ):
      raise
    what = error.message.split("[[", maxsplit=1)[0].strip().removeprefix("{{function_node").strip()
    lines = [line.strip() for line in what.splitlines() if line.strip()]
    raise errors.InputError(
      f"The {kind} input_fn {spec.name_of(input_fn)} failed while it was "
      f"read: {' '.join(lines)[:500]}"
    ) from error


def _described(value):
  if value is None:
    return "None (is a return statement missing?)"
  if isinstance(value, tuple | list | dict) or tf.is_tensor(value):
    return (
      f"{type(value).__name__}: tensors have to come from a dataset, as in "
      "tf.data.Dataset.from_tensors(...)"
    )
  return f"{type(value).__name__}"
