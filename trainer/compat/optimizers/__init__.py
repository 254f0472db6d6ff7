"""tf.keras.optimizers.legacy: Keras 2's optimizers, for estimators of TensorFlow 2.

    optimizer = tf.keras.optimizers.legacy.Adam(0.01)
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    train_op = optimizer.get_updates(loss, tf.compat.v1.trainable_variables())[0]

They extend tf.compat.v1.train's Optimizer with the steps of TensorFlow's wheel. A slot's name is
`training/Adam/dense/kernel/m`, where `training` is the name scope around the call, and a setting is
a variable, `training/Adam/learning_rate`. So checkpoints of 2.15 fit.
"""

from trainer.compat.optimizers.base import Optimizer
from trainer.compat.optimizers.conversion import arguments, like
from trainer.compat.optimizers.kinds import KINDS

__all__ = ["KINDS", "Optimizer", "arguments", "like"]
