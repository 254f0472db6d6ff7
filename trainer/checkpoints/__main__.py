"""Runs `trainer.checkpoints.main` as `python -m trainer.checkpoints`."""

from trainer.checkpoints import main
from trainer.cli import command

if __name__ == "__main__":
  command.run(main.main, positional=True)
