"""tf.contrib.training: HParams, wait_for_new_checkpoint."""

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from trainer.checkpoints import reader


class HParams:
  """Hyperparameters as attributes. A value keeps the type of its first value."""

  def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any):
    del hparam_def
    self._names: list[str] = []
    self._model_structure = model_structure
    for name, value in kwargs.items():
      self.add_hparam(name, value)

  def add_hparam(self, name: str, value: Any) -> None:
    """Adds a hyperparameter; ValueError if the name or attribute exists."""
    if getattr(self, name, None) is not None:
      raise ValueError(f"Hyperparameter name is reserved: {name}")
    self._names.append(name)
    setattr(self, name, list(value) if isinstance(value, tuple) else value)

  def set_hparam(self, name: str, value: Any) -> None:
    """Sets an existing hyperparameter to a value of its type."""
    if name not in self:
      raise KeyError(name)
    setattr(self, name, _cast(name, getattr(self, name), value))

  def del_hparam(self, name: str) -> None:
    """Removes a hyperparameter."""
    if name in self:
      self._names.remove(name)
      delattr(self, name)

  def parse(self, values: str) -> "HParams":
    """Sets the hyperparameters in "name=value,list=[1,2],list[0]=3"; returns self."""
    pairs = re.findall(r"\s*([\w.]+)(?:\[(\d+)\])?\s*=\s*(\[[^\]]*\]|[^,\[\]]*)\s*(?:,|$)", values)
    if sum(1 for _ in pairs) == 0 and values.strip():
      raise ValueError(f"Malformed hyperparameter value: {values}")
    for name, index, text in pairs:
      if name not in self:
        raise ValueError(f"Unknown hyperparameter type for {name}")
      value = [one.strip() for one in text[1:-1].split(",")] if text.startswith("[") else text
      if index:
        changed = list(getattr(self, name))
        changed[int(index)] = _cast(name, changed[int(index)], value)
        setattr(self, name, changed)
      else:
        self.set_hparam(name, value)
    return self

  def override_from_dict(self, values_dict: Mapping[str, Any]) -> "HParams":
    """Sets the hyperparameters in a dict; returns self."""
    for name, value in values_dict.items():
      self.set_hparam(name, value)
    return self

  def parse_json(self, values_json: str) -> "HParams":
    """Sets the hyperparameters in a JSON object; returns self."""
    return self.override_from_dict(json.loads(values_json))

  def values(self) -> dict[str, Any]:
    """Returns a dict of name → value."""
    return {name: getattr(self, name) for name in self._names}

  def get(self, key: str, default: Any = None) -> Any:
    """Returns a hyperparameter's value, or the default."""
    return getattr(self, key) if key in self else default

  def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
    """Returns the hyperparameters as a JSON object, without functions."""
    plain = {name: value for name, value in self.values().items() if not callable(value)}
    return json.dumps(plain, indent=indent, separators=separators, sort_keys=sort_keys)

  def get_model_structure(self) -> Any:
    return self._model_structure

  def set_model_structure(self, model_structure: Any) -> None:
    self._model_structure = model_structure

  def __contains__(self, key: str) -> bool:
    return key in self._names

  def __str__(self) -> str:
    return str(sorted(self.values().items()))

  def __repr__(self) -> str:
    return f"HParams({self})"


def wait_for_new_checkpoint(
  checkpoint_dir: str,
  last_checkpoint: str | None = None,
  seconds_to_sleep: float = 1,
  timeout: float | None = None,
) -> str | None:
  """Waits until a folder has a checkpoint other than the last one.

  Args:
    checkpoint_dir: the folder.
    last_checkpoint: the path of the checkpoint that is known; None for none.
    seconds_to_sleep: the pause between two looks.
    timeout: in seconds; None to wait for ever.

  Returns:
    The new checkpoint's path; None if the time is over.
  """
  end = None if timeout is None else time.monotonic() + timeout
  while (found := reader.latest_named(checkpoint_dir)) in (None, last_checkpoint):
    if end is not None and time.monotonic() + seconds_to_sleep > end:
      return None
    time.sleep(seconds_to_sleep)
  return found


def _cast(name: str, old: Any, value: Any) -> Any:
  """Converts a value to the type of the old value; ValueError if that loses information."""
  if isinstance(old, list):
    given = value if isinstance(value, list | tuple) else [value]
    return [_cast(name, old[0], one) for one in given] if old else list(given)
  if old is None or value is None or callable(old):
    return value
  if isinstance(old, bool):
    if isinstance(value, str) and value.lower() in ("true", "false", "1", "0"):
      return value.lower() in ("true", "1")
    if isinstance(value, bool):
      return value
  elif isinstance(old, str):
    if isinstance(value, str):
      return value
  elif isinstance(old, int | float) and not isinstance(value, bool | list | tuple):
    try:
      number = type(old)(value)
    except (TypeError, ValueError):
      number = None
    if number is not None and not (isinstance(old, int) and number != float(value)):
      return number
  raise ValueError(
    f"Could not cast hyperparameter {name!r} of type {type(old)} from value {value!r}"
  )
