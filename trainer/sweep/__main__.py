"""Runs `trainer.sweep.main` as `python -m trainer.sweep`."""

from trainer.cli import command
from trainer.sweep import main

if __name__ == "__main__":
  command.run(main.main)
