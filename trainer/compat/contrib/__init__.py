"""The names of tf.contrib that Estimator programs use, without layers and cells."""
