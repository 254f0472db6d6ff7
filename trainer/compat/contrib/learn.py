"""tf.contrib.learn: the names that became those of tf.estimator."""


class ModeKeys:
  """The modes, under the names of tf.estimator and of before."""

  TRAIN = "train"
  EVAL = "eval"
  INFER = PREDICT = "infer"
