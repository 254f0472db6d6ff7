"""`python -m trainer.checkpoints` is `python -m trainer.checkpoints.main`."""

from absl import flags

from trainer import command
from trainer.checkpoints import main

if __name__ == "__main__":
  flags.adopt_module_key_flags(main)  # so that --help lists them
  command.run(main.main, positional=True)
