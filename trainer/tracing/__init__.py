"""Sets the stage for tracing a model_fn: its variables, Keras's global state, random seeds."""

__all__ = [
  "assignments",
  "fetched_operations",
  "graph_collections",
  "initial_values",
  "keras_scope",
  "outside_variables",
  "rematerialization",
  "replica_updates",
  "seeds",
  "step_input",
  "store_run",
  "user_frames",
  "variable_creation",
  "variable_store",
  "xla_variables",
]
