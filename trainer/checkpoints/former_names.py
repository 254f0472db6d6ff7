"""Earlier names of a variable in checkpoints.

Keras 3.15 names an optimizer without a user's name by its class, in snake case, and numbers a
second one: `adam_w/iteration`, `adam_w_1/iteration`. Octet does so under every Keras. Octet 0.1.0
followed the installed Keras. Versions before 3.15 have other names for some optimizers (`adamw`,
`rmsprop`, `SGD`), and a second one has the name of the first: its variables are
`adamw/iteration_1`, and `adamw/second_kernel_momentum` where that name was free.

In a program of `trainer.compat`, variables of Keras's layers have the names of a graph of
TensorFlow, `dnn/dense/kernel`. Octet first named them by Keras's own scopes, `dense/kernel`.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from trainer.optimization import averages

# Name → its name before Keras 3.15, if that differs.
_OPTIMIZERS = {
  "adam_w": "adamw",
  "rm_sprop": "rmsprop",
  "schedule_free_adam_w": "schedule_free_adamw",
  "sgd": "SGD",
}

# Among optimizers of the same name, these number the second one in another way.
_ALIKE = [
  "adadelta",
  "adafactor",
  "adagrad",
  "adam",
  "adamax",
  "ftrl",
  "lamb",
  "lion",
  "loss_scale_optimizer",
  "muon",
  "nadam",
]


def stored_as(
  names: Iterable[str], found: Collection[str], former: Mapping[str, str] | None = None
) -> dict[str, str]:
  """Finds the model's variables that a checkpoint has under an earlier name.

  Args:
    names: all variables of the model.
    found: all names in the checkpoint.
    former: name of a variable → its name by Keras's scopes, see `VariableStore.former_names`.

  Returns:
    name → the name in the checkpoint, of variables under an earlier name.
  """
  names = list(names)
  aliases = _by_keras(names, found, former or {})
  free = set(found) - set(names) - set(aliases.values())
  for name in names:
    if name not in found and name not in aliases:
      earlier = next((each for each in _earlier(name) if each in free), None)
      if earlier is not None:
        free.remove(earlier)
        aliases[name] = earlier
  return aliases


def _by_keras(names, found, former):
  """Maps names to their names by Keras's scopes, if a checkpoint has these.

  A checkpoint has all of them or none: one variable's name now may be another one's earlier name.
  """
  aliases = {name: _before(name, former) for name in names}
  aliases = {name: before for name, before in aliases.items() if before != name}
  found = set(found)
  has_them = not aliases.keys() <= found and set(aliases.values()) <= found
  return aliases if has_them else {}


def _before(name, former):
  # A slot has the name of its variable (`dense/kernel/Adam`), and so has an average
  # (`ema/dense/kernel`).
  parts = name.split("/")
  start = int(parts[0] in averages.SCOPES)
  for end in range(len(parts), start, -1):
    if (own := "/".join(parts[start:end])) in former:
      return "/".join([*parts[:start], former[own], *parts[end:]])
  return name


def _earlier(name):
  """Yields the names that a variable may have had, the likeliest first."""
  optimizer, _, rest = name.partition("/")
  kind, number = re.fullmatch(r"(.*?)(_\d+)?", optimizer).groups()
  before = _OPTIMIZERS.get(kind, kind if kind in _ALIKE else None)
  if not rest or before is None:
    return
  if number:
    yield f"{before}/{rest}{number}"
  yield f"{before}/{rest}"
