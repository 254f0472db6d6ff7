"""Private names of TensorFlow and Keras that Octet relies on, and what it replaces in them."""
