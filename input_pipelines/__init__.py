"""Input pipelines: each data set or format has a file with an `input_fn`.

An `input_fn` returns a tf.data.Dataset of (features, labels). Other files have shared steps.
"""
