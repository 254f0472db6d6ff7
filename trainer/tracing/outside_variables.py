"""Finds variables that a model_fn uses and has not made.

A model built before, at the top of a module, has its variables outside of every store. Training
would use them, and neither train nor save them; two evaluations of one checkpoint would differ, and
an export would fail at the end of the training. A trace that uses such a variable is therefore an
error that names each of them:

    watch = Watch((store.variables,))
    with watch.scope():
      ... trace a model_fn ...
    watch.check("model_fn mine")

A function learns of a variable when it captures the handle, for any use: by a layer, by an
optimizer, in a branch, in a tf.function or in a loaded SavedModel. Other handles, such as those of
tables and iterators, do not matter.

Octet finds a Keras layer or optimizer from before, without variables, when it makes them: otherwise
the next trace, or the export's, would find it built.
"""

import contextlib
import itertools
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import keras
import tensorflow as tf

from trainer import errors
from trainer.internals import live_objects, patches, tensorflow_internals
from trainer.tracing import user_frames

# The Watch of the trace that this thread is in, or None.
_watch = ContextVar("watch over variables that are used", default=None)

_SHOWN = 6  # of the variables found

_WAYS_OUT = (
  "Nothing here would train, save or restore them. Make them inside of the model_fn: Octet calls "
  "it anew in every mode and for every core, and hands it the same variables each time. For a "
  "Keras model, hand over the function that builds it: trainer.model_fn_from_keras(build_model, "
  "...)."
)


class Watch:
  """Records the variables that a trace uses and has not made.

  Args:
    own: dicts of name → allowed variable; they may still grow.
    asked_for: the variables of the first dict that this trace has asked for, which may still grow
      too; None if the trace may use the others.
  """

  def __init__(
    self,
    own: tuple[Mapping[str, tf.Variable], ...],
    asked_for: Mapping[str, tf.Variable] | None = None,
  ) -> None:
    self._own = own
    self._asked_for = asked_for
    self._names: dict = {}  # by id of a handle, (place of the dict in `own`, name)
    self._known = [0] * len(own)  # how many variables of each dict are in _names
    self._found: dict = {}  # by id, (variable, use, place)

  def scope(self) -> contextlib.AbstractContextManager[None]:
    """Returns a context that watches traces."""
    return patches.set_context(_watch, self)

  def see(self, handle: tf.Tensor) -> None:
    """Notes the variable of an eager handle that a function uses, if it is from outside."""
    home, name = self._name_of(handle)
    if home is None:
      self.add(handle, "used")
    elif home == 0 and self._asked_for is not None and name not in self._asked_for:
      self.add(handle, "kept from an earlier call and used")

  def add(self, what: Any, how: str) -> None:
    """Records the first use of an outside handle, layer or optimizer."""
    if id(what) not in self._found:
      frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_stack(None)]
      self._found[id(what)] = what, how, user_frames.where(frames[::-1]) or " by an optimizer"

  def check(self, name: str, cause: Exception | None = None) -> None:
    """Raises an error that names the outside variables.

    Args:
      name: the traced function, such as "model_fn mine".
      cause: the error of the trace itself, if any.

    Raises:
      ModelFnError: the trace used an outside variable.
    """
    if not self._found:
      return
    variables = _variables_by_handle()
    # A variable on several replicas has several handles.
    lines = dict.fromkeys(
      f"  {_described(what, variables)}, {how}{where}" for what, how, where in self._found.values()
    )
    shown = list(lines)[:_SHOWN]
    if len(lines) > _SHOWN:
      shown.append(f"  and {len(lines) - _SHOWN} more")
    text = "\n".join([f"{name} uses objects made outside of it:", *shown, _WAYS_OUT])
    raise errors.ModelFnError(text) from cause

  def _name_of(self, handle):
    """Returns (place in `own`, name) of a handle's variable; (None, "") if it is not in `own`."""
    if id(handle) not in self._names:
      self._learn(self._known)
    if id(handle) not in self._names:
      # TensorFlow may pack a variable on several replicas into a new handle at its first use.
      self._learn([0] * len(self._own))
    return self._names.get(id(handle), (None, ""))

  def _learn(self, known):
    """Takes in the handles of the variables after the first so many of each dict."""
    for home, variables in enumerate(self._own):
      for name, variable in itertools.islice(variables.items(), known[home], None):
        for handle in tensorflow_internals.handles(variable):
          self._names[id(handle)] = home, name
    self._known = [len(variables) for variables in self._own]


def ignore() -> contextlib.AbstractContextManager[None]:
  """Returns a context that watches nothing: for parts of a graph that no step runs."""
  return patches.set_context(_watch, None)


def note_maker(maker: Any) -> None:
  """Notes that a layer or an optimizer from before the trace makes its variables in it."""
  if (watch := _watch.get()) is not None:
    watch.add(maker, "gets its variables")


@patches.replaces(*tensorflow_internals.CAPTURE, inside=_watch)
def _capture(original, graph, tensor, *args, **kwargs):
  if tensorflow_internals.is_variable_handle(tensor):
    _watch.get().see(tensor)
  return original(graph, tensor, *args, **kwargs)


def _described(what, variables):
  """A layer, an optimizer, or the variable of a handle, for a message."""
  if isinstance(what, keras.layers.Layer):
    return f"the layer {what.name} ({type(what).__name__})"
  if isinstance(what, keras.optimizers.Optimizer):
    return f"the optimizer {what.name} ({type(what).__name__})"
  variable = variables.get(id(what))
  if variable is None:
    return "a variable without a name"
  name = variable.path if isinstance(variable, keras.Variable) else variable.name.partition(":")[0]
  return f"{name} {tf.as_dtype(variable.dtype).name}{list(variable.shape)}"


def _variables_by_handle():
  """Returns all variables of the process by the id of a handle: a handle has no owner."""
  everything = live_objects.of(tf.Variable, keras.Variable)
  found = [each for each in everything if isinstance(each, tf.Variable)]
  # The outermost object has the name: a variable on several replicas around each replica's part,
  # and Keras's variable around that.
  found.sort(key=lambda variable: hasattr(variable, "_values"))
  around = {id(each.value): each for each in everything if isinstance(each, keras.Variable)}
  return {
    id(handle): around.get(id(variable), variable)
    for variable in found
    for handle in tensorflow_internals.handles(variable)
  }
