"""The file that tells a run that it is a trial of a sweep.

    <model_dir>/trial.json      {"sweep": "digits", "id": "4f0c...", "folder": "out/sweep",
                                "number": 3, "seed": null, "bindings": {"LR": "0.1"},
                                "metrics": ["accuracy"], "modes": ["max"]}

The sweep writes it before it starts the run; trackers read it.
"""

import dataclasses
import os

from trainer.io import json_form, local_files

NAME = "trial.json"
_FORM = {
  **{"sweep": str, "id": str, "folder": str, "number": int, "seed": int | None},
  **{"bindings": dict[str, str], "metrics": list[str], "modes": list[str]},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
  """A trial of a sweep.

  Attributes:
    sweep: the sweep's name.
    id: the sweep's own among all sweeps.
    folder: the sweep's folder.
    number: of the trial.
    seed: of this run, if a trial has several; otherwise None.
    bindings: the sweep's choice, key → gin text.
    metrics: the metrics that judge the trial, as evaluations report them.
    modes: "max" or "min" for each metric.
  """

  sweep: str
  id: str
  folder: str
  number: int
  seed: int | None
  bindings: dict[str, str]
  metrics: list[str]
  modes: list[str]

  @property
  def title(self) -> str:
    """The name of the run: "trial 3", or "trial 3, seed 1"."""
    return f"trial {self.number}" + ("" if self.seed is None else f", seed {self.seed}")

  def write(self, model_dir: str) -> None:
    """Writes the file; OutputError if it cannot."""
    text = json_form.dump(dataclasses.asdict(self))
    local_files.write(os.path.join(model_dir, NAME), text, "--sweep_dir")


def read(model_dir: str) -> Trial | None:
  """Returns the trial of a run; None if the run is no trial.

  Raises:
    FileDamagedError: the file is damaged.
  """
  known = json_form.read(os.path.join(model_dir, NAME), _FORM, "remove it")
  return None if known is None else Trial(**known)
