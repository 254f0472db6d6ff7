"""Errors for absent names, with the reason."""

from trainer.compat.names import absent_names

_V1, _V2 = "trainer.compat.v1", "trainer.compat.v2"
_GUIDE = "docs/migrate_from_tpuestimator.md"


class AbsentNameError(AttributeError):
  """A name of TensorFlow that the package lacks. `hasattr` returns False for it.

  Attributes:
    name: the name, without the module before it.
    reason: the reason of its absence.
    replacement: what to use, or "".
  """

  def __init__(self, name: str, reason: str = "", package: str = _V1):
    known = absent_names.reason_and_replacement(name, package == _V2)
    self.reason = reason or known[0]
    self.replacement = "" if reason else known[1]
    super().__init__(_sentence(package, name, self.reason, self.replacement), name=name)


class AbsentModuleError(ImportError):
  """An import of a name that the package lacks; as AbsentNameError.

  Attributes:
    name: the imported name, with the module before it.
  """

  def __init__(self, module: str, package: str = _V1):
    name = module.removeprefix(f"{package}.")
    known = absent_names.reason_and_replacement(name, package == _V2)
    super().__init__(_sentence(package, name, *known), name=module)


def _sentence(package: str, name: str, reason: str, replacement: str) -> str:
  advice = f" Use {replacement}." if replacement else f" See {_GUIDE}."
  return f"{package} has no {name}: {reason}{advice}"
