"""tf.contrib.learn: names that later became names of tf.estimator, and experiments."""

from collections.abc import Callable, Iterable
from typing import Any

from trainer.compat.estimator import training

__all__ = ["Experiment", "ModeKeys"]


class ModeKeys:
  """The modes, under the names of tf.estimator and of tf.contrib.learn."""

  TRAIN = "train"
  EVAL = "eval"
  INFER = PREDICT = "infer"


class Experiment:
  """An Estimator of tf.estimator and its inputs, for learn_runner.run.

  Args:
    estimator: the Estimator.
    train_input_fn, eval_input_fn: the inputs.
    eval_metrics: None. The metrics of a tf.estimator.Estimator are its model_fn's.
    train_steps: the global step at which a training ends; None trains to the end of the data.
    eval_steps: the number of batches of an evaluation.
    train_monitors, eval_hooks: hooks.
    min_eval_frequency: 0 evaluates only at the end of train_and_evaluate. Any other value, and
      None, evaluates after each checkpoint, too.
    export_strategies: None. Exports are those of estimator.train_and_evaluate.
    saving_listeners: CheckpointSaverListeners of the training.
    **delays: `eval_delay_secs` and other arguments for several processes; they have no effect.
  """

  def __init__(
    self,
    estimator: Any,
    train_input_fn: Callable[..., Any],
    eval_input_fn: Callable[..., Any],
    eval_metrics: None = None,
    train_steps: int | None = None,
    eval_steps: int | None = 100,
    train_monitors: Iterable[Any] | None = None,
    eval_hooks: Iterable[Any] | None = None,
    local_eval_frequency: int | None = None,
    min_eval_frequency: int | None = None,
    export_strategies: Any = None,
    saving_listeners: Iterable[Any] | None = None,
    **delays: Any,
  ):
    del local_eval_frequency
    unknown = sorted(delays.keys() - _OF_SEVERAL_PROCESSES)
    if unknown:
      raise TypeError(f"Experiment() got an unexpected argument: {', '.join(unknown)}.")
    if eval_metrics is not None:
      raise ValueError("`eval_metrics` must be None with `tf.estimator.Estimator`")
    if export_strategies is not None:
      raise ValueError(
        "Octet does not support Experiment(export_strategies=...): give an "
        "estimator.LatestExporter to the EvalSpec of estimator.train_and_evaluate."
      )
    self._estimator, self._train_input_fn, self._eval_input_fn = (
      estimator,
      train_input_fn,
      eval_input_fn,
    )
    self._train_steps, self._eval_steps = train_steps, eval_steps
    self._train_hooks, self._eval_hooks = list(train_monitors or ()), list(eval_hooks or ())
    self._min_eval_frequency = min_eval_frequency
    self._listeners = list(saving_listeners or ())

  @property
  def estimator(self) -> Any:
    return self._estimator

  @property
  def train_steps(self) -> int | None:
    return self._train_steps

  @property
  def eval_steps(self) -> int | None:
    return self._eval_steps

  def extend_train_hooks(self, additional_hooks: Iterable[Any]) -> None:
    """Adds hooks to the training."""
    self._train_hooks += additional_hooks

  def train(self, delay_secs: float | None = None) -> Any:
    """Trains to the global step train_steps, and returns the Estimator."""
    del delay_secs
    return self._estimator.train(
      self._train_input_fn,
      max_steps=self._train_steps,
      hooks=self._train_hooks,
      saving_listeners=self._listeners,
    )

  def evaluate(self, delay_secs: float | None = None, name: str | None = None) -> dict[str, Any]:
    """Returns the metrics of the last checkpoint."""
    del delay_secs
    return self._estimator.evaluate(
      self._eval_input_fn, steps=self._eval_steps, hooks=self._eval_hooks, name=name
    )

  def train_and_evaluate(self) -> tuple[dict[str, Any], list]:
    """Trains and evaluates. Returns (the metrics at the end, [])."""
    if self._min_eval_frequency == 0:
      self.train()
      return self.evaluate(), []
    return training.train_and_evaluate(
      self._estimator,
      training.TrainSpec(
        self._train_input_fn,
        max_steps=self._train_steps,
        hooks=self._train_hooks,
        saving_listeners=self._listeners,
      ),
      training.EvalSpec(
        self._eval_input_fn, steps=self._eval_steps, hooks=self._eval_hooks, throttle_secs=0
      ),
    )


_OF_SEVERAL_PROCESSES = {
  "check_interval_secs",
  "checkpoint_and_export",
  "continuous_eval_throttle_secs",
  "delay_workers_by_global_step",
  "eval_delay_secs",
  "train_steps_per_iteration",
}
