"""tf.contrib.seq2seq: decoders, helpers that feed them, and attention."""
