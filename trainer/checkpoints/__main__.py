"""Runs `trainer.checkpoints.main` as `python -m trainer.checkpoints`."""

from trainer import command
from trainer.checkpoints import main

if __name__ == "__main__":
  command.run(main.main, positional=True)
