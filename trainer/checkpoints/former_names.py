"""Names under which earlier checkpoints may have a variable.

Keras 3.15 names an optimizer that nobody gave a name by its class, in snake case, and numbers a
second one: `adam_w/iteration`, `adam_w_1/iteration`. Octet does so under every Keras. Octet 0.1.0
did as the installed Keras, of which versions before 3.15 call some optimizers otherwise (`adamw`,
`rmsprop`, `SGD`), and a second one like the first: its variables are `adamw/iteration_1`, and
`adamw/second_kernel_momentum` where that name was free.

Variables of Keras's layers in a program of `trainer.compat` are named as in a graph of TensorFlow,
`dnn/dense/kernel`. Octet first named them by Keras's own scopes, `dense/kernel`.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from trainer.optimization import averages

# name → that of Keras before 3.15, where it is another one.
_OPTIMIZERS = {
  "adam_w": "adamw",
  "rm_sprop": "rmsprop",
  "schedule_free_adam_w": "schedule_free_adamw",
  "sgd": "SGD",
}

# Of those that had the same name, the ones whose second may be numbered in another way.
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
  """Finds those variables of a model that a checkpoint has under an earlier name.

  Args:
    names: all variables of the model.
    found: all names in the checkpoint.
    former: name of a variable → its name by Keras's scopes, see `VariableStore.former_names`.

  Returns:
    name → the name in the checkpoint, of those that are there under an earlier name.
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
  """Maps names to those by Keras's scopes, if a checkpoint has these.

  It has all of them or none: what is a variable's name now may have been another one's.
  """
  aliases = {name: _before(name, former) for name in names}
  aliases = {name: before for name, before in aliases.items() if before != name}
  found = set(found)
  has_them = not aliases.keys() <= found and set(aliases.values()) <= found
  return aliases if has_them else {}


def _before(name, former):
  # Slots are named by their variables (`dense/kernel/Adam`), averages too (`ema/dense/kernel`).
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
