"""What is written down about a run: metrics, summaries, times, the environment."""

__all__ = [
  "environment",
  "host_metrics",
  "metrics_file",
  "progress",
  "step_times",
  "summaries",
  "totals",
]
