"""Reads a program's input_fns for an Estimator: batch sizes, and the cores' shares."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import trainer
from trainer import errors, spec
from trainer.compat.estimator import batch_axes, input_fns, run_config, sparse_inputs
from trainer.compat.graph_mode import notes

_KINDS = {"train": trainer.ModeKeys.TRAIN, "eval": trainer.ModeKeys.EVAL}


class OtherSizeError(errors.InputError):
  """The batches of an input_fn have another size than Octet's: the call must begin again."""


def whole_steps(steps: Any) -> Any:
  """Returns a number of steps: programs of Python 2 divide examples by a batch size.

  2.15 trains until a step is at least the number, so it rounds up.
  """
  return math.ceil(steps) if isinstance(steps, float | np.floating) else steps


class Reading:
  """The part of an Estimator that reads input_fns."""

  _config: run_config.RunConfig
  _sizes: dict[str, int]  # kind → batch size of all cores together
  _trainings: int  # number of trainings so far
  _whole: set[str]  # the kinds whose batches the one core takes whole

  @property
  def octet(self) -> trainer.Estimator:
    """Returns the trainer.Estimator behind this Estimator."""
    raise NotImplementedError

  @property
  def _gives_host_batches(self) -> bool:
    """Returns whether an input_fn's batch is for all cores together."""
    return self._config.train_distribute is None

  @property
  def _batches_a_step(self) -> int:
    """Returns how many batches of an input_fn the cores take together in a step."""
    return 1 if self._gives_host_batches else self.octet.device.replicas

  def _make_params(self, params: dict[str, Any], mode: str) -> Any:
    """Returns the params for a function of the program, from Octet's params of a mode."""
    raise NotImplementedError

  def _reader(self, kind: str, input_fn: Callable, steps: int | None = None) -> Callable:
    """Returns Octet's input_fn for a program's; reads an unset batch size from the first batch.

    Args:
      steps: the number of batches to return, without a set batch size; None for all.
    """
    looked_up: list[tf.data.Dataset] = []
    if self._is_without_size(kind):
      self._connect()
      tf.random.set_seed(self._config.tf_random_seed or 1)
      looked_up.append(self._call(kind, input_fn, {}))
      if steps is not None:
        looked_up[0] = looked_up[0].take(steps)
      size = input_fns.batch_size(looked_up[0])
      if size is None:
        looked_up[0], size = self._taken_whole(kind, looked_up[0], {}), 1
      self._note_size(kind, size * self._batches_a_step)
    return _Reader(self, kind, input_fn, looked_up)

  def _connect(self) -> Any:
    """Connects the device now.

    An input_fn makes tensors, and after the first tensor TensorFlow makes no virtual cores.
    """
    return self.octet.device

  def _is_without_size(self, kind: str) -> bool:
    return True

  def _read(
    self,
    kind: str,
    input_fn: Callable,
    params: dict[str, Any],
    start: int,
    looked_up: list[tf.data.Dataset],
  ) -> tf.data.Dataset:
    """Returns the dataset of an input_fn.

    Args:
      params: Octet's params.
      start: the number of examples that the training has seen.
      looked_up: the dataset, if already made; the call removes it.
    """
    again = kind == "train" and self._trainings > 1
    if again:  # otherwise each training would draw the same random numbers
      tf.random.set_seed(1_000_003 * self._trainings + (self._config.tf_random_seed or 1))
    dataset = looked_up.pop() if looked_up and not again else self._call(kind, input_fn, params)
    if kind != "train":
      return self._for_cores(dataset, params["batch_size"])
    if start and not again and dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
      size = tf.nest.flatten(dataset.element_spec)[0].shape[0]
      dataset = dataset.skip(start // (size or self._sizes[kind] // self._batches_a_step))
    return self._cut(dataset, params["batch_size"])

  def _note_size(self, kind: str, size: int) -> None:
    """Notes the batch size of all cores together."""
    replicas = self.octet.device.replicas
    if kind != "train":  # cores may get unequal shares
      size = -(-size // replicas) * replicas
    elif size % replicas:
      raise errors.SettingError(
        f"The {kind} input_fn gives batches of {size}, which {replicas} cores cannot share: make "
        f"it a multiple of {replicas}."
      )
    self._sizes[kind] = size

  def _call(self, kind: str, input_fn: Callable, params: dict[str, Any]) -> tf.data.Dataset:
    mode = _KINDS.get(kind, trainer.ModeKeys.PREDICT)
    given = input_fns.call(
      input_fn, mode=mode, params=self._make_params(params, mode), config=self._config
    )
    device = self.octet.device
    to_width = device.local_replicas > 1 or device.runs_by_pjrt
    rows = sparse_inputs.as_rows(given, to_width, as_text=to_width and not device.runs_by_pjrt)
    by_example = self._by_example(kind, rows, params)
    is_whole = kind in self._whole or batch_axes.without_rows(by_example.element_spec) is not None
    return self._taken_whole(kind, rows, params) if is_whole else by_example

  def _taken_whole(
    self, kind: str, dataset: tf.data.Dataset, params: dict[str, Any]
  ) -> tf.data.Dataset:
    """Returns a dataset whose batches need no batch axis: one core takes each of them whole.

    Raises:
      InputError: there are several cores.
      OtherSizeError: Octet has begun with the program's batch size.
    """
    replicas = self.octet.device.replicas
    if replicas > 1:
      shapes = ", ".join(str(leaf.shape) for leaf in tf.nest.flatten(dataset.element_spec))
      raise errors.InputError(
        f"The {kind} input_fn gives tensors of shapes {shapes}, whose first axes are not one "
        f"batch: {replicas} cores cannot share them. Use one core: OCTET_DEVICE=cpu."
      )
    self.take_whole(kind)
    if params.get("batch_size", 1) != 1:
      raise OtherSizeError(f"The {kind} input_fn gives batches without a batch axis.")
    return batch_axes.as_whole(dataset)

  def take_whole(self, kind: str) -> None:
    """Makes each batch of a kind one example to Octet, from the next call of the input_fn on."""
    self._whole.add(kind)
    self._sizes[kind] = 1

  def _by_example(
    self, kind: str, dataset: tf.data.Dataset, params: dict[str, Any]
  ) -> tf.data.Dataset:
    """Returns the dataset with an entry for each example in all features."""
    del params
    # A prediction has one row for each example.
    return dataset if kind == "predict" else batch_axes.as_groups(dataset)

  def _cut(self, dataset: tf.data.Dataset, batch_size: int) -> tf.data.Dataset:
    """Returns a training dataset; with several cores, in whole batches of this size.

    Some programs use params["batch_size"] only on a TPU, and otherwise a flag's size.
    """
    given = tf.nest.flatten(dataset.element_spec)[0].shape[0]
    device = self.octet.device
    if given == batch_size or device.replicas == 1:
      return dataset
    if given is None:
      notes.tell_once(
        "The sizes of the train input_fn's batches are unknown in advance. Several cores need "
        "whole batches: Octet trains on the examples of a smaller batch together with the next "
        "batch."
      )
    elif given != self._sizes["train"] // device.hosts:
      return dataset
    return sparse_inputs.rebatched(dataset, batch_size, drop_remainder=True)

  def _for_cores(self, dataset: tf.data.Dataset, per_core: int) -> tf.data.Dataset:
    """Returns an evaluation dataset, in batches for one core."""
    if self.octet.device.local_replicas == 1:
      return _split(dataset, per_core)
    return sparse_inputs.rebatched(dataset, per_core, drop_remainder=False)


def _split(dataset: tf.data.Dataset, size: int) -> tf.data.Dataset:
  """Returns a dataset with each larger batch in parts: an unknown size is the first batch's.

  Datasets with a known number of batches, by far the most, have one size and a smaller last batch.
  """
  like = dataset.element_spec
  is_known = dataset.cardinality() != tf.data.UNKNOWN_CARDINALITY
  if is_known or tf.nest.flatten(like)[0].shape[0] is not None:
    return dataset

  def parts(*batch: Any) -> tf.data.Dataset:
    whole = batch if isinstance(like, tuple) else batch[0]
    return tf.data.Dataset.from_tensors(whole).rebatch(size)

  return dataset.flat_map(parts)


class _Reader:
  """Octet's input_fn for a program's input_fn.

  Each call of Estimator.train reads its data from the beginning, as in 2.15. The first call of a
  process is different: if its data is endless, it resumes at the checkpoint's position.
  """

  def __init__(
    self, estimator: Any, kind: str, input_fn: Callable, looked_up: list[tf.data.Dataset]
  ):
    self._estimator = estimator
    self._kind = kind
    self._input_fn = input_fn
    self._looked_up = looked_up
    self.__qualname__ = spec.name_of(input_fn)

  def __call__(self, params: dict[str, Any], start: int = 0) -> tf.data.Dataset:
    return self._estimator._read(self._kind, self._input_fn, params, start, self._looked_up)
