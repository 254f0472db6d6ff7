"""Runs `trainer.tune.main` as `python -m trainer.tune`."""

from trainer.cli import command
from trainer.tune import main

if __name__ == "__main__":
  command.run(main.main)
