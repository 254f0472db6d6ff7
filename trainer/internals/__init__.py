"""The private names of TensorFlow and Keras that Octet uses, and the functions that it replaces.

Only one file uses each private name. A test says which version of the library lacks it. The private
names of gin are in `trainer.config.gin_internals`.
"""

__all__ = ["import_time", "keras_internals", "live_objects", "patches", "tensorflow_internals"]
