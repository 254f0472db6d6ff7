"""What Keras keeps to itself and Octet relies on. The one file that names it."""

from trainer import private_names

_OPTIMIZER = "keras.src.backend.tensorflow.optimizer.TFOptimizer"

# What every optimizer's `apply_gradients` comes to.
APPLY = private_names.member("keras.src.optimizers.base_optimizer.BaseOptimizer.apply")

# Sums the gradients of [(gradient, variable)] over the replicas.
SUM_GRADIENTS = private_names.member(f"{_OPTIMIZER}._all_reduce_sum_gradients")
