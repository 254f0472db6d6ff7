"""What the tests of gin configurations configure: a root, as `trainer.experiment.run` is, an
input_fn, a model_fn and a layer that it calls.
"""

import gin

ROOT = f"{__name__}.start"


@gin.configurable(module="program", denylist=["model_dir"])
def start(*, model_fn, input_fn=None, eval_input_fn=None, steps=None, params=None, model_dir=None):
  """Calls what it is given; returns what came of it."""
  return {
    "input": input_fn and input_fn({}),
    "model": model_fn({}),
    "steps": steps,
    "params": params,
  }


@gin.configurable(module="program", denylist=["model_dir"])
def start_in(*, steps, model_dir):
  return steps, model_dir


@gin.configurable(module="points")
def input_fn(params, split="train", training=False):
  return split, training


@gin.configurable(module="line")
def model_fn(features, width=8, optimizer=None, clip=None):
  return width, optimizer() if callable(optimizer) else optimizer, layer()


@gin.configurable(module="line")
def layer(units=1):
  return units


@gin.configurable(module="optimize")
class Momentum:
  def __init__(self, rate, decay=0.0):
    self.rate = rate
    self.decay = decay


@gin.configurable(module="needy")
def needy_fn(features, classes=gin.REQUIRED):
  return classes


@gin.configurable(module="other")
def layer_with_another_home(units=1):
  return units


gin.configurable("layer", module="other")(layer_with_another_home)
