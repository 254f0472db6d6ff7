"""Input from other machines: tf.data service.

    dataset = distribute(dataset, "grpc://dispatcher:5000", None)

The policy is dynamic sharding. The dispatcher hands the parts of the data's source (files, or
elements of a dataset in memory) to the worker that asks next. Each example therefore comes once per
epoch, in no fixed order. After the loss of a worker, its current parts are missing in this epoch,
and come again in the next. The data have no position from which to resume: a restarted training
begins an epoch. See docs/several_machines.md.
"""

import re
import socket
import time
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from trainer import errors

_ADDRESS = re.compile(r"grpc://(\[[^\]]+\]|[^:/]+):(\d{1,5})")
_AGAIN_SECONDS = 0.5


def check(address: str, name: str = "run.train_input_service") -> tuple[str, int]:
  """Returns the host and port of an address.

  Args:
    address: "grpc://host:port".
    name: the setting's, for the message.

  Raises:
    SettingError: it is no such address.
  """
  match = _ADDRESS.fullmatch(address) if isinstance(address, str) else None
  if not match:
    raise errors.SettingError(f"{name} is {address!r}; expected grpc://host:port.")
  return match[1].strip("[]"), int(match[2])


def require_answer(
  host: str, port: int, timeout: float, clock: Callable[[], float] = time.monotonic
) -> None:
  """Waits until somebody listens at an address.

  Args:
    host: of the dispatcher.
    port: of the dispatcher.
    timeout: seconds.
    clock: returns the time in seconds.

  Raises:
    WorkerLostError: nobody did in time.
  """
  deadline, told = clock() + timeout, False
  while True:
    try:
      socket.create_connection((host, port), 5).close()
      return
    except OSError as error:
      reason = error.strerror or str(error)
    if clock() > deadline:
      raise errors.WorkerLostError(
        f"No dispatcher of a tf.data service answers at {host}:{port} within {timeout:g} s "
        f"({reason}). Start it: python -m trainer.data_service dispatcher --port={port}"
      )
    if not told:
      told = True
      logging.info("Waiting for the tf.data service at %s:%d: %s.", host, port, reason)
    time.sleep(_AGAIN_SECONDS)


def distribute(
  dataset: tf.data.Dataset, address: str, job: str | None, timeout: float
) -> tf.data.Dataset:
  """Moves the work of a training's dataset to a tf.data service.

  Args:
    dataset: the dataset of the input_fn, for one host.
    address: the dispatcher's, "grpc://host:port".
    job: a name that the hosts of a training share, so that each batch goes to one of them; None for
      a training of one host.
    timeout: seconds to wait for the dispatcher.

  Returns:
    A dataset of the same elements.

  Raises:
    SettingError: the address is malformed.
    WorkerLostError: nobody answers at the address.
  """
  host, port = check(address)
  require_answer(host, port, timeout)
  logging.info(
    "The train input comes from the tf.data service at %s:%d, with dynamic sharding: each example "
    "once an epoch, in no certain order; an epoch lacks the examples of a worker that fails. A "
    "restarted training begins a new epoch: its weights differ from an undisturbed training's.",
    host,
    port,
  )
  return dataset.apply(
    tf.data.experimental.service.distribute(
      processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC,
      service=address,
      job_name=job,
    )
  )
