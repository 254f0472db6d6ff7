"""Runs `trainer.compare.main` as `python -m trainer.compare`."""

from trainer.cli import command
from trainer.compare import main

if __name__ == "__main__":
  command.run(main.main, positional=True)
