"""Stands in for the package wandb: keeps what a run is given."""

import types


class Settings:
  def __init__(self, **values):
    self.values = values


class Artifact:
  def __init__(self, name, type):
    self.name, self.type, self.files = name, type, []

  def add_file(self, path, name):
    with open(path, "rb"):  # as wandb, which copies the file at once
      self.files.append(name)

  def add_dir(self, path, name):
    self.files.append(name)


class Run:
  """One wandb.init: its settings and all that followed."""

  def __init__(self, settings):
    self.settings, self.id = settings, settings["id"]
    self.axes, self.lines, self.artifacts, self.config = {}, [], [], self
    self.parameters, self.exit_code = {}, None

  def define_metric(self, name, step_metric=None, hidden=None):
    self.axes[name] = step_metric

  def log(self, values):
    self.lines.append(values)

  def update(self, values, allow_val_change):
    assert allow_val_change
    self.parameters |= values

  def log_artifact(self, artifact):
    self.artifacts.append(artifact)

  def finish(self, exit_code):
    self.exit_code = exit_code


class Wandb(types.ModuleType):
  """The module; `runs` has each run."""

  def __init__(self):
    super().__init__("wandb")
    self.runs = []
    self.Settings, self.Artifact = Settings, Artifact

  def init(self, **settings):
    self.runs.append(Run(settings))
    return self.runs[-1]
