"""A server of MLflow in memory, in place of `mlflow_process.ask`."""

import dataclasses

from trainer.tracking import trackers


@dataclasses.dataclass
class Run:
  """A run of the server."""

  name: str
  experiment: str
  tags: dict
  status: str = "RUNNING"
  points: list = dataclasses.field(default_factory=list)  # (metric, step)
  parameters: dict = dataclasses.field(default_factory=dict)
  files: list = dataclasses.field(default_factory=list)


class Server:
  """Answers the questions of `mlflow_client.Client`; `is_down` refuses each."""

  def __init__(self):
    self.runs, self.asked, self.is_down = {}, [], False

  def ask(self, uri, method, **arguments):
    self.asked.append((uri, method))
    if self.is_down:
      raise trackers.UnreachableError("connection refused")
    return getattr(self, f"_{method}")(uri, **arguments)

  def named(self):
    """name → run."""
    return {run.name: run for run in self.runs.values()}

  def _address(self, uri):
    return uri

  def _find_run(self, _, experiment, tag, value):
    for name, run in self.runs.items():
      if (run.experiment, run.tags.get(tag)) == (experiment, value):
        return self._described(name)
    return None

  def _make_run(self, _, experiment, name, tags):
    self.runs[f"id {len(self.runs)}"] = Run(name, experiment, tags)
    return self._described(f"id {len(self.runs) - 1}")

  def _described(self, name):
    run = self.runs[name]
    return {"run": name, "experiment": "0", "metrics": [metric for metric, _ in run.points]}

  def _set_running(self, _, run):
    self.runs[run].status = "RUNNING"

  def _set_ended(self, _, run, status):
    self.runs[run].status = status

  def _steps(self, _, run, metric):
    return [step for name, step in self.runs[run].points if name == metric]

  def _parameters(self, _, run):
    return dict(self.runs[run].parameters)

  def _log(self, _, run, metrics=(), parameters=None, tags=None):
    self.runs[run].points += [(name, step) for name, _, _, step in metrics]
    self.runs[run].parameters |= parameters or {}
    self.runs[run].tags |= tags or {}
    return []

  def _add_file(self, _, run, path, name):
    self.runs[run].files.append(name)
