"""Runs `trainer.pjrt.main` as `python -m trainer.pjrt`."""

from trainer.cli import command
from trainer.pjrt import main

if __name__ == "__main__":
  command.run(main.main, positional=True)
