"""Runs `trainer.tracking.main` as `python -m trainer.tracking`."""

from trainer.cli import command
from trainer.tracking import main

if __name__ == "__main__":
  command.run(main.main, positional=True)
