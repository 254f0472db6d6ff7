"""TensorFlow 1's graph and session: habits of a model_fn, names, hooks, sessions, and metrics."""
