"""Models: each file has a family of networks and the `model_fn` that runs it.

Copy `digits_mlp` to start a model of your own.
"""
