"""What surrounds a model_fn while TensorFlow traces it: its variables, Keras's state, seeds."""

__all__ = [
  "assignments",
  "graph_collections",
  "initial_values",
  "keras_scope",
  "seeds",
  "user_frames",
  "variable_ops",
  "variable_store",
]
