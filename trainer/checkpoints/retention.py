"""Decides which checkpoints stay: the newest, the best, one every so often, and held ones.

These files beside a checkpoint `model.ckpt-100` hold it:

    model.ckpt-100.pinned               a person made it (`touch`): the checkpoint is never removed
    model.ckpt-100.lease-*              a process is reading the checkpoint, see `leases`: it is not
                                        removed while the lease is fresh
    model.ckpt-100.owed-<name>          an evaluation of the checkpoint is not done yet: it is not
                                        removed before
"""

import dataclasses
import math
from collections.abc import Collection, Mapping

from trainer.config import gin_names
from trainer.settings import setting_types

# Endings of the files beside a checkpoint that hold it; `leases` has a third one.
_PINNED = ".pinned"
PENDING = ".owed-"


@gin_names.configurable(module="trainer")
@dataclasses.dataclass(frozen=True)
class Retention:
  """The rules for the checkpoints to keep. A checkpoint stays if any of these settings selects it.

  Attributes:
    newest: number of newest checkpoints to keep; 0 keeps all checkpoints.
    best: number of best checkpoints to keep, by `metric`.
    metric: name of a metric of the evaluations, or "loss".
    mode: "min" if a smaller value of the metric is better, "max" if a larger one is.
    evaluation: name of the evaluation that computes the metric; "" for the one without a name.
    every_n_steps: keeps the checkpoints at multiples of this number of steps for good.
    every_n_hours: keeps one checkpoint in this number of hours for good.

  Raises:
    SettingError: a value is invalid.
  """

  newest: setting_types.Natural | None = 5
  best: setting_types.Natural = 0
  metric: str = "loss"
  mode: setting_types.MinOrMax = "min"
  evaluation: str = ""
  every_n_steps: setting_types.Natural | None = None
  every_n_hours: setting_types.NotNegative | None = None

  def to_remove(self, written: Mapping[int, float], metrics: Mapping[int, float]) -> list[int]:
    """Chooses the checkpoints to remove.

    Args:
      written: step → time of writing in seconds, for each checkpoint.
      metrics: step → value of the metric, for each evaluated step.

    Returns:
      The steps of the checkpoints that no rule keeps.
    """
    steps = sorted(written)
    if not self.newest:
      return []
    kept = set(steps[-self.newest :])
    if self.best:
      sign = 1 if self.mode == "min" else -1
      # NaN has no place in an order: with it, the best checkpoint could be removed.
      judged = [step for step in steps if not math.isnan(metrics.get(step, math.nan))]
      kept |= set(sorted(judged, key=lambda step: (sign * metrics[step], step))[: self.best])
    if self.every_n_steps:
      kept |= {step for step in steps if step % self.every_n_steps == 0}
    if self.every_n_hours:
      last = float("-inf")
      for step in steps:
        # The distance: after a change of the clock, the hours count from the next checkpoint.
        if abs(written[step] - last) >= self.every_n_hours * 3600:
          kept.add(step)
          last = written[step]
    return [step for step in steps if step not in kept]


def held(names: Collection[str]) -> set[str]:
  """Returns the names of the checkpoints with a pin or a pending evaluation."""
  found = {name.removesuffix(_PINNED) for name in names if name.endswith(_PINNED)}
  return found | {name.partition(PENDING)[0] for name in names if PENDING in name}
