"""What has started TensorFlow is found at the top of modules, and nothing is started by that."""

import sys
import types

import keras
import tensorflow as tf

from trainer.devices import early_tensors


class Lazy:
  """An object that makes what it is asked for."""

  def __getattr__(self, name):
    raise AssertionError(name)


def test_it_finds_values_and_asks_other_objects_for_nothing(tmp_path, monkeypatch):
  layer = keras.layers.Dense(1)
  layer.build([None, 2])
  module = types.ModuleType("program")
  module.__file__ = str(tmp_path / "program.py")
  (tmp_path / "program.py").write_text("x = 1\n\nlayer = 2\n")
  vars(module).update(x=tf.ones([]), layer=layer, lazy=Lazy(), unbuilt=keras.layers.Dense(1), n=3)
  monkeypatch.setitem(sys.modules, "program", module)
  found = [place for place in early_tensors.places() if "program.py" in place]
  assert found == [f"x ({module.__file__}:1)", f"layer ({module.__file__}:3)"]
