"""Global and per-core batch sizes: `global = per-core × replicas`. Either gives the other."""

import dataclasses

from trainer import errors, formatting, run_config

KINDS = ("train", "eval", "predict")


@dataclasses.dataclass(frozen=True)
class BatchSize:
  """The sizes of one kind of run.

  Attributes:
    per_core: examples in the batch of one replica.
    replicas: number of replicas.
  """

  per_core: int
  replicas: int

  @property
  def global_size(self):
    """Examples in one step."""
    return self.per_core * self.replicas


@dataclasses.dataclass(frozen=True)
class BatchSizes:
  """What a run was given: for each kind, the global size, the per-core size, or neither.

  Raises:
    SettingError: both were given for one kind, or one is not an int > 0.
  """

  train: int | None = None
  eval: int | None = None
  predict: int | None = None
  train_per_core: int | None = None
  eval_per_core: int | None = None
  predict_per_core: int | None = None

  def __post_init__(self):
    for kind in KINDS:
      given, per_core = getattr(self, kind), getattr(self, f"{kind}_per_core")
      if given is not None and per_core is not None:
        raise errors.SettingError(
          f"{kind}_batch_size ({given}, of all cores together) and {kind}_per_core_batch_size "
          f"({per_core}) are both set: set one of them."
        )
      if given is not None:
        run_config.require_positive_int(given, f"{kind}_batch_size")
      if per_core is not None:
        run_config.require_positive_int(per_core, f"{kind}_per_core_batch_size")

  def check(self, replicas):
    """Raises SettingError where a global size that was given does not divide among the replicas."""
    for kind in KINDS:
      size = getattr(self, kind)
      if size is not None and size % replicas:
        raise errors.SettingError(
          f"{kind} batch size {size} must be divisible by number of replicas {replicas}"
        )

  def resolve(self, kind, replicas):
    """The BatchSize of a kind on so many replicas; SettingError if none was given.

    Predict falls back to the sizes of eval, eval to no other.
    """
    kinds = (kind, "eval") if kind == "predict" else (kind,)
    for name in kinds:
      if getattr(self, name) is not None:
        return BatchSize(getattr(self, name) // replicas, replicas)
      if getattr(self, f"{name}_per_core") is not None:
        return BatchSize(getattr(self, f"{name}_per_core"), replicas)
    raise errors.SettingError(
      f"No {kind} batch size: set {kind}_batch_size (of all cores together) or "
      f"{kind}_per_core_batch_size (gin: run.{kind}_batch_size)."
    )

  def is_given(self, kind):
    """Whether a size of this kind was given."""
    return getattr(self, kind) is not None or getattr(self, f"{kind}_per_core") is not None


def table(sizes, hosts):
  """A text table of the sizes in use.

  Args:
    sizes: dict of kind → BatchSize.
    hosts: number of machines with an input pipeline each.
  """
  rows = [
    [kind, size.global_size, size.per_core, size.replicas, hosts] for kind, size in sizes.items()
  ]
  header = ["batch sizes", "global", "per core", "replicas", "hosts"]
  return formatting.table(header, rows, right=range(1, 5))
