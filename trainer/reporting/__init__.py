"""Records and shows a run: metrics, summaries, step times, progress, the environment."""

__all__ = [
  "console",
  "environment",
  "host_metrics",
  "metrics_file",
  "progress",
  "step_times",
  "summaries",
  "totals",
]
