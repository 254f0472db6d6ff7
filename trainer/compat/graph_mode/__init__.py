"""TensorFlow 1's graph and session: names and habits of a model_fn, hooks, sessions, and metrics."""
