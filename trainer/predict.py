"""`python -m trainer.predict` predicts for files, with an export.

The command is in `trainer.serving.predict_main`.
"""

from trainer.cli import command
from trainer.serving import predict_main

if __name__ == "__main__":
  command.run(predict_main.main)
