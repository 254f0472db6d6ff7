"""Tells a model's own variables from its training's variables, by their names."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping

import tensorflow as tf

from trainer.optimization import averages


def model_names(variables: Mapping[str, tf.Variable]) -> set[str]:
  """Returns the names of the model's own variables, see own_names."""
  return own_names(variables, {name for name, variable in variables.items() if variable.trainable})


def own_names(names: Iterable[str], trainable: Collection[str]) -> set[str]:
  """Returns the names of a model's own variables.

  Not the model's own, by their names, are:

  - the global step;
  - a Keras optimizer's variables, beside `<optimizer>/iteration`;
  - a Keras 2 optimizer's variables, beside `Adam/decay`, if there is a slot `Adam/dense/kernel/m`
    or the name is a kind of optimizer;
  - slots of tf.compat.v1 optimizers, below a trainable variable's name (`dense/kernel/Adam`), and
    the powers of beta that its Adam keeps;
  - moving averages and accumulated gradients of Octet's optimizers;
  - the sums of Keras metrics in a compiled model: `total` beside `count`.

  Args:
    names: the names of a model's or a checkpoint's variables.
    trainable: the names of variables that are or may be trainable.
  """
  names = set(names)
  keras_optimizers = {
    name.removesuffix("iteration") for name in names if name.endswith("/iteration")
  }
  beside = (
    *keras_optimizers,
    *_of_keras_2(names, trainable),
    *(f"{scope}/" for scope in averages.SCOPES),
  )

  def is_own(name):
    outer = name.split("/")
    slot = any("/".join(outer[:end]) in trainable for end in range(1, len(outer)))
    sums = (
      outer[-1] in ("total", "count")
      and {"/".join([*outer[:-1], other]) for other in ("total", "count")} <= names
    )
    return not (
      slot
      or sums
      or name == "global_step"
      or name.startswith(beside)
      or re.fullmatch(r"beta[12]_power(_\d+)?", outer[-1])
    )

  return {name for name in names if is_own(name)}


def similar(name: str, names: Iterable[str]) -> str:
  """Returns the names most similar to a name, or the first ones, for messages: "a, b, c"."""
  names = sorted(names)
  return ", ".join(difflib.get_close_matches(name, names, 3, 0.5) or names[:3])


# The name alone identifies an optimizer of Keras 2 without slots.
_KERAS_2 = re.compile(r"(.*/)?(SGD|Adam|Adagrad|Ftrl|RMSprop|Adadelta|Adamax|Nadam)(_\d+)?/")


def _of_keras_2(names: Collection[str], trainable: Collection[str]) -> list[str]:
  """The beginnings of the names of each Keras 2 optimizer's variables: `training/Adam/`."""
  found = [name.removesuffix("decay") for name in names if name.endswith("/decay")]
  return [
    scope
    for scope in found
    if _KERAS_2.fullmatch(scope)
    or any(name.startswith(tuple(f"{scope}{one}/" for one in trainable)) for name in names)
  ]
