"""Reads programs without running them: their names of TensorFlow, and how to import these."""
