"""`python -m trainer.data_service` starts a process of a tf.data service.

The command is in `trainer.inputs.data_service_main`.
"""

from trainer.cli import command
from trainer.inputs import data_service_main

if __name__ == "__main__":
  command.run(data_service_main.main, positional=True)
