"""Learning rates that change while a model trains: constant, cosine, linear, polynomial,
exponential, piecewise, each with a warm-up before it.

    keras.optimizers.AdamW.learning_rate = @schedules.cosine()
    schedules.cosine.learning_rate = 0.003
    schedules.cosine.warmup = "5 epochs"

What lasts a while is a duration, see `trainer.durations`: 245, "5 epochs", "250000 examples", "10
%". A schedule goes to an optimizer as its learning rate, to one of Keras as to one of
`tf.compat.v1.train`:

    trainer.minimize(keras.optimizers.AdamW(schedules.cosine(0.003, warmup="5 epochs")), loss)

Inside a model_fn a schedule follows the global step, whatever its optimizer counts: with
`minimize.accumulate_steps = 4` that applies every fourth step, with another optimizer that applies
several times a step, an epoch is an epoch still. The first step of a training is step 0.

While `w` is the warm-up, the learning rate is `learning_rate × step / w`, then what the schedule
says.
"""

import contextlib
import contextvars
import dataclasses
import itertools
import math
import numbers

import keras
import tensorflow as tf

from trainer import durations, errors
from trainer.config import gin_names
from trainer.internals import patches


@gin_names.configurable(module="schedules")
def constant(learning_rate, warmup=0):
  """The same all the time, after a warm-up.

  Args:
    learning_rate: float > 0.
    warmup: duration.

  Returns:
    A Schedule.

  Raises:
    SettingError: here a value that can never work; when it is first called, durations that do not
      fit together or whose measure is missing.
  """
  return Schedule("constant", {"learning_rate": learning_rate, "warmup": warmup})


@gin_names.configurable(module="schedules")
def cosine(learning_rate, warmup=0, duration="100 %", final=0.0):
  """From `learning_rate` to `final` along half a cosine.

  I. Loshchilov, F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (2017), without
  the restarts.

  Args:
    learning_rate: float > 0, that at the end of the warm-up.
    warmup: duration, part of `duration`.
    duration: when `final` is reached, counted from the beginning of the training.
    final: float >= 0, from there on.
  """
  return Schedule(
    "cosine",
    {"learning_rate": learning_rate, "warmup": warmup, "duration": duration, "final": final},
  )


@gin_names.configurable(module="schedules")
def linear(learning_rate, warmup=0, duration="100 %", final=0.0):
  """From `learning_rate` to `final` along a line; arguments as those of `cosine`."""
  return Schedule(
    "linear",
    {"learning_rate": learning_rate, "warmup": warmup, "duration": duration, "final": final},
  )


@gin_names.configurable(module="schedules")
def polynomial(learning_rate, power=2.0, warmup=0, duration="100 %", final=0.0):
  """From `learning_rate` to `final` by `(1 - progress) ** power`; power: float > 0, the other
  arguments as those of `cosine`.
  """
  arguments = {
    "learning_rate": learning_rate,
    "power": power,
    "warmup": warmup,
    "duration": duration,
    "final": final,
  }
  return Schedule("polynomial", arguments)


@gin_names.configurable(module="schedules")
def exponential(learning_rate, factor, every, staircase=False, warmup=0):
  """`learning_rate × factor ** (steps since the warm-up / every)`.

  Args:
    learning_rate: float > 0, that at the end of the warm-up.
    factor: float > 0.
    every: duration > 0, after which the learning rate is multiplied by `factor`.
    staircase: whether that happens at once, at its end, and not little by little.
    warmup: duration.
  """
  arguments = {
    "learning_rate": learning_rate,
    "factor": factor,
    "every": every,
    "staircase": staircase,
    "warmup": warmup,
  }
  return Schedule("exponential", arguments)


@gin_names.configurable(module="schedules")
def piecewise(learning_rates, boundaries, warmup=0):
  """One learning rate after another.

  Args:
    learning_rates: list of floats >= 0, one more than boundaries; the first is that at the end of
      the warm-up.
    boundaries: list of durations, in order: when the next learning rate begins, counted from the
      beginning of the training. The step that a boundary falls on has the next one already.
    warmup: duration, not longer than the first boundary.
  """
  return Schedule(
    "piecewise",
    {"learning_rates": list(learning_rates), "boundaries": list(boundaries), "warmup": warmup},
  )


@keras.saving.register_keras_serializable("octet")
class Schedule(keras.optimizers.schedules.LearningRateSchedule):
  """What the functions above make.

  Args:
    kind: the name of one of them.
    arguments: dict of its arguments.

  Raises:
    SettingError: see `constant`.
  """

  def __init__(self, kind, arguments):
    self._kind = kind
    self._arguments = dict(arguments)
    for name, value in self._arguments.items():
      if name in ("warmup", "duration", "every"):
        number, _ = durations.parse(value, self._gin_name(name))
        self._require(name, "a duration greater than 0", name == "warmup" or number > 0)
      elif name in ("learning_rate", "power", "factor"):
        self._require(name, "a number greater than 0", _is_number(value) and value > 0)
      elif name == "final":
        self._require(name, "a number of at least 0", _is_number(value) and value >= 0)
      elif name == "staircase":
        self._require(name, "True or False", isinstance(value, bool))
      elif name == "learning_rates":
        self._require(
          name, "numbers of at least 0", all(_is_number(rate) and rate >= 0 for rate in value)
        )
        wanted = len(self._arguments["boundaries"]) + 1
        self._require(name, f"{wanted} numbers, one more than boundaries", len(value) == wanted)
      elif name == "boundaries":
        for boundary in value:
          durations.parse(boundary, self._gin_name(name))

  def __call__(self, step=None):
    """The learning rate, a float32 scalar.

    Args:
      step: int; where it is None, as for optimizers of tf.compat.v1, or a Keras optimizer's own
        count, the global step of the training.
    """
    now = _now.get()
    if now is _IDLE:
      return tf.constant(0.0)
    length = now.length if now else durations.TrainingLength()
    if now and now.step is not None and (step is None or isinstance(step, keras.Variable)):
      step = now.step
    if step is None:
      raise errors.SettingError(
        f"schedules.{self._kind} is called outside of a training: give it the step."
      )
    step = tf.convert_to_tensor(step)
    warmup = length.steps(self._arguments["warmup"], self._gin_name("warmup"))
    curve, peak = getattr(self, f"_{self._kind}")(warmup, length)
    rate = curve(step)
    if warmup:
      done = tf.cast(step, tf.float32)
      rate = tf.where(done < warmup, peak * (done / warmup), rate)
    return rate

  # Each of these: (function of the step → float32 scalar, the learning rate at the end of the
  # warm-up).

  def _constant(self, warmup, length):
    del warmup, length
    peak = self._arguments["learning_rate"]
    return lambda step: tf.constant(peak, tf.float32), peak

  def _cosine(self, warmup, length):
    # (1 - cos(π left)) / 2, and no digit lost.
    return self._decay(warmup, length, lambda left: tf.square(tf.sin(math.pi / 2 * left)))

  def _linear(self, warmup, length):
    return self._decay(warmup, length, lambda left: left)

  def _polynomial(self, warmup, length):
    return self._decay(warmup, length, lambda left: left ** self._arguments["power"])

  def _decay(self, warmup, length, shape):
    """`shape` maps what is left, 1 to 0, to the share of the way from final to learning_rate."""
    peak, final = self._arguments["learning_rate"], self._arguments["final"]
    end = length.steps(self._arguments["duration"], self._gin_name("duration"))
    if not warmup < end:
      raise errors.SettingError(
        f"{self._gin_name('warmup')} is {self._arguments['warmup']!r} ({warmup:g} steps): it "
        f"must be shorter than {self._gin_name('duration')}, "
        f"{self._arguments['duration']!r} ({end:g} steps), of which it is a part."
      )

    def curve(step):
      left = tf.clip_by_value((end - tf.cast(step, tf.float32)) / (end - warmup), 0.0, 1.0)
      share = shape(left)
      return peak * share + final * (1 - share)  # which is exact at both ends

    return curve, peak

  def _exponential(self, warmup, length):
    peak, factor = self._arguments["learning_rate"], self._arguments["factor"]
    every = length.steps(self._arguments["every"], self._gin_name("every"))

    def curve(step):
      times = tf.maximum(tf.cast(step, tf.float32) - warmup, 0.0) / every
      return peak * factor ** (tf.floor(times) if self._arguments["staircase"] else times)

    return curve, peak

  def _piecewise(self, warmup, length):
    name, rates = self._gin_name("boundaries"), self._arguments["learning_rates"]
    boundaries = [length.steps(boundary, name) for boundary in self._arguments["boundaries"]]
    if any(later <= earlier for earlier, later in itertools.pairwise(boundaries)):
      raise errors.SettingError(
        f"{name} is {self._arguments['boundaries']}, in steps "
        f"{boundaries}: each must be greater than the one before."
      )
    if boundaries and warmup > boundaries[0]:
      raise errors.SettingError(
        f"{self._gin_name('warmup')} is {self._arguments['warmup']!r} ({warmup:g} steps): it "
        f"must end before the first of {name}, "
        f"{self._arguments['boundaries'][0]!r} ({boundaries[0]:g} steps)."
      )

    def curve(step):
      # Of whole numbers, which stay exact where a float32 no longer counts single steps.
      passed = [tf.cast(step, tf.int64) >= math.ceil(boundary) for boundary in boundaries]
      return tf.gather(
        tf.constant(rates, tf.float32), tf.reduce_sum(tf.cast([*passed, False], tf.int32))
      )

    return curve, rates[0]

  def get_config(self):
    """What Keras makes a copy from."""
    return {"kind": self._kind, "arguments": dict(self._arguments)}

  def _gin_name(self, argument):
    return f"schedules.{self._kind}.{argument}"

  def _require(self, argument, expected, holds):
    if not holds:
      raise errors.SettingError(
        f"{self._gin_name(argument)} must be {expected}; got {self._arguments[argument]!r}."
      )


def _is_number(value):
  return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


@dataclasses.dataclass(frozen=True)
class _Now:
  """What schedules go by: a durations.TrainingLength and the global step (int64 scalar tensor,
  or None).
  """

  length: durations.TrainingLength
  step: tf.Tensor | None


_IDLE = _Now(durations.TrainingLength(), None)

_now = contextvars.ContextVar("what schedules go by", default=None)


def training_scope(
  length: durations.TrainingLength, step: tf.Tensor | None = None
) -> contextlib.AbstractContextManager[None]:
  """Inside, schedules measure durations by a TrainingLength, and follow `step`; entered around the
  trace of a training step.

  Example:
      length = durations.TrainingLength(batch_size=1024, epoch_examples=50_000, train_steps=2441)
      with schedules.training_scope(length):
        schedule(245)
  """
  return patches.set_context(_now, _Now(length, step))


def idle_scope() -> contextlib.AbstractContextManager[None]:
  """Inside, schedules are 0 and look at nothing: a model_fn may make its train_op in every
  mode, and only training runs it.
  """
  return patches.set_context(_now, _IDLE)
