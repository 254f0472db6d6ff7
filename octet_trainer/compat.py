"""python -m octet_trainer.compat PATH...: `python -m trainer.compat`, from any folder.

A program's own trainer.py in the working directory does not hide this one.
"""

import runpy

import octet_trainer

if __name__ == "__main__":
  octet_trainer.import_octet()
  runpy.run_module("trainer.compat", run_name="__main__", alter_sys=True)
