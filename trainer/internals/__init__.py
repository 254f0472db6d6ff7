"""The private names of TensorFlow and Keras that Octet uses, and the functions that it replaces.

Each private name is used in one file only. A test says which version of the library lacks it. The
private names of gin are in `trainer.config.gin_internals`.
"""

__all__ = [
  "first_import",
  "import_noise",
  "import_time",
  "keras_internals",
  "patches",
  "tensorflow_internals",
]
