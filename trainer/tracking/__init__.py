"""Sends what a run writes down to a tracker: MLflow or Weights & Biases.

    run.train_hooks = [@MLflowHook()]
    MLflowHook.tracking_uri = "http://127.0.0.1:5000"

The run's folder is the truth, and a tracker follows it. A hook starts a thread, which reads new
lines of metrics.jsonl and sends them. The training never waits for the tracker: what the tracker
misses stays in metrics.jsonl, and is sent when the tracker answers again, by the next start of the
training, or by `python -m trainer.tracking MODEL_DIR`.
"""

__all__ = ["mlflow_hook", "record", "sweep_runs", "trackers", "wandb_hook"]
