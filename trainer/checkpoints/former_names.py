"""Names under which earlier checkpoints may have a variable.

Keras 3.15 names an optimizer that nobody gave a name by its class, in snake case, and numbers a
second one: `adam_w/iteration`, `adam_w_1/iteration`. Octet does so under every Keras. Octet 0.1.0
did as the installed Keras, of which versions before 3.15 call some optimizers otherwise (`adamw`,
`rmsprop`, `SGD`), and a second one like the first: its variables are `adamw/iteration_1`, and
`adamw/second_kernel_momentum` where that name was free.
"""

import re
from collections.abc import Collection, Iterable

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


def stored_as(names: Iterable[str], found: Collection[str]) -> dict[str, str]:
  """Finds those variables of a model that a checkpoint has under an earlier name.

  Args:
    names: all variables of the model.
    found: all names in the checkpoint.

  Returns:
    name → the name in the checkpoint, of those that are there under an earlier name alone. No name
    that the model has itself is one of them.
  """
  names = list(names)
  free = set(found) - set(names)
  aliases = {}
  for name in names:
    if name not in found:
      earlier = next((each for each in _earlier(name) if each in free), None)
      if earlier is not None:
        free.remove(earlier)
        aliases[name] = earlier
  return aliases


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
