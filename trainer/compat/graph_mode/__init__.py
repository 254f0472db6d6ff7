"""What TensorFlow 1 did with a graph and a session: what a model_fn takes for granted, what hooks
fetch and sessions run, and metrics that a graph counts.
"""
