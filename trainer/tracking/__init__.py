"""Sends the records of a run to a tracker: MLflow or Weights & Biases.

    run.train_hooks = [@MLflowHook()]
    MLflowHook.tracking_uri = "http://127.0.0.1:5000"

The run's folder is the truth, and a tracker follows it. A hook starts a thread; the thread reads
new lines of metrics.jsonl and sends them. The training never waits for the tracker. Lines that the
tracker misses stay in metrics.jsonl. The thread sends them when the tracker answers again; after
the training, its next start or `python -m trainer.tracking MODEL_DIR` sends them.
"""

__all__ = ["mlflow_hook", "record", "wandb_hook"]
