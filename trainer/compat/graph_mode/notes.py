"""What a program should know once: an argument that has no meaning here, a number that differs."""

from trainer.cli import notices

tell_once = notices.warn_once


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
