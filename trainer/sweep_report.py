"""`python -m trainer.sweep_report` reports on a sweep, also while it runs.

The command is in `trainer.sweep.report_main`.
"""

from trainer.cli import command
from trainer.sweep import report_main

if __name__ == "__main__":
  command.run(report_main.main)
