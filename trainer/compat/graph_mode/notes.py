"""What a program should learn once: an argument without effect here, a number that differs."""

from trainer.cli import notices

tell_once = notices.warn_once


def tell_of_unused(where: str, given: dict[str, object], reasons: dict[str, str]) -> None:
  """Warns of each given argument that has no effect, with the reason.

  Args:
    where: the class or function.
    given: dict of argument → value; None and "" count as not given.
    reasons: dict of argument → the reason.
  """
  for name, reason in reasons.items():
    if given.get(name) not in (None, ""):
      tell_once(f"{where}({name}=...) has no effect: {reason}")
