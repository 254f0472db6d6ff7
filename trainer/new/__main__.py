"""Runs `trainer.new.main` as `python -m trainer.new`."""

from trainer.cli import command
from trainer.new import main

if __name__ == "__main__":
  command.run(main.main, positional=True)
