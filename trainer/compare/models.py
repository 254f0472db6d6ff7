"""Compares the models of runs: which differences between their evaluations exceed noise?

print(models.text(["out/a", "out/b"], ""))
print(models.text(["out/a1,out/a2,out/a3", "out/b1,out/b2,out/b3"], ""))   # several seeds
print(models.text(["out/a@1000", "out/a@2000"], "test"))                   # two checkpoints
"""

import re

from trainer import errors
from trainer.cli import formatting
from trainer.judgement import differences

_RUN = re.compile(r"(.+?)(?:@(\d+))?")


def text(sides: list[str], evaluation: str) -> str:
  """Returns a table of the differences, as a terminal shows it.

  Args:
    sides: two; each the folders of runs with commas between them, with "@<step>" behind a folder
      for a checkpoint other than the newest.
    evaluation: the name of the evaluation, or "".

  Raises:
    SettingError: there are not two sides, or no way to compare them.
  """
  if len(sides) != 2:
    raise errors.SettingError(
      f"{len(sides)} models to compare; expected two. Several runs of one kind have commas between "
      "them: python -m trainer.compare out/a1,out/a2 out/b1,out/b2"
    )
  first, second = map(_runs, sides)
  found = differences.compare(first, second, evaluation)
  rows = [
    (
      name,
      f"{each.first:.4g}",
      f"{each.second:.4g}",
      f"{each.second - each.first:+.4g}",
      f"[{each.low:+.4g}, {each.high:+.4g}]",
      "may be noise" if each.is_noise else "more than noise",
    )
    for name, each in found.differences.items()
  ]
  table = formatting.table(("", "first", "second", "difference", "95 % interval", ""), rows)
  several = found.runs != (1, 1)
  how = f"{found.runs[0]} and {found.runs[1]} runs" if several else "paired"
  head = f"On {found.examples:,} examples, {how}: first {sides[0]}, second {sides[1]}"
  return f"{head}\n{table}"


def _runs(side):
  matches = [_RUN.fullmatch(part) for part in side.split(",")]
  if not all(matches):
    raise errors.SettingError(f"{side!r}: expected the folders of runs with commas between them.")
  return [
    differences.Run(match[1], None if match[2] is None else int(match[2]))
    for match in matches
    if match
  ]
