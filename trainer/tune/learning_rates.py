"""Trains with a learning rate that grows from step to step, and finds where the loss falls fastest.

L. N. Smith, "Cyclical Learning Rates for Training Neural Networks" (2017), section 3.3.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence

import numpy as np
from scipy import signal

from trainer import errors
from trainer.estimator import estimator as estimator_lib
from trainer.loop import outer_loop
from trainer.optimization import replaced_rates, schedules
from trainer.settings.kinds import Kind

# The weight of the past in the smoothed loss: about the last ten steps count.
_SMOOTHING = 0.9
# So many losses at tiny rates count as the loss of the untrained model.
_FIRST = 10
# A fall is at least this share of a loss.
_LEAST_FALL = 1e-3
# Fewer steps cannot tell a fall of the loss from the noise of batches.
_FEWEST = 20


@dataclasses.dataclass(frozen=True)
class Sweep:
  """The result of a training with a growing learning rate.

  Attributes:
    rates: the learning rate of each completed step.
    losses: the loss of each step, before its update.
    smoothed: the same, smoothed.
    wanted_steps: the number of steps asked for.
    batch_size: examples in a step.
    optimizers: the classes of the optimizers with the growing rate.
    diverged: the rate at the end of a training with a growing loss; None otherwise.
    suggestion: the rate of the smoothed loss's fastest fall; None without a fall.
    lowest: the rate of the lowest smoothed loss.
  """

  rates: list[float]
  losses: list[float]
  smoothed: list[float]
  wanted_steps: int
  batch_size: int
  optimizers: list[str]
  diverged: float | None
  suggestion: float | None
  lowest: float


def sweep(
  estimator: estimator_lib.Estimator,
  input_fn: Callable,
  low: float = 1e-6,
  high: float = 10.0,
  steps: int = 200,
  tell: Callable[[int, float, float], None] = lambda step, rate, loss: None,
) -> Sweep:
  """Trains with a learning rate that grows by the same factor in each step.

  The training begins like a new one, and ends when the loss grows. It writes nothing, and does not
  change a later training of the Estimator.

  Args:
    estimator: of the model_fn, with a batch size for training.
    input_fn: the train input_fn.
    low: the rate of the first step.
    high: the rate of the last step.
    steps: how many.
    tell: called with (step, rate, loss) after each step.

  Raises:
    SettingError: low, high or steps cannot work, or the model_fn applies no optimizer with a
      replaceable rate.
    InputError: the input ends too early.
    ModelFnError: the model_fn failed, or its first loss is no finite number.
  """
  check(low, high, steps)
  factor = high / low
  losses: list[float] = []

  def after_loop(result: outer_loop.LoopResult) -> bool:
    losses.append(result.loss)
    tell(result.step, low * factor ** ((len(losses) - 1) / (steps - 1)), result.loss)
    return not math.isfinite(result.loss) or _smooth(losses, _SMOOTHING)[-1] > _limit(losses)

  schedule = schedules.exponential(low, factor=factor, every=steps - 1)
  with replaced_rates.scope(schedule) as optimizers:
    estimator.try_training(input_fn, steps, lambda step, final: 1, after_loop)
  if not optimizers:
    raise errors.SettingError(
      "tune needs an optimizer with a learning_rate, of Keras or tf.compat.v1.train; the model_fn "
      "applies none."
    )
  if losses and not math.isfinite(losses[0]):
    raise errors.ModelFnError(
      f"The loss of the first step, before any update, is {losses[0]}: no learning rate mends that."
    )
  if len(losses) < min(_FEWEST, steps) and math.isfinite(losses[-1] if losses else 0.0):
    raise errors.InputError(
      f"The train input ended after {len(losses)} of {steps} steps, too early to find a "
      "learning rate: have the input_fn repeat its data (dataset.repeat())."
    )
  rates = [low * factor ** (step / (steps - 1)) for step in range(len(losses))]
  batch_size = estimator.batch_sizes()[Kind.TRAIN].global_size
  return _judged(rates, losses, steps, batch_size, list(optimizers))


def check(low: float, high: float, steps: int) -> None:
  """Raises SettingError if a sweep cannot have these rates or so few steps; see `sweep`."""
  if not 0 < low < high < math.inf:
    raise errors.SettingError(
      f"The learning rate cannot grow from {low:g} to {high:g} (--lowest_rate, --highest_rate): "
      "expected two numbers above 0, the smaller one first."
    )
  if steps < _FEWEST:
    raise errors.SettingError(
      f"--steps={steps}: expected at least {_FEWEST}, since fewer cannot tell a fall of the loss "
      "from the noise of batches."
    )


def _limit(losses: Sequence[float]) -> float:
  """Returns the smoothed loss above which a training has diverged.

  Such a loss is worse than untrained, and much worse than the best: four times, for a positive
  loss.
  """
  best = min(_smooth(losses, _SMOOTHING))
  return max(statistics.median(losses[:_FIRST]), best + 3 * abs(best))


def _smooth(losses, weight):
  """Returns the exponential moving average of losses, with this weight of the past."""
  # The divisor is the sum of all weights so far. It removes the bias of the start at 0.
  shares = 1 - weight ** np.arange(1, len(losses) + 1)
  return list(signal.lfilter([1 - weight], [1, -weight], losses) / shares)


def _judged(rates, losses, steps, batch_size, optimizers):
  """Returns the Sweep of these losses."""
  finite = [loss for loss in losses if math.isfinite(loss)]
  limit = _limit(finite)
  is_over = len(finite) < len(losses) or _smooth(finite, _SMOOTHING)[-1] > limit
  smoothed = _smoothed(np.minimum(finite, limit))
  lowest = int(np.argmin(smoothed))
  noise = float(np.std(np.minimum(finite, limit)[: lowest + 1] - smoothed[: lowest + 1]))
  suggestion = None
  # Smoothing leaves about a sixth of the noise, so a fall by half of the noise is more than chance.
  least = noise / 2 + _LEAST_FALL * abs(smoothed[0])
  if lowest and smoothed[0] - smoothed[lowest] > least:
    suggestion = rates[int(np.argmin(np.gradient(smoothed[: lowest + 1])))]
  return Sweep(
    rates=rates,
    losses=losses,
    smoothed=[float(value) for value in smoothed],
    wanted_steps=steps,
    batch_size=batch_size,
    optimizers=optimizers,
    diverged=rates[-1] if is_over else None,
    suggestion=suggestion,
    lowest=rates[lowest],
  )


def _smoothed(losses):
  """Smooths forwards, then backwards. Forwards alone would show each fall at too high a rate."""
  forwards = _smooth(losses, _SMOOTHING)
  return np.array(_smooth(forwards[::-1], _SMOOTHING)[::-1])
