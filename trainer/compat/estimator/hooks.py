"""The hooks of tf.train and tf.estimator, without sessions. The arguments are 2.15's."""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from trainer import errors
from trainer import run_config as octet_config
from trainer.compat.graph_mode import listeners as listeners_lib
from trainer.compat.graph_mode import notes
from trainer.compat.graph_mode.session_hooks import NativeHook

v1 = tf.compat.v1


class Timer(v1.train.SecondOrStepTimer):
  """Fires at the first step, then at an interval of steps or seconds."""

  def __init__(self, every_steps: int | None, every_secs: float | None, who: str):
    if (every_steps is None) == (every_secs is None):
      raise ValueError(f"{who}: exactly one of steps and seconds must be given.")
    super().__init__(every_secs=every_secs, every_steps=every_steps)

  def next_step(self, step: int) -> int | None:
    """Returns the next step to fire at, or None for an interval of seconds."""
    if self._every_steps is None:
      return None
    last = self.last_triggered_step()
    return step + 1 if last is None else last + self._every_steps


class PeriodicHook(NativeHook):
  """A hook that acts at an interval of steps or seconds.

  Attributes:
    timer: its Timer; None for a hook that never acts on its own.
  """

  timer: Timer | None = None

  def next_step(self, step: int) -> int | None:
    return None if self.timer is None else self.timer.next_step(step)

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    if self.timer is None or not self.timer.should_trigger_for_step(step):
      return False
    seconds, steps = self.timer.update_last_triggered_step(step)
    return bool(self.act(step, estimator, seconds, steps))

  def act(self, step: int, estimator: Any, seconds: float | None, steps: int | None) -> Any:
    """Acts; returns whether to end the training.

    Args:
      seconds, steps: since the last time; None at the first time.
    """
    raise NotImplementedError


class LoggingTensorHook(PeriodicHook):
  """Logs tensors at an interval of steps or seconds.

  Args:
    tensors: dict of tag → tensor or its name, or a list of tensors or names.
  """

  def __init__(
    self,
    tensors: Any,
    every_n_iter: int | None = None,
    every_n_secs: float | None = None,
    at_end: bool = False,
    formatter: Callable[[dict[str, Any]], str] | None = None,
  ):
    only_at_end = at_end and every_n_iter is None and every_n_secs is None
    if not only_at_end:
      self.timer = Timer(every_n_iter, every_n_secs, "LoggingTensorHook")
    if not isinstance(tensors, Mapping):
      tensors = {tensor if isinstance(tensor, str) else tensor.name: tensor for tensor in tensors}
    self._tensors = dict(tensors)
    self._at_end = at_end
    self._formatter = formatter
    self._fetched: dict[str, Any] = {}

  def attach(self, step: Any) -> None:
    self._fetched = {tag: step.fetch(tensor, self) for tag, tensor in self._tensors.items()}

  def act(self, step: int, estimator: Any, seconds: float | None, steps: int | None) -> None:
    self._log(seconds)

  def stop(self, step: int, estimator: Any) -> None:
    if self._at_end:
      self._log(None)

  def _log(self, seconds: float | None) -> None:
    values = {tag: fetched.value() for tag, fetched in self._fetched.items()}
    if self._formatter is not None:
      logging.info("%s", self._formatter(values))
      return
    text = ", ".join(f"{tag} = {value}" for tag, value in values.items())
    logging.info("%s%s", text, "" if seconds is None else f" ({seconds:.3f} sec)")


class StopAtStepHook(NativeHook):
  """Ends a training after num_steps, or at last_step."""

  def __init__(self, num_steps: int | None = None, last_step: int | None = None):
    if (num_steps is None) == (last_step is None):
      raise ValueError("StopAtStepHook: exactly one of num_steps and last_step must be given.")
    self._num_steps, self._last_step = num_steps, last_step

  def start(self, estimator: Any) -> None:
    if self._num_steps is not None:
      self._last_step = (estimator.latest_step() or 0) + self._num_steps

  def next_step(self, step: int) -> int | None:
    return self._last_step

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    return step >= self._last_step


class CheckpointSaverHook(PeriodicHook):
  """Saves checkpoints at an interval of steps or seconds, in model_dir."""

  def __init__(
    self,
    checkpoint_dir: str,
    save_secs: float | None = None,
    save_steps: int | None = None,
    saver: Any = None,
    checkpoint_basename: str = "model.ckpt",
    scaffold: Any = None,
    listeners: Any = None,
    save_graph_def: bool = True,
  ):
    del saver, scaffold, save_graph_def
    self._directory = octet_config.absolute_dir(checkpoint_dir)
    self.timer: Timer = Timer(save_steps, save_secs, "CheckpointSaverHook")
    self._given = list(listeners or [])
    self._listeners: list[Any] = []
    if checkpoint_basename != "model.ckpt":
      notes.tell_once("CheckpointSaverHook: Octet always names checkpoints model.ckpt-<step>.")

  def start(self, estimator: Any) -> None:
    if self._directory != estimator.model_dir:
      raise errors.SettingError(
        f"CheckpointSaverHook({self._directory!r}): checkpoints go to the model_dir, "
        f"{estimator.model_dir!r}; give that."
      )
    self._listeners = [
      listeners_lib.Listener(one, lambda: estimator.variables) for one in self._given
    ]
    for listener in self._listeners:
      listener.begin()
    step = estimator.latest_step() or 0
    if self._listeners:
      self._save(step, estimator)
    self.timer.update_last_triggered_step(step)

  def act(self, step: int, estimator: Any, seconds: float | None, steps: int | None) -> bool:
    return self._save(step, estimator)

  def stop(self, step: int, estimator: Any) -> None:
    # Octet has written the last checkpoint, but a listener may change variables in before_save.
    if self._listeners and step != self.timer.last_triggered_step():
      self._save(step, estimator)
    for listener in self._listeners:
      listener.end(None, step)

  def _save(self, step: int, estimator: Any) -> bool:
    """Saves; returns whether a listener ends the training."""
    for listener in self._listeners:
      listener.before_save(None, step)
    estimator.save_checkpoint()
    stop = False
    for listener in self._listeners:
      estimator.wait_for_checkpoint()
      stop = bool(listener.after_save(None, step)) or stop
    return stop


class AsyncCheckpointSaverHook(CheckpointSaverHook):
  """As CheckpointSaverHook. With either, the training continues while Octet writes a checkpoint."""


class StepCounterHook(PeriodicHook):
  """Logs steps per second, and writes them to output_dir or to the summary_writer."""

  def __init__(
    self,
    every_n_steps: int | None = 100,
    every_n_secs: float | None = None,
    output_dir: str | None = None,
    summary_writer: Any = None,
  ):
    if every_n_secs is not None and every_n_steps == 100:
      every_n_steps = None
    self.timer = Timer(every_n_steps, every_n_secs, "StepCounterHook")
    self._output_dir = output_dir
    self._summary_writer = summary_writer
    self._summary_tag = "global_step/sec"

  def start(self, estimator: Any) -> None:
    if self._summary_writer is None and self._output_dir:
      with tf.Graph().as_default():  # TensorFlow makes such writers in graphs alone
        self._summary_writer = v1.summary.FileWriterCache.get(self._output_dir)

  def act(self, step: int, estimator: Any, seconds: float | None, steps: int | None) -> None:
    if seconds:
      self._log_and_record(steps, seconds, step)

  def stop(self, step: int, estimator: Any) -> None:
    if self._summary_writer is not None:
      self._summary_writer.flush()

  def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
    """Logs and writes at each interval; programs extend it."""
    rate = elapsed_steps / elapsed_time
    if self._summary_writer is not None:
      value = v1.Summary.Value(tag=self._summary_tag, simple_value=rate)
      self._summary_writer.add_summary(v1.Summary(value=[value]), global_step)
    logging.info("%s: %g", self._summary_tag, rate)


class SummarySaverHook(NativeHook):
  """Accepts the arguments and does nothing: Octet writes the model_fn's scalars every
  save_summary_steps.
  """

  def __init__(
    self,
    save_steps: int | None = None,
    save_secs: float | None = None,
    output_dir: str | None = None,
    summary_writer: Any = None,
    scaffold: Any = None,
    summary_op: Any = None,
  ):
    del save_steps, save_secs, output_dir, summary_writer, scaffold, summary_op
    notes.tell_once(
      "SummarySaverHook: Octet writes the scalars of the model_fn every "
      "RunConfig.save_summary_steps to model_dir; the hook itself writes nothing."
    )

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    return False


class ProfilerHook(PeriodicHook):
  """Profiles one loop at an interval of steps or seconds, for TensorBoard's profiler."""

  def __init__(
    self,
    save_steps: int | None = None,
    save_secs: float | None = None,
    output_dir: str = "",
    show_dataflow: bool = True,
    show_memory: bool = False,
  ):
    del show_dataflow, show_memory
    self.timer = Timer(save_steps, save_secs, "ProfilerHook")
    self._directory = output_dir
    self._is_on = False

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    if not self._is_on:
      return super().__call__(step, metrics, estimator)
    self.stop(step, estimator)
    return False

  def act(self, step: int, estimator: Any, seconds: float | None, steps: int | None) -> None:
    tf.profiler.experimental.start(self._directory or estimator.model_dir)
    self._is_on = True

  def stop(self, step: int, estimator: Any) -> None:
    if self._is_on:
      tf.profiler.experimental.stop()
      self._is_on = False


class GlobalStepWaiterHook(NativeHook):
  """Does not wait: workers train together."""

  def __init__(self, wait_until_step: int):
    del wait_until_step

  def __call__(self, step: int, metrics: dict[str, float], estimator: Any) -> bool:
    return False
