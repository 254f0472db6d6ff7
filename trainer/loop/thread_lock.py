"""Lets one thread at a time use an Estimator, because its variables have only one value each.

    lock = ThreadLock("the Estimator of out/digits")
    with lock.hold("evaluate"):
      ...  # another thread waits here

No thread waits for a training. A training may take days, and one of its hooks may wait for the
other thread: both would then wait forever. Holding the lock during a training is therefore an error
with a remedy.
"""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator

from trainer import errors


@dataclasses.dataclass
class ThreadLock:
  """Lets one thread at a time in. The same thread may enter again, as an evaluating hook does.

  Attributes:
    whose: the object of the lock, for messages.
  """

  whose: str

  def __post_init__(self) -> None:
    self._process = os.getpid()
    self._changed = threading.Condition()
    self._thread: int | None = None  # id of the thread that is inside
    self._methods: list[str] = []  # that it has entered, the innermost last

  @contextlib.contextmanager
  def hold(self, method: str) -> Iterator[None]:
    """Keeps other threads out while the context is open. Waits until no other thread is inside.

    Args:
      method: the method of the Estimator: "train", or another one, which ends soon.

    Raises:
      SettingError: another thread trains, or this process is a fork.
    """
    self.check_process(method)
    with self._changed:
      self._wait(method)
      self._thread = threading.get_ident()
      self._methods.append(method)
    try:
      yield
    finally:
      with self._changed:
        self._methods.pop()
        if not self._methods:
          self._thread = None
          self._changed.notify_all()

  def check_process(self, method: str) -> None:
    """Checks that this process made the Estimator.

    Raises:
      SettingError: this process is a fork, which lacks TensorFlow's threads and would wait for them
        forever.
    """
    if os.getpid() != self._process:
      raise errors.SettingError(
        f"{method}: this process is a fork of process {self._process}, the maker of {self.whose}, "
        "and TensorFlow would hang. Make the Estimator in the process that uses it, and start "
        "that with multiprocessing.get_context('spawn')."
      )

  def _wait(self, method):
    while self._thread not in (None, threading.get_ident()):
      if "train" in self._methods:
        raise errors.SettingError(
          f"{method}: another thread trains with {self.whose}, and the variables are that "
          "training's until it ends. Give each thread an Estimator of its own."
        )
      self._changed.wait()
