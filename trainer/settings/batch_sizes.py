"""Global and per-core batch sizes, where `global = per-core × replicas`."""

import dataclasses
from collections.abc import Mapping

from trainer import errors
from trainer.cli import formatting
from trainer.settings import setting_types
from trainer.settings.kinds import Kind


@dataclasses.dataclass(frozen=True)
class BatchSize:
  """The batch size of one kind of run on a number of replicas.

  Attributes:
    per_core: examples in the batch of one replica.
    replicas: number of replicas.
  """

  per_core: int
  replicas: int

  @property
  def global_size(self) -> int:
    """Examples in one step, of all replicas together."""
    return self.per_core * self.replicas


@dataclasses.dataclass(frozen=True)
class BatchSizes:
  """The settings of a run: for each kind, the global size, the per-core size, or neither.

  Raises:
    SettingError: a kind has both, or a size is not an int > 0.
  """

  train_batch_size: int | None = None
  eval_batch_size: int | None = None
  predict_batch_size: int | None = None
  train_per_core_batch_size: int | None = None
  eval_per_core_batch_size: int | None = None
  predict_per_core_batch_size: int | None = None

  def __post_init__(self) -> None:
    for kind in Kind:
      given, per_core = self.given(kind)
      if given is not None and per_core is not None:
        raise errors.SettingError(
          f"Set either {kind}_batch_size ({given}, of all cores together) or "
          f"{kind}_per_core_batch_size ({per_core}), not both."
        )
    for name in SETTINGS:
      setting_types.check(getattr(self, name), setting_types.Count | None, name)

  def given(self, kind: str) -> tuple[int | None, int | None]:
    """Returns the global and the per-core size of a kind; at most one is not None."""
    return getattr(self, f"{kind}_batch_size"), getattr(self, f"{kind}_per_core_batch_size")

  def check(self, replicas: int) -> None:
    """Raises SettingError if a global size is not divisible by the number of replicas."""
    for kind in Kind:
      size, _ = self.given(kind)
      if size is not None and size % replicas:
        raise errors.SettingError(
          f"{kind} batch size {size} must be divisible by number of replicas {replicas}"
        )

  def resolve(self, kind: str, replicas: int) -> BatchSize:
    """Returns the batch size of a kind.

    "predict" falls back to the size for "eval"; "eval" has no fall-back.

    Raises:
      SettingError: the kind has no size.
    """
    kinds = (kind, Kind.EVAL) if kind == Kind.PREDICT else (kind,)
    for name in kinds:
      size, per_core = self.given(name)
      if size is not None:
        return BatchSize(size // replicas, replicas)
      if per_core is not None:
        return BatchSize(per_core, replicas)
    raise errors.SettingError(
      f"No {kind} batch size: set {kind}_batch_size (of all cores together) or "
      f"{kind}_per_core_batch_size (gin: run.{kind}_batch_size)."
    )

  def is_given(self, kind: str) -> bool:
    """Whether this kind has a size."""
    return self.given(kind) != (None, None)

  def kinds(self) -> list[Kind]:
    """The kinds with a size."""
    return [
      kind
      for kind in Kind
      if self.is_given(kind) or (kind == Kind.PREDICT and self.is_given(Kind.EVAL))
    ]

  def all_on(self, replicas: int) -> dict[Kind, BatchSize]:
    """Returns kind → batch size on a number of replicas, for the kinds with a size."""
    return {kind: self.resolve(kind, replicas) for kind in self.kinds()}


# The names of the sizes in Estimator, gin and preflight.
SETTINGS = tuple(field.name for field in dataclasses.fields(BatchSizes))


def table(sizes: Mapping[str, BatchSize], hosts: int) -> str:
  """Returns a text table of the sizes in use.

  Args:
    sizes: kind → BatchSize.
    hosts: number of machines, each with an input pipeline of its own.
  """
  rows = [
    [kind, size.global_size, size.per_core, size.replicas, hosts] for kind, size in sizes.items()
  ]
  header = ["batch sizes", "global", "per core", "replicas", "hosts"]
  return formatting.table(header, rows, right=range(1, 5))
