"""tf.contrib.seq2seq: decoders that take a step at a time, what feeds them, and attention."""
