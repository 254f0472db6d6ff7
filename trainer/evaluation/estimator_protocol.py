"""What the evaluations of a run ask of an Estimator."""

import contextlib
from collections.abc import Sequence
from typing import Any, Protocol

from trainer.devices import workers as workers_lib
from trainer.hooks import estimator_protocol
from trainer.loop import boundaries
from trainer.outputs import exporters


class Estimator(estimator_protocol.Estimator, exporters.Exports, Protocol):
  """An Estimator, as train_and_evaluate sees it; see `trainer.estimator.estimator`."""

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
    evaluations: boundaries.Evaluations | None = None,
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

  def checkpoint_steps(self) -> list[int]:
    """Returns the steps of the checkpoints, oldest first."""

  def checkpoint_path(self, step: int) -> str:
    """Returns the path of the checkpoint of a step."""

  def go_back(self) -> None:
    """Moves aside what comes after the checkpoint that a person has named."""

  def hold_model_dir(self) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which no other training has model_dir."""
