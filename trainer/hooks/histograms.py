"""A hook that writes histograms of the weights for TensorBoard.

Example:
    run.train_hooks = [@Histograms()]
    Histograms.steps = 500
"""

from collections.abc import Mapping

from trainer.checkpoints import own_names
from trainer.config import gin_names
from trainer.hooks import every
from trainer.hooks.estimator_protocol import Estimator
from trainer.reporting import summaries
from trainer.settings import setting_types


@gin_names.configurable(module="trainer")
class Histograms:
  """Writes a histogram of each variable of the model, moving statistics included.

  It leaves out the optimizer's variables. The files are in model_dir, where the training's scalars
  are.

  Args:
    steps: int > 0; it writes histograms at its multiples.

  Raises:
    SettingError: steps is not an int > 0.
  """

  reads_variables = False

  def __init__(self, steps: setting_types.Count = 500) -> None:
    self._timer = every.Every(steps=steps)

  def begin(self, estimator: Estimator) -> None:
    """Starts the timer at the checkpoint's step."""
    self._timer.restart(estimator.latest_step() or 0)

  def next_step(self, step: int) -> int | None:
    """Returns the next step with histograms."""
    return self._timer.next_step(step)

  def __call__(self, step: int, metrics: Mapping[str, float], estimator: Estimator) -> None:
    """Writes the histograms if they are due."""
    if not self._timer.due(step):
      return
    variables = estimator.variables  # All hosts of XLA devices read the variables together.
    if not estimator.device.is_chief:
      return
    summaries.Writer(estimator.model_dir).histograms(
      step, {name: variables[name].numpy() for name in sorted(own_names.model_names(variables))}
    )
