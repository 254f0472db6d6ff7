"""`python -m trainer.preflight` is `python -m trainer.preflight.main`."""

from trainer import command
from trainer.preflight import main

if __name__ == "__main__":
  command.run(main.main)
