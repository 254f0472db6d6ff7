"""Trials of a sweep, before they run."""

from trainer.reporting import trial_file


def add(sweep, number):
  """Makes the folder of a trial of a sweep; returns its path."""
  folder = sweep / "trials" / str(number)
  folder.mkdir(parents=True)
  trial_file.Trial(
    sweep="lr",
    id="abc",
    folder=str(sweep),
    number=number,
    seed=None,
    bindings={"LR": "0.1"},
    metrics=["loss"],
    modes=["min"],
  ).write(str(folder))
  return folder
