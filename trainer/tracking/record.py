"""The file with the name of a run in its tracker: a resumed training continues that run.

    <model_dir>/mlflow.json     {"id": "4f0c...", "server": "http://127.0.0.1:5000", "project":
                                "digits", "run": "b1e9...", "saved": 200, "sent": {"train": 200}}
    <model_dir>/wandb.json      the same

Octet makes "id", the run's own name among all runs: a process may die after the tracker has made a
run, and before it writes the tracker's name of the run here. "run" is that name, or "". "saved" is
the step of the newest checkpoint at the last transfer of lines. "sent" has the newest sent step of
each kind of lines.
"""

import dataclasses
import os
import uuid

from trainer.io import json_form

_FORM = {"id": str, "server": str, "project": str, "run": str, "saved": int, "sent": dict[str, int]}


@dataclasses.dataclass
class Record:
  """What a folder knows of its run in a tracker.

  Attributes:
    path: of the file.
    id: the run's own name.
    server: the tracker's address, without a password.
    project: MLflow's experiment, or W&B's project.
    run: the tracker's name of the run.
    saved: step of the newest checkpoint at the last transfer of lines.
    sent: kind of lines → their newest sent step.
  """

  path: str
  id: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)
  server: str = ""
  project: str = ""
  run: str = ""
  saved: int = 0
  sent: dict[str, int] = dataclasses.field(default_factory=dict)

  def write(self) -> None:
    """Writes the file; OutputError if it cannot."""
    known = dataclasses.asdict(self)
    json_form.write(known.pop("path"), known)


def path(model_dir: str, tracker: str) -> str:
  """Returns the path of the file; tracker is "mlflow" or "wandb"."""
  return os.path.join(model_dir, f"{tracker}.json")


def read(model_dir: str, tracker: str) -> Record | None:
  """Returns the record of a run; None if there is none; FileDamagedError for a damaged file."""
  file = path(model_dir, tracker)
  known = json_form.read(file, _FORM, "remove it; the next start makes a new run there")
  return None if known is None else Record(file, **known)
