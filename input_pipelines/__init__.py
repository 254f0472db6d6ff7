"""Input pipelines: one file a data set, each with an `input_fn` that returns a tf.data.Dataset
of (features, labels).
"""
