"""What a program should know once: an argument that has no meaning here, a number that differs."""

from absl import logging

_told: set[str] = set()


def tell_once(message: str) -> None:
  """Logs a message the first time that it is given in this process."""
  if message not in _told:
    _told.add(message)
    logging.warning("%s", message)


def tell_of_unused(where: str, given: dict[str, object], reasons: dict[str, str]) -> None:
  """Says of each argument that is given, and has no meaning, why that is so.

  Args:
    where: the class or function.
    given: dict of argument → value; None and "" count as not given.
    reasons: dict of argument → the reason.
  """
  for name, reason in reasons.items():
    if given.get(name) not in (None, ""):
      tell_once(f"{where}({name}=...) has no effect: {reason}")
