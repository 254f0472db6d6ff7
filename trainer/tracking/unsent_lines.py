"""The lines of metrics.jsonl that a tracker does not have yet.

    lines = UnsentLines("out/digits", {"train": {10, 20}}, begun_at=10)
    tracker.send(lines.read())
    lines.mark_sent()

Trackers cannot remove a point. After a kill, a training repeats some steps, and the tracker gets
only the steps that it lacks. After a rollback, or after a person has named an older checkpoint, the
training takes other steps: the tracker gets these beside the former ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from trainer.reporting import metrics_file


class UnsentLines:
  """The lines of one run.

  Args:
    model_dir: the folder of the run.
    sent: kind of lines → the steps that the tracker has.
    begun_at: the step at which this training began; None without a training.
    saved: the newest checkpoint's step that the tracker's record knows.
  """

  def __init__(
    self,
    model_dir: str,
    sent: Mapping[str, Iterable[int]],
    begun_at: int | None = None,
    saved: int = 0,
  ) -> None:
    self._tail = metrics_file.Tail(model_dir)
    self._sent = {kind: set(steps) for kind, steps in sent.items()}
    self._unsent: dict[tuple[str, int], dict[str, Any]] = {}  # (kind, step) → line
    # Below its newest checkpoint, a training begins only if somebody sent it back.
    if begun_at is not None and begun_at < saved:
      self._go_back(begun_at)
    self._add(metrics_file.valid(self._tail.new()))

  def read(self) -> list[dict[str, Any]]:
    """Returns the unsent lines in their order; SettingError if it cannot read metrics.jsonl."""
    for line in self._tail.new():
      if line["kind"] == metrics_file.START:  # a rollback: this training has begun before
        self._go_back(line["step"])
      else:
        self._add([line])
    return list(self._unsent.values())

  def mark_sent(self, lines: Iterable[Mapping[str, Any]]) -> None:
    """Notes that the tracker has lines that `read` returned."""
    for line in lines:
      self._sent.setdefault(line["kind"], set()).add(line["step"])
      self._unsent.pop((line["kind"], line["step"]), None)

  def _add(self, lines):
    for line in lines:
      if line["step"] not in self._sent.get(line["kind"], ()):
        self._unsent.pop((line["kind"], line["step"]), None)  # so that its place is the last
        self._unsent[line["kind"], line["step"]] = line

  def _go_back(self, step):
    self._sent = {kind: {at for at in steps if at <= step} for kind, steps in self._sent.items()}
    self._unsent = {at: line for at, line in self._unsent.items() if at[1] <= step}
