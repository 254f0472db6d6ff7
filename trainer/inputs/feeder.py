"""Makes the dataset for a device loop from an input_fn, for each kind of run.

    feeder = Feeder(device, per_core_batch_size, config, params)
    dataset, batch_size = feeder.batches("train", input_fn)  # called and checked
    dataset = feeder.for_loop("eval", input_fn)              # grouped for the cores

A training loop reads the batches of the cores in turn. Evaluation and prediction read groups, see
`trainer.inputs.groups`.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
from absl import logging

from trainer import run_config, spec
from trainer.devices import device as device_lib
from trainer.inputs import call, data_service, decodable, elements, groups, tpu_tiles, weights
from trainer.settings.kinds import Kind


class Feeder:
  """Calls input_fns and makes the datasets that device loops read.

  Args:
    device: the Device.
    per_core_batch_size: function of a kind that returns the examples in the batch of one core.
    config: the RunConfig.
    params: dict that the input_fns get deep copies of, with "batch_size" added.
    stage: function of a sentence that makes a context manager, around each call of an input_fn.
  """

  def __init__(
    self,
    device: device_lib.Device,
    per_core_batch_size: Callable[[str], int],
    config: run_config.RunConfig,
    params: Mapping[str, Any],
    stage: Callable[[str], Any] = lambda name: contextlib.nullcontext(),
  ) -> None:
    self._device = device
    self._needs_static_shapes = config.static_shapes or device.replicas > 1 or device.runs_by_pjrt
    self._per_core_batch_size = per_core_batch_size
    self._config = config
    self._params = params
    self._stage = stage
    self._feature_dataset: tuple[str | None, Any] = None, None
    self._told_gaps: set[str] = set()
    self.feature_input_fn: Callable | None = None  # Of the feature_dataset.

  @property
  def feature_dataset(self) -> tuple[str | None, tf.data.Dataset | None]:
    """(kind, dataset) with the features for an export; (None, None) before the first call.

    The dataset is evaluation's or prediction's, if any, otherwise training's.
    """
    return self._feature_dataset

  def batches(self, kind: str, input_fn: Callable, start: int = 0) -> tuple[tf.data.Dataset, int]:
    """Calls an input_fn and checks the shapes of its batches.

    Args:
      kind: "train", "eval" or "predict".
      input_fn: see `trainer.inputs.call`.
      start: the first example, in training; counted over all hosts.

    Returns:
      (dataset, batch_size): the batches of one core; or of all cores of the host, if TPUConfig
      makes the input_fn return those.

    Raises:
      InputError: the input_fn raised, or its batches are unusable.
      SpecError: it returned no dataset that `call` accepts.
      SettingError: RunConfig.class_weight or weight_column does not fit it.
    """
    device = self._device
    batch_size = self._per_core_batch_size(kind)
    if kind == Kind.TRAIN and self._config.tpu_config.gives_host_batches:
      batch_size *= device.local_replicas
    # Each host trains on a share of its own. To evaluate and predict it makes the batches of the
    # whole set, so that their order does not depend on how many hosts there are.
    hosts, host = (device.hosts, device.host) if kind == Kind.TRAIN else (1, 0)
    service = self._config.train_input_service if kind == Kind.TRAIN else ""
    if service:  # The service shares out among the hosts, and has no place to begin at.
      hosts, host, start = 1, 0, 0
    context = tf.distribute.InputContext(hosts, host, device.replicas)
    name = f"{kind} input_fn {spec.name_of(input_fn)}"
    with self._stage(name):
      dataset = call.call(
        input_fn, self._params, batch_size, self._config.tf_random_seed, kind, context, start
      )
      dataset = weights.apply(dataset, kind, self._config, name)
      if service:
        dataset = data_service.distribute(
          dataset,
          service,
          # A name that the hosts of this training share, and no other training.
          device.link.token if device.link else None,
          self._config.cluster_seconds,
        )
    elements.check_shapes(dataset, batch_size, kind, self._needs_static_shapes)
    return dataset, batch_size

  def for_loop(self, kind: str, input_fn: Callable, start: int = 0) -> tf.data.Dataset:
    """Makes the dataset for the device loop of a kind; for Args and Raises see `batches`.

    For training it has the cores' batches in turn; for evaluation and prediction, groups.
    """
    device = self._device
    dataset, batch_size = self.batches(kind, input_fn, start)
    per_core = self._per_core_batch_size(kind)
    # An export serves the features of evaluation: training may have more, or others.
    if kind != Kind.TRAIN or self._feature_dataset[0] in (None, Kind.TRAIN):
      self._feature_dataset, self.feature_input_fn = (kind, dataset), input_fn
    if kind != Kind.TRAIN:
      self._tell_gaps(f"{kind} input_fn {spec.name_of(input_fn)}", decodable.raw_of(dataset))
      broadcasts = self._config.tpu_config.broadcasts
      grouped = groups.group(dataset, per_core, device.replicas, broadcasts)
      return decodable.keep_mark(dataset, grouped)
    if batch_size != per_core:
      dataset = groups.cut(dataset, device.local_replicas)
    if device.resembles_tpu and device.host == 0:
      for sentence in tpu_tiles.warnings(dataset.element_spec, per_core):
        logging.warning("%s", sentence)
    return groups.read_ahead(dataset)

  def _tell_gaps(self, name, raw):
    """Logs, once, how many values of an evaluation are missing, or unknown to the training."""
    text, exceed = raw.describe_gaps() if raw else ("", False)
    if text and text not in self._told_gaps and self._device.host == 0:
      self._told_gaps.add(text)
      level = logging.WARNING if exceed else logging.INFO
      logging.log(level, "Unknown and missing values of the %s: %s.", name, text)
