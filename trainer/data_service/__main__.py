"""Runs `trainer.data_service.main` as `python -m trainer.data_service`."""

from trainer import command
from trainer.data_service import main

if __name__ == "__main__":
  command.run(main.main, positional=True)
