"""tf.contrib.learn: names that later became names of tf.estimator."""


class ModeKeys:
  """The modes, under the names of tf.estimator and of tf.contrib.learn."""

  TRAIN = "train"
  EVAL = "eval"
  INFER = PREDICT = "infer"
