"""Models: one file a family, each with its network and the `model_fn` that runs it.

`digits_mlp` is the one to copy for a model of your own.
"""
