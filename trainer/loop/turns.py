"""One thread at a time uses an Estimator: its variables have one value each.

    turns = Turns("the Estimator of out/digits")
    with turns.take("evaluate"):
      ...  # a second thread that asks for a turn waits

A training is not waited for, which may take days, and in which a hook may be the one that waits for
the other thread: there an error tells what to do.
"""

import contextlib
import threading
from collections.abc import Iterator

from absl import logging

from trainer import errors


class Turns:
  """Lets one thread in. It may come in again while it is inside, as a hook does that evaluates.

  Args:
    whose: what is used in turns, for messages.
    patience: seconds after which it is logged that a thread waits.
  """

  def __init__(self, whose: str, patience: float = 30):
    self._whose = whose
    self._patience = patience
    self._changed = threading.Condition()
    self._thread = None  # the one that is inside
    self._methods = []  # of it, the innermost last

  @contextlib.contextmanager
  def take(self, method: str) -> Iterator[None]:
    """Inside, no other thread is.

    Args:
      method: what the Estimator does: "train", or another one that ends soon.

    Raises:
      errors.SettingError: another thread trains.
    """
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

  def _wait(self, method):
    patience = self._patience
    while self._thread not in (None, threading.get_ident()):
      if "train" in self._methods:
        raise errors.SettingError(
          f"{method}: another thread trains with {self._whose}, and the variables are that "
          "training's until it ends. Give each thread an Estimator of its own."
        )
      if not self._changed.wait(patience):
        doing = self._methods[0]
        logging.info("%s waits: in another thread, %s is at %s.", method, self._whose, doing)
        patience = None
