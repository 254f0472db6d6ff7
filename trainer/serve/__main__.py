"""`python -m trainer.serve` is `python -m trainer.serve.main`."""

from absl import flags

from trainer import command
from trainer.serve import main

if __name__ == "__main__":
  flags.adopt_module_key_flags(main)  # so that --help lists them
  command.run(main.main)
