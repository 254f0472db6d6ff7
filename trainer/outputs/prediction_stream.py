"""Predictions of an Estimator, example by example, in the order of the input."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainer import errors
from trainer.checkpoints import leases, model_values, reader
from trainer.devices import workers as workers_lib
from trainer.hooks import hook_list, session_run
from trainer.hooks.estimator_protocol import Estimator
from trainer.inputs import read_errors
from trainer.loop import thread_lock, watchdog
from trainer.programs import loop_input, step_errors
from trainer.programs import step as step_lib
from trainer.settings.kinds import Kind


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predictor:
  """Predicts with a model.

  Attributes:
    program: the Program.
    inputs: makes the input of each kind.
    values: of the program's variables.
    thread_lock: of the Estimator: a stream holds it for each batch, since others may use the model
      before the caller asks for the next one.
    workers: of the Estimator.
    watchdog: of the Estimator.
  """

  program: step_lib.Program
  inputs: loop_input.LoopInputs
  values: model_values.ModelValues
  thread_lock: thread_lock.ThreadLock
  workers: workers_lib.Workers
  watchdog: watchdog.Watchdog

  def stream(
    self,
    source: Callable | loop_input.LoopInput,
    estimator: Estimator,
    hooks: Sequence[Any] | None,
    *,
    keys: Sequence[str] | None,
    checkpoint_path: str | os.PathLike | None,
    one_by_one: bool,
    with_examples: bool,
  ) -> Iterator[Any]:
    """Prepares a prediction and returns the generator of predictions.

    For the other arguments and the errors see Estimator.predict.

    Args:
      source: the predict input_fn, or its LoopInput.
      estimator: the hooks' argument.
      hooks: list of hooks, or None.
      keys: of the predictions, or None for all.
      checkpoint_path: the checkpoint; None for the newest.
      one_by_one: whether to yield examples, or batches.
      with_examples: whether to yield pairs of a prediction and its example.
    """
    # Without a checkpoint this raises before anything compiles.
    self.values.source(checkpoint_path)
    predict_input = self.inputs.call_and_trace(Kind.PREDICT, source)
    specification = predict_input.traced.step.specification
    _check_keys(keys, specification.predictions)
    names = self.program.calls.call_scaffold_fn(Kind.PREDICT)
    with contextlib.ExitStack() as reading:

      def begin():
        checkpoint = self.values.source(checkpoint_path)
        # Held until the generator ends: the generator reads the checkpoint again after another call
        # has used the variables between two batches.
        with contextlib.ExitStack() as held:
          held.enter_context(leases.hold(checkpoint))
          with self.values.reload_for_inference(checkpoint, names):  # Finds values that do not fit.
            reading.push(held.pop_all())
        return checkpoint

      checkpoint = leases.until_served(begin)
      all_hooks = hook_list.HookList(
        session_run.adapt([*(hooks or []), *(specification.prediction_hooks or [])], "predict"),
        estimator,
      )
      groups = predict_input.traced.run(
        predict_input.iterator, predict_input.elements, with_examples
      )
      stream = self._batches_or_examples(
        predict_input.input_fn,
        groups,
        checkpoint,
        keys,
        one_by_one,
        with_examples,
        all_hooks,
        reading.pop_all(),
      )
    # Python runs the end of an unread generator only if its beginning has run.
    next(stream)
    return stream

  def _batches_or_examples(
    self, input_fn, groups, checkpoint, keys, one_by_one, with_examples, hooks, reading
  ):
    names = self.program.calls.call_scaffold_fn(Kind.PREDICT)
    with reading:
      yield
      has_begun = False
      while True:
        leases.renew()
        with (
          self.thread_lock.hold("predict"),
          self.workers.watch(),
          _explain_gone(),
          # Another call may have used the variables since the last `next()`.
          self.values.reload_for_inference(checkpoint, names),
        ):
          if not has_begun:
            has_begun = True
            # After the load: a hook may assign other values, which the batches keep.
            hooks.begin()
            self.values.keep_assigned()
          with (
            step_errors.of_step(self.program.calls.model_name, Kind.PREDICT),
            read_errors.translate(input_fn, Kind.PREDICT),
            self.watchdog.stage("a batch to predict"),
          ):
            result = next(groups, None)
            step = int(self.program.global_step.numpy())
        if result is None:
          break
        predictions, element = result
        if keys is not None:
          predictions = {key: predictions[key] for key in keys}
        batch = (predictions, element) if with_examples else predictions
        if one_by_one:
          yield from _examples(batch)
        else:
          yield batch
    hooks.call(step, {})
    hooks.end(step)


@contextlib.contextmanager
def _explain_gone():
  """Says why Octet reads a checkpoint again; without a lease it may be gone."""
  try:
    yield
  except reader.GoneError as error:
    raise errors.CheckpointNotFoundError(
      f"predict: {error} Octet had to read it again, since another call used this Estimator "
      "between two predictions: use another Estimator for that call."
    ) from error


def _check_keys(keys, predictions):
  if keys is None:
    return
  if not isinstance(predictions, dict):
    raise errors.SettingError(
      f"predict: predict_keys={keys!r} need a dict of predictions; model_fn gives one tensor."
    )
  unknown = [key for key in keys if key not in predictions]
  if unknown:
    raise errors.SettingError(
      f"predict: predict_keys has {unknown[0]!r}; the predictions are "
      f"{', '.join(sorted(predictions))}."
    )


def _examples(batch):
  """The examples of a nest of arrays, each in the same structure."""
  # The usual case by itself: tf.nest takes ten times as long.
  if type(batch) is dict and all(isinstance(value, np.ndarray) for value in batch.values()):
    for values in zip(*batch.values(), strict=True):
      yield dict(zip(batch, values, strict=True))
    return
  for i in range(len(tf.nest.flatten(batch)[0])):
    yield tf.nest.map_structure(lambda array, i=i: array[i], batch)
