"""tf.keras.optimizers.legacy: the optimizers of Keras 2, which estimators of TensorFlow 2 use.

    optimizer = tf.keras.optimizers.legacy.Adam(0.01)
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    train_op = optimizer.get_updates(loss, tf.compat.v1.trainable_variables())[0]

They are optimizers of tf.compat.v1.train with the kernels, defaults and names of Keras 2: a slot is
called `training/Adam/dense/kernel/m`, where `training` is the name scope around the call, and a
setting is a variable, `training/Adam/learning_rate`. So checkpoints of 2.15 fit.
"""

from trainer.compat.optimizers.base import Optimizer
from trainer.compat.optimizers.conversion import arguments, like
from trainer.compat.optimizers.kinds import KINDS

__all__ = ["KINDS", "Optimizer", "arguments", "like"]
