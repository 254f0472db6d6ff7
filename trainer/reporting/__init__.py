"""Records and shows a run: metrics, summaries, step times, progress, the environment."""

__all__ = [
  "console",
  "environment",
  "evaluation_reports",
  "evaluations_file",
  "metric_values",
  "metrics_file",
  "progress",
  "step_times",
  "summaries",
  "totals",
  "trial_file",
  "working_tree",
]
