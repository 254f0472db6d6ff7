"""Compares every optimizer on eight cores with one core.

Prints the largest difference of any variable after 20 steps, clipped, accumulated and averaged.

Example:
    python -m tests.slow.optimizers
"""

import functools
import pathlib
import tempfile

import keras
import tensorflow as tf

from tests.conformance import cases
from tests.trainer.tracing import test_replicas
from trainer.devices import device as device_lib

v1 = tf.compat.v1

OPTIMIZERS = {
  "SGD": lambda: keras.optimizers.SGD(0.1),
  "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
  "Adam": keras.optimizers.Adam,
  "AdamW": keras.optimizers.AdamW,
  "Adafactor": keras.optimizers.Adafactor,
  "LAMB": keras.optimizers.Lamb,
  "v1 Adam": v1.train.AdamOptimizer,
  "v1 momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
  "v1 RMSProp": lambda: v1.train.RMSPropOptimizer(0.01),
}
SETTINGS = [{"clip_norm": 0.1}, {"clip_norm": 0.1, "accumulate_steps": 4}, {"ema_decay": 0.9}]
TOLERANCE = 1e-5


def main():
  device_lib.connect("cpu:8")
  for name, optimizer in OPTIMIZERS.items():
    for settings in SETTINGS:
      model_fn = functools.partial(
        cases.keras_layers, train_op=cases.minimized(optimizer, **settings)
      )
      with tempfile.TemporaryDirectory() as folder:
        difference = test_replicas.largest_difference(model_fn, pathlib.Path(folder), "cpu:8")
      print(f"{name:<12} {settings!s:<45} {difference:.1e}", flush=True)
      assert difference <= TOLERANCE


if __name__ == "__main__":
  main()
