"""TPUEstimator: an Estimator with given batch sizes."""

import enum
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import trainer
from trainer import errors
from trainer.compat.estimator import batch_axes, estimator, reading, run_config
from trainer.compat.estimator import params as params_lib
from trainer.compat.graph_mode import notes

_RESERVED = ("batch_size", "context")


class ExportSavedModelApiVersion(enum.Enum):
  """How TensorFlow's TPUEstimator exported for a TPU. Both export for the CPU here."""

  V1 = 1
  V2 = 2


class TPUEstimator(estimator.Estimator):
  """A program's TPUEstimator. Arguments, methods and results as in 2.15.

  Args:
    use_tpu: whether the device is a TPU, by default: see `run_config`. With it, the functions get
      params["context"] on a TPU and on several cores, as in 2.15 on a TPU.
    train_batch_size, eval_batch_size, predict_batch_size: the sizes of all cores together, for
      params["batch_size"]. They may count tokens: Octet takes an input_fn's static batches.
    batch_axis, eval_on_tpu, export_to_tpu, export_to_cpu, export_saved_model_api_version: no
      effect. Octet recognizes by its shape a feature with the batch as its last axis.
  """

  def __init__(
    self,
    model_fn: Callable | None = None,
    model_dir: str | None = None,
    config: run_config.RunConfig | None = None,
    params: Any = None,
    use_tpu: bool = True,
    train_batch_size: int | None = None,
    eval_batch_size: int | None = None,
    predict_batch_size: int | None = None,
    batch_axis: Any = None,
    eval_on_tpu: bool = True,
    export_to_tpu: bool = True,
    export_to_cpu: bool = True,
    warm_start_from: Any = None,
    embedding_config_spec: Any = None,
    export_saved_model_api_version: Any = None,
  ):
    del export_saved_model_api_version
    if config is None or getattr(config, "tpu_config", None) is None:
      raise ValueError("config must be provided: a tf.estimator.tpu.RunConfig with a TPUConfig.")
    if embedding_config_spec is not None:
      raise errors.SettingError(
        "TPUEstimator(embedding_config_spec=...): Octet does not support the embedding memory "
        "of TPUs; use embedding columns or get_variable."
      )
    params_lib.check_takes_items(params)
    reserved = sorted(set(_RESERVED) & set(params_lib.as_dict(params)))
    if reserved:
      raise ValueError(f"{reserved} are reserved keys but existed in params.")
    notes.tell_of_unused(
      "TPUEstimator",
      {
        "batch_axis": batch_axis,
        "eval_on_tpu": None if eval_on_tpu else eval_on_tpu,
        "export_to_cpu": None if export_to_cpu else export_to_cpu,
      },
      {
        "batch_axis": "a tensor's batch is its first axis, or otherwise its last axis.",
        "eval_on_tpu": "evaluation uses the device of the training.",
        "export_to_cpu": "a SavedModel is for the CPU, and serves anywhere.",
      },
    )
    del export_to_tpu
    super().__init__(model_fn, model_dir, config, params, warm_start_from)
    self._use_tpu = use_tpu
    self._check_shards()
    given = dict(train=train_batch_size, eval=eval_batch_size, predict=predict_batch_size)
    if predict_batch_size is None:
      given["predict"] = eval_batch_size
    replicas = self.octet.device.replicas
    if self._is_mirrored and train_batch_size is not None:
      given["train"] *= replicas
    self._given_sizes = {kind: size for kind, size in given.items() if size is not None}
    # As 2.15, refuses a size when its mode runs: an export needs none.
    self._sizes = {kind: size for kind, size in self._given_sizes.items() if not size % replicas}

  def _reader(self, kind: str, *args: Any) -> Callable:
    if kind in self._given_sizes and kind not in self._sizes:
      raise errors.SettingError(
        f"TPUEstimator({kind}_batch_size={self._given_sizes[kind]}): the size must be divisible by "
        f"the number of replicas, {self.octet.device.replicas}."
      )
    return super()._reader(kind, *args)

  def _check_shards(self) -> None:
    device = self.octet.device
    self._config.tpu_config.check_device(device.kind == "tpu")
    shards, replicas = self._config.tpu_config.num_shards, device.replicas
    if shards is not None and shards != replicas:
      notes.tell_once(
        f"TPUConfig(num_shards={shards}): the device has {replicas}, and each core takes its "
        "share of the batch; the numbers are the same."
      )

  @property
  def _gives_host_batches(self) -> bool:
    return self._config.tpu_config.gives_host_batches and not self._is_mirrored

  @property
  def _is_mirrored(self) -> bool:
    """Returns whether a strategy distributes the training: each core then takes a whole batch."""
    return self._config.train_distribute is not None and not self._use_tpu

  @property
  def _steps_between_hooks(self) -> int | None:
    return self._config.tpu_config.steps_between_hooks(self._use_tpu)

  def _is_without_size(self, kind: str) -> bool:
    return False

  @property
  def _octet_params(self) -> dict[str, Any]:
    return params_lib.as_dict(self._params)

  def _make_params(self, params: dict[str, Any], mode: str) -> Any:
    given, device = dict(params), self.octet.device
    if "batch_size" in given:
      kind = "predict" if mode == trainer.ModeKeys.PREDICT else mode
      given["batch_size"] = given["batch_size"] * self._given_sizes[kind] // self._sizes[kind]
    # Programs choose their TPU path by this value. Several cores of a CPU serve as a TPU's cores.
    is_export = "batch_size" not in given  # which is for the CPU
    as_tpu = self._use_tpu and not is_export and (device.kind == "tpu" or device.replicas > 1)
    if as_tpu:
      given["context"] = params_lib.context(device)
    if "use_tpu" in given:  # not in an input_fn's
      given["use_tpu"] = as_tpu
    return params_lib.with_items(self._params, given)

  def _call(self, kind: str, input_fn: Callable, params: dict[str, Any]) -> tf.data.Dataset:
    params = {name: value for name, value in params.items() if name != "use_tpu"}
    if kind != "train" and (self._gives_host_batches or self._is_mirrored):
      params["batch_size"] *= self.octet.device.local_replicas
    dataset = super()._call(kind, input_fn, params)
    self._take_size(kind, dataset, params["batch_size"])
    return dataset

  def _by_example(
    self, kind: str, dataset: tf.data.Dataset, params: dict[str, Any]
  ) -> tf.data.Dataset:
    dataset = batch_axes.as_rows(dataset, params["batch_size"])
    return dataset if kind == "predict" else batch_axes.as_groups(dataset, params["batch_size"])

  def _take_size(self, kind: str, dataset: tf.data.Dataset, batch_size: int) -> None:
    """Notes the batches' size; raises OtherSizeError if Octet has begun with another size."""
    if kind in self._whole:
      return
    before, given = self._sizes[kind], self._given_sizes[kind]
    told = batch_size * given // before  # the program's params["batch_size"]
    shapes = [leaf.shape for leaf in tf.nest.flatten(dataset.element_spec)]
    sizes = {shape[0] if shape.rank else None for shape in shapes}
    size = sizes.pop() if len(sizes) == 1 else None
    # Octet itself divides the batch of all cores, and refuses unequal sizes.
    is_given = size in (None, told, given, given // self.octet.device.hosts)
    self._note_size(kind, given if is_given else given * size // told)
    if self._sizes[kind] != before:
      shown = "unknown or unequal size" if size is None else size
      sentence = f'The {kind} input_fn gives batches of {shown}; params["batch_size"] is {told}.'
      notes.tell_once(f"{sentence} Octet takes these batches.")
      raise reading.OtherSizeError(sentence)
