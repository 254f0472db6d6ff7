"""The command that predicts for files: `python -m trainer.predict`."""
