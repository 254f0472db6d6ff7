"""`python -m trainer.devices` is `python -m trainer.devices.main`."""

from absl import flags

from trainer import command
from trainer.devices import main

if __name__ == "__main__":
  flags.adopt_module_key_flags(main)  # so that --help lists them
  command.run(main.main)
