"""Scaffold(init_fn=...) of programs that begin with a checkpoint's values.

    saver = tf.train.Saver(variables)
    tf.train.Scaffold(init_fn=lambda scaffold, session: saver.restore(session, path))

A session called it when a training began without a checkpoint of its own. Here it is called with
what stands for one, where a Saver's restore says that variables begin with a checkpoint's values,
as tf.train.init_from_checkpoint does; so does contrib.framework.assign_from_checkpoint_fn.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from trainer import ModeKeys, errors
from trainer.internals import patches, tensorflow_internals

v1 = tf.compat.v1

# What a Scaffold holds beside its init_fn.
_OTHERS = (
  "init_op",
  "init_feed_dict",
  "ready_op",
  "ready_for_local_init_op",
  "local_init_op",
  "local_init_feed_dict",
  "summary_op",
  "saver",
)


class InitSession:
  """What an init_fn gets for a session."""

  graph = None

  def run(self, fetches: Any, feed_dict: Any = None) -> None:
    """Raises SettingError: nothing can be run."""
    del feed_dict
    raise errors.SettingError(
      f"A Scaffold's init_fn runs {fetches!r} in a session: there is none. Let it restore a "
      "tf.train.Saver, or use tf.train.init_from_checkpoint in the model_fn."[:500]
    )


@patches.replaces(v1.train.Saver, "restore")
def _restore(original, self, sess, save_path):
  if not isinstance(sess, InitSession):
    return original(self, sess, save_path)
  wanted = tensorflow_internals.saved_by(self)
  if wanted is None:
    wanted = v1.global_variables()
  if not isinstance(wanted, dict):
    wanted = {one.name.partition(":")[0]: one for one in wanted}
  v1.train.init_from_checkpoint(save_path, wanted)
  return None


def scaffold_fn(made: Any) -> Callable[[], Any] | None:
  """The scaffold_fn for Octet of an EstimatorSpec or TPUEstimatorSpec; None for none."""
  if made.scaffold_fn is None and made.scaffold is None:
    return None

  def make() -> Any:
    scaffold = made.scaffold_fn() if made.scaffold_fn is not None else made.scaffold
    is_plain = type(scaffold) is v1.train.Scaffold
    if made.mode != ModeKeys.TRAIN or not is_plain or scaffold.init_fn is None:
      return scaffold
    scaffold.init_fn(InitSession())  # the Scaffold gives itself
    return v1.train.Scaffold(**{name: getattr(scaffold, name) for name in _OTHERS})

  return make
