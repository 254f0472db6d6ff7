"""The check of saving listeners."""

import pytest
import tensorflow as tf

from trainer import errors
from trainer.hooks import saving_listeners


class Partial:
  """A listener without `begin` and `end`."""

  def before_save(self, session, step):
    pass

  def after_save(self, session, step):
    pass


def test_tensorflows_listeners_are_accepted():
  saving_listeners.check([tf.compat.v1.train.CheckpointSaverListener()], "run.saving_listeners")


@pytest.mark.parametrize(
  ("listener", "message"),
  [
    (Partial, r"^run\.saving_listeners has the class Partial, .*, as in @Partial\(\) in gin\.$"),
    (Partial(), r"^run\.saving_listeners: a listener has the .*; Partial lacks begin, end\. The"),
    (print, r"; print lacks begin, before_save, after_save, end\."),
  ],
)
def test_what_is_no_listener_is_refused_by_name(listener, message):
  with pytest.raises(errors.SettingError, match=message):
    saving_listeners.check([listener], "run.saving_listeners")
