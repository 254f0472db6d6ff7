"""Runs `trainer.devices.main` as `python -m trainer.devices`."""

from trainer.cli import command
from trainer.devices import main

if __name__ == "__main__":
  command.run(main.main)
