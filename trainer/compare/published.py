"""The figures that the articles published, from published.jsonl beside this file.

Other people measured them, in other years, on other machines and versions. Reports show them beside
the measurements, never mixed with them.
"""

import dataclasses
import pathlib

from trainer.io import json_form

_PATH = pathlib.Path(__file__).with_name("published.jsonl")


@dataclasses.dataclass(frozen=True)
class Figure:
  """A published figure.

  Attributes:
    workload: the name of the workload that repeats it.
    mode: "train" or "predict".
    batch_size: examples in a step; None if the figure is not of one size.
    device: "cpu", "gpu" or "tpu".
    hardware: the source's name for it.
    quantity: "step", "epoch" or "run" for seconds of one, or "speed-up".
    value: seconds, or how many times faster than `over`.
    over: the device that a speed-up is over; "" for seconds.
    approximate: whether the source rounds it, as in "about two minutes".
    words: the figure as the source has it.
    source: the article.
  """

  workload: str
  mode: str
  batch_size: int | None
  device: str
  hardware: str
  quantity: str
  value: float
  over: str
  approximate: bool
  words: str
  source: str


def read() -> list[Figure]:
  """Returns the published figures."""
  form = {field.name: field.type for field in dataclasses.fields(Figure)}
  lines = _PATH.read_text().splitlines()
  return [
    Figure(**row) for row in json_form.parse_lines(lines, form, str(_PATH), "install it again")
  ]
