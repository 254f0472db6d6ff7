"""`python -m trainer.plot` is `python -m trainer.plot.main`."""

from absl import flags

from trainer import command
from trainer.plot import main

if __name__ == "__main__":
  flags.adopt_module_key_flags(main)  # so that --help lists them
  command.run(main.main, positional=True)
