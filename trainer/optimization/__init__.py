"""From the gradients of a step to the next values of its variables."""

__all__ = [
  "averages",
  "combined_gradients",
  "global_means",
  "optimizers",
  "replaced_rates",
  "schedules",
  "variable_groups",
]
