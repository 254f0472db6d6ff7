"""Runs `trainer.preflight.main` as `python -m trainer.preflight`."""

from trainer.cli import command
from trainer.preflight import main

if __name__ == "__main__":
  command.run(main.main)
