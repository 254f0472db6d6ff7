"""tf.contrib.data: the functions that tf.data.experimental lacks."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class PrivateThreadPool:
  """The size of a dataset's own thread pool, for override_threadpool."""

  num_threads: int
  display_name: str | None = None
  max_intra_op_parallelism: int = 1


def override_threadpool(dataset: tf.data.Dataset, thread_pool: PrivateThreadPool) -> Any:
  """Returns a dataset that runs in a thread pool of its own."""
  options = tf.data.Options()
  options.threading.private_threadpool_size = thread_pool.num_threads
  options.threading.max_intra_op_parallelism = thread_pool.max_intra_op_parallelism
  return dataset.with_options(options)


def batch_and_drop_remainder(batch_size: Any) -> Callable:
  """dataset.batch(batch_size, drop_remainder=True)."""
  return lambda dataset: dataset.batch(batch_size, drop_remainder=True)
