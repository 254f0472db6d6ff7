"""What is done around the loop, at its boundaries.

A hook is a callable `hook(step, metrics, estimator)`, called after every device loop with the global step and a dict of floats ("loss" and what the
model_fn gave to tf.summary). A true result ends the training. It may also have `begin(estimator)` and `end(step, estimator)`.
"""
