"""Bounds that a good trial keeps: "accuracy >= 0.9".

bound = constraints.parse("accuracy >= 0.9")
bound.violation(0.85)          # 0.05; above 0, the trial breaks the bound
"""

import dataclasses
import math
import re

from trainer import errors

_FORM = re.compile(r"\s*(?P<metric>\S+)\s*(?P<sign><=|>=)\s*(?P<bound>\S+)\s*")


@dataclasses.dataclass(frozen=True)
class Constraint:
  """A bound of a metric.

  Attributes:
    text: as the sweep file has it.
    metric: its name, as evaluations report it.
    is_at_most: whether the metric must be at most the bound; otherwise at least.
    bound: the bound.
  """

  text: str
  metric: str
  is_at_most: bool
  bound: float

  def violation(self, value: float) -> float:
    """Returns by how much a value breaks the bound; 0 or less if it keeps it."""
    return value - self.bound if self.is_at_most else self.bound - value


def parse(text: str) -> Constraint:
  """Returns the constraint in a text; SettingError if the text has none."""
  found = _FORM.fullmatch(text) if isinstance(text, str) else None
  try:
    bound = float(found["bound"]) if found else math.nan
  except ValueError:
    bound = math.nan
  if found is None or not math.isfinite(bound):
    raise errors.SettingError(
      f"sweep.constraints: expected texts such as 'accuracy >= 0.9' or 'loss <= 0.5'; got {text!r}."
    )
  return Constraint(text.strip(), found["metric"], found["sign"] == "<=", bound)
