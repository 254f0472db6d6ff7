"""The command that serves a model: `python -m trainer.serve`."""
