"""What hooks and the evaluations of a run ask of an Estimator."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from trainer.devices import device as device_lib
from trainer.devices import workers as workers_lib
from trainer.settings import batch_sizes as batch_sizes_lib
from trainer.settings.kinds import Kind


class Estimator(Protocol):
  """An Estimator, see `trainer.estimator.estimator`."""

  @property
  def model_dir(self) -> str:
    """The folder of the run."""

  @property
  def device(self) -> device_lib.Device:
    """The Device."""

  @property
  def variables(self) -> Mapping[str, Any]:
    """The variables by name."""

  def latest_step(self) -> int | None:
    """Returns the step of the newest checkpoint, or None."""

  @property
  def workers(self) -> workers_lib.Workers:
    """The Workers."""

  def train(
    self,
    input_fn: Any,
    hooks: Sequence[Any] | None = None,
    steps: int | None = None,
    max_steps: int | None = None,
    saving_listeners: Sequence[Any] | None = None,
    evaluations: Any = None,
    ends_with_input: bool = False,
  ) -> Any:
    """Trains."""

  def evaluate(
    self,
    input_fn: Any,
    steps: int | None = None,
    hooks: Sequence[Any] | None = None,
    checkpoint_path: str | None = None,
    name: str | None = None,
  ) -> dict[str, Any]:
    """Evaluates a checkpoint; returns its metrics."""

  def evaluation_dir(self, name: str | None = None) -> str:
    """Returns the folder of the summaries of the evaluations of this name."""

  def predict(
    self,
    input_fn: Any,
    predict_keys: Sequence[str] | None = None,
    hooks: Sequence[Any] | None = None,
    checkpoint_path: str | None = None,
    yield_single_examples: bool = True,
    with_examples: bool = False,
  ) -> Iterator[Any]:
    """Predicts for every example, in order."""

  def trace(self, kind: Kind, input_fn: Any) -> Any:
    """Makes the step of a kind; returns its LoopInput."""

  def batch_sizes(self) -> Mapping[Kind, batch_sizes_lib.BatchSize]:
    """Returns the batch sizes by kind, of the kinds with a size."""

  def checkpoint_steps(self) -> list[int]:
    """Returns the steps of the checkpoints, oldest first."""

  def checkpoint_path(self, step: int) -> str:
    """Returns the path of the checkpoint of a step."""

  def go_back(self) -> None:
    """Moves aside everything after the checkpoint that a person has named."""

  def hold_model_dir(self) -> contextlib.AbstractContextManager[None]:
    """Returns a context without another training in model_dir."""

  def prepare_export(self, serving_input_receiver_fns: Iterable[Callable | None] = ()) -> None:
    """Traces exports, and starts the process that checks them; does not wait for it."""

  def export_saved_model(
    self,
    export_dir_base: str,
    serving_input_receiver_fn: Callable | None = None,
    assets_extra: Any = None,
    checkpoint_path: str | None = None,
  ) -> str:
    """Writes a SavedModel; returns its path."""
