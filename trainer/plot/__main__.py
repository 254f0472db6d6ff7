"""Runs `trainer.plot.main` as `python -m trainer.plot`."""

from trainer.cli import command
from trainer.plot import main

if __name__ == "__main__":
  command.run(main.main, positional=True)
