"""What programs use of tf.contrib, but for layers and cells."""
