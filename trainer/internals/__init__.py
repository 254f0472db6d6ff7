"""Private names of TensorFlow and Keras that Octet relies on, and what it replaces in them.

Each private name is in one file here, with a test that says which version lacks it. gin's are in
`trainer.config.gin_internals`.
"""

__all__ = ["keras_internals", "patches", "tensorflow_internals"]
