"""`python -m trainer.serve` serves the newest export of a folder.

The command is in `trainer.serving.serve_main`.
"""

from trainer.cli import command
from trainer.serving import serve_main

if __name__ == "__main__":
  command.run(serve_main.main)
