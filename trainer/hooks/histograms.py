"""Histograms of the weights, for TensorBoard.

Example:
    run.train_hooks = [@Histograms()]
    Histograms.steps = 500
"""

from trainer import run_config
from trainer.checkpoints import warm_start
from trainer.config import gin_names
from trainer.hooks import every
from trainer.reporting import summaries


@gin_names.configurable(module="trainer")
class Histograms:
  """Writes the distribution of each of a model's own variables, moving statistics too, beside the
  training's scalars.

  Args:
    steps: int > 0: at the multiples of so many steps.

  Raises:
    SettingError: steps is none.
  """

  def __init__(self, steps=500):
    run_config.require_positive_int(steps, "Histograms.steps")
    self._timer = every.Every(steps=steps)

  def begin(self, estimator):
    self._timer.restart(estimator.latest_step() or 0)

  def next_step(self, step):
    """See trainer.hooks."""
    return self._timer.next_step(step)

  def __call__(self, step, metrics, estimator):
    if not self._timer.due(step) or not estimator.device.is_chief:
      return
    variables = estimator.variables
    writer = summaries.Writer(estimator.model_dir)
    writer.histograms(
      step, {name: variables[name].numpy() for name in sorted(warm_start.model_names(variables))}
    )
    writer.close()
