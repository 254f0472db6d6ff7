"""Faults of a file system, injected into tf.io.gfile and the operations that save and restore.

    clock = faults.Clock()
    faults.inject(monkeypatch, clock, lambda operation, path: "before" or "after" or None)

They are for URLs such as ram://. Nothing waits: `storage` sleeps by the clock, which only counts.
tests/slow/storage_faults.py has a file system of its own, with which TensorFlow's own readers and
writers fail too.
"""

import os

import tensorflow as tf

from trainer.io import storage

GFILE = ("exists", "stat", "listdir", "makedirs", "copy", "rename", "remove", "rmtree")


class Clock:
  """A clock that goes on when somebody sleeps.

  Attributes:
    pauses: seconds of each sleep.
  """

  def __init__(self):
    self.pauses = []

  def sleep(self, seconds):
    self.pauses.append(seconds)

  def __call__(self):
    return sum(self.pauses)


def inject(monkeypatch, clock, fault, error=tf.errors.UnavailableError):
  """Has operations on URLs fail.

  Args:
    monkeypatch: pytest's.
    clock: a Clock.
    fault: (name of the operation, path) → whether it fails "before" it is done, or "after".
    error: an exception class of tf.errors.
  """
  monkeypatch.setattr(storage, "RETRIES", storage.Retries(sleep=clock.sleep, clock=clock))

  def failing(name, function):
    def call(*positional, **named):
      paths = [str(each) for each in (*positional, named.get("prefix", "")) if "://" in str(each)]
      when = fault(name, paths[0]) if paths else None
      if when == "before":
        raise error(None, None, "injected fault")
      result = function(*positional, **named)
      if when:
        raise error(None, None, "injected fault: the answer is lost")
      return result

    return call

  for name in GFILE:
    monkeypatch.setattr(tf.io.gfile, name, failing(name, getattr(tf.io.gfile, name)))
  for name in ("SaveV2", "RestoreV2"):
    monkeypatch.setattr(tf.raw_ops, name, failing(name, getattr(tf.raw_ops, name)))

  class File(tf.io.gfile.GFile):
    def __init__(self, path, mode="r"):
      super().__init__(path, mode)
      if "://" in os.fspath(path) and fault("write" if "w" in mode else "read", path):
        raise error(None, None, "injected fault")

  monkeypatch.setattr(tf.io.gfile, "GFile", File)
