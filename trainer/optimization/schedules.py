"""Learning-rate schedules with a warm-up, whose lengths are durations.

    keras.optimizers.AdamW.learning_rate = @schedules.cosine()
    schedules.cosine.learning_rate = 0.003
    schedules.cosine.warmup = "5 epochs"

Lengths are durations (see `trainer.settings.durations`): 245, "5 epochs", "250000 examples",
"10 %". An optimizer of Keras or of `tf.compat.v1.train` takes a schedule as its learning rate:

    trainer.minimize(keras.optimizers.AdamW(schedules.cosine(0.003, warmup="5 epochs")), loss)

Inside a model_fn a schedule follows the global step, not the optimizer's own count of updates. An
epoch therefore stays an epoch with `minimize.accumulate_steps = 4`, where the optimizer counts
every fourth step, and with an optimizer that updates several times per step. The first step of a
training is step 0.

In a warm-up of `w` steps the learning rate is `learning_rate × step / w`. The warm-up of `linear`
may begin above 0.

Of Keras's own schedules Octet uses only ExponentialDecay. Keras's CosineDecay computes `1 + cos(x)`
in float32: in a training of 100,000 steps, the last rates before the end are 0 too early. Its
PolynomialDecay computes `1 - step / length`, which has three correct digits there. The formulas
here have a relative error below 4e-7. Its PiecewiseConstantDecay takes no empty list, and at a
boundary still gives the earlier rate.
"""

import contextlib
import contextvars
import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import keras
import tensorflow as tf

from trainer import errors
from trainer.config import gin_names
from trainer.internals import patches
from trainer.settings import durations, setting_types

# A number of steps, or a string such as "5 epochs".
Duration: TypeAlias = float | str

_Positive = Annotated[
  float, setting_types.Rule("a number greater than 0", lambda value: 0 < value < math.inf)
]
_NotNegative = Annotated[
  float, setting_types.Rule("a number of at least 0", lambda value: 0 <= value < math.inf)
]


@gin_names.configurable(module="schedules")
def constant(learning_rate: _Positive, warmup: Duration = 0) -> "Schedule":
  """Makes a schedule that is constant after the warm-up.

  Args:
    learning_rate: float > 0.
    warmup: length of the warm-up.

  Raises:
    SettingError: a value can never work. Durations that do not fit together, or that need a missing
      setting, raise SettingError at the first call of the schedule.
  """
  return Schedule("constant", locals())


@gin_names.configurable(module="schedules")
def cosine(
  learning_rate: _Positive,
  warmup: Duration = 0,
  duration: Duration = "100 %",
  final: _NotNegative = 0.0,
) -> "Schedule":
  """Makes a schedule that falls from `learning_rate` to `final` along half a cosine.

  I. Loshchilov, F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (2017), without
  the restarts.

  Args:
    learning_rate: float > 0, the rate at the end of the warm-up.
    warmup: length of the warm-up, a part of `duration`.
    duration: the time of `final`, from the beginning of the training.
    final: float >= 0, the rate from then on.

  Raises:
    SettingError: see `constant`.
  """
  return Schedule("cosine", locals())


@gin_names.configurable(module="schedules")
def linear(
  learning_rate: _Positive,
  warmup: Duration = 0,
  duration: Duration = "100 %",
  final: _NotNegative = 0.0,
  initial: _NotNegative = 0.0,
) -> "Schedule":
  """Makes a schedule that falls from `learning_rate` to `final` along a line.

  With a long warm-up it is a triangle.

  Args:
    learning_rate: see `cosine`.
    warmup: see `cosine`.
    duration: see `cosine`.
    final: see `cosine`.
    initial: float >= 0, the rate at the start of the warm-up.

  Raises:
    SettingError: see `constant`.
  """
  return Schedule("linear", locals())


@gin_names.configurable(module="schedules")
def polynomial(
  learning_rate: _Positive,
  power: _Positive = 2.0,
  warmup: Duration = 0,
  duration: Duration = "100 %",
  final: _NotNegative = 0.0,
) -> "Schedule":
  """Makes a schedule that falls from `learning_rate` to `final` by `(1 - progress) ** power`.

  Args:
    learning_rate: see `cosine`.
    power: float > 0.
    warmup: see `cosine`.
    duration: see `cosine`.
    final: see `cosine`.

  Raises:
    SettingError: see `constant`.
  """
  return Schedule("polynomial", locals())


@gin_names.configurable(module="schedules")
def exponential(
  learning_rate: _Positive,
  factor: _Positive,
  every: Duration,
  staircase: bool = False,
  warmup: Duration = 0,
) -> "Schedule":
  """Makes the schedule `learning_rate × factor ** (steps since the warm-up / every)`.

  Args:
    learning_rate: float > 0, the rate at the end of the warm-up.
    factor: float > 0.
    every: duration > 0; each `every` multiplies the rate by `factor`.
    staircase: True multiplies once, at the end of each `every`; False a little in each step.
    warmup: length of the warm-up.

  Raises:
    SettingError: see `constant`.
  """
  return Schedule("exponential", locals())


@gin_names.configurable(module="schedules")
def piecewise(
  learning_rates: Sequence[_NotNegative], boundaries: Sequence[Duration], warmup: Duration = 0
) -> "Schedule":
  """Makes a schedule of several constant rates.

  Args:
    learning_rates: floats >= 0, one more than boundaries. The warm-up rises to the first.
    boundaries: in order, the start of each next rate, from the beginning of the training. The step
      at a boundary has the next rate.
    warmup: length of the warm-up, which must end before the first boundary.

  Raises:
    SettingError: see `constant`.
  """
  learning_rates, boundaries = list(learning_rates), list(boundaries)
  return Schedule("piecewise", locals())


@keras.saving.register_keras_serializable("octet")
class Schedule(keras.optimizers.schedules.LearningRateSchedule):
  """A schedule made by one of the functions above.

  Args:
    kind: the name of the function.
    arguments: the function's arguments, all of them.

  Raises:
    SettingError: see `constant`.
  """

  def __init__(self, kind: str, arguments: Mapping[str, Any]) -> None:
    self._kind = kind
    self._arguments = dict(arguments)
    for name, value in self._arguments.items():
      if name in ("warmup", "duration", "every"):
        number, _ = durations.parse(value, self._gin_name(name))
        self._require(name, "a duration greater than 0", name == "warmup" or number > 0)
      elif name == "learning_rates":
        wanted = len(self._arguments["boundaries"]) + 1
        self._require(name, f"{wanted} numbers, one more than boundaries", len(value) == wanted)
      elif name == "boundaries":
        for boundary in value:
          durations.parse(boundary, self._gin_name(name))

  def __call__(self, step: Any = None) -> tf.Tensor:
    """Returns the learning rate at a step, a float32 scalar.

    Args:
      step: int scalar. Optimizers of tf.compat.v1 pass None, and Keras's pass their own count, a
        keras.Variable: in both cases the schedule uses the global step of the training.

    Raises:
      SettingError: the durations do not fit together or do not convert to steps, or there is
        neither a step nor a training.
    """
    now = _now.get()
    if now is _IDLE:
      return tf.constant(0.0)
    length = now.length if now else durations.TrainingLength()
    # A step from the caller, such as a tensor or an int, stays unchanged.
    if now and now.step is not None and (step is None or isinstance(step, keras.Variable)):
      step = now.step
    if step is None:
      raise errors.SettingError(
        f"A call of schedules.{self._kind} outside of a training needs the step."
      )
    step = tf.convert_to_tensor(step)
    warmup = length.steps(self._arguments["warmup"], self._gin_name("warmup"))
    curve, peak = getattr(self, f"_{self._kind}")(warmup, length)
    rate = curve(step)
    if warmup:
      done = tf.cast(step, tf.float32)
      initial = self._arguments.get("initial", 0.0)
      rising = initial + (peak - initial) * (done / warmup)
      rate = tf.where(done < warmup, rising, rate)
    return rate

  # Each of these methods returns a function from the step to the rate (a float32 scalar) after the
  # warm-up, and the rate at the end of the warm-up.

  def _constant(self, warmup, length):
    del warmup, length
    peak = self._arguments["learning_rate"]
    return lambda step: tf.constant(peak, tf.float32), peak

  def _cosine(self, warmup, length):
    # sin² is (1 - cos(π left)) / 2, without the difference, in which small rates lose their digits.
    return self._decay(warmup, length, lambda left: tf.square(tf.sin(math.pi / 2 * left)))

  def _linear(self, warmup, length):
    return self._decay(warmup, length, lambda left: left)

  def _polynomial(self, warmup, length):
    return self._decay(warmup, length, lambda left: left ** self._arguments["power"])

  def _decay(self, warmup, length, shape):
    """Makes a curve from learning_rate to final.

    `shape` maps the remaining share of the training, from 1 to 0, to the share of `learning_rate`
    in the mean of `learning_rate` and `final`.
    """
    peak, final = self._arguments["learning_rate"], self._arguments["final"]
    end = length.steps(self._arguments["duration"], self._gin_name("duration"))
    if not warmup < end:
      raise errors.SettingError(
        f"{self._gin_name('warmup')} is {self._arguments['warmup']!r} ({warmup:g} steps): it must "
        f"be shorter than {self._gin_name('duration')}, {self._arguments['duration']!r} ({end:g} "
        "steps)."
      )

    def curve(step):
      left = tf.clip_by_value((end - tf.cast(step, tf.float32)) / (end - warmup), 0.0, 1.0)
      share = shape(left)
      # Exact at share 1, where final + (peak - final) * share may differ in the last bit.
      return peak * share + final * (1 - share)

    return curve, peak

  def _exponential(self, warmup, length):
    peak, factor = self._arguments["learning_rate"], self._arguments["factor"]
    every = length.steps(self._arguments["every"], self._gin_name("every"))
    decay = keras.optimizers.schedules.ExponentialDecay(
      float(peak), every, float(factor), self._arguments["staircase"]
    )
    return lambda step: decay(tf.maximum(tf.cast(step, tf.float32) - warmup, 0.0)), peak

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
      # Compared as int64: a float32 cannot tell single steps apart beyond 2**24.
      passed = [tf.cast(step, tf.int64) >= math.ceil(boundary) for boundary in boundaries]
      return tf.gather(
        tf.constant(rates, tf.float32), tf.reduce_sum(tf.cast([*passed, False], tf.int32))
      )

    return curve, rates[0]

  def get_config(self) -> dict[str, Any]:
    """Returns the arguments from which Keras makes a copy."""
    return {"kind": self._kind, "arguments": dict(self._arguments)}

  def _gin_name(self, argument):
    return f"schedules.{self._kind}.{argument}"

  def _require(self, argument, expected, holds):
    if not holds:
      raise errors.SettingError(
        f"{self._gin_name(argument)} must be {expected}; got {self._arguments[argument]!r}."
      )


def progress(name: str) -> tf.Tensor:
  """Returns the finished share of the training at the current step, a float32 scalar.

  The last step has the share 1.

  Args:
    name: the setting that needs the share, for messages.

  Raises:
    SettingError: there is no training, or it has no length.
  """
  now = _training(name)
  total = now.length.steps("100 %", name)
  return tf.clip_by_value((tf.cast(now.step, tf.float32) + 1) / total, 0.0, 1.0)


def is_before(duration: Duration, name: str) -> tf.Tensor:
  """Returns whether the current step is one of the first steps of a training, a bool scalar.

  Args:
    duration: the length of these first steps.
    name: see `progress`.

  Raises:
    SettingError: see `progress`; or the duration does not convert to steps.
    SettingError: see `progress`; or the duration does not convert to steps.
  """
  now = _training(name)
  return tf.cast(now.step, tf.float32) < now.length.steps(duration, name)


def _training(name):
  now = _now.get()
  if now is None or now.step is None:
    raise errors.SettingError(f"{name} needs a training, and there is none.")
  return now


@dataclasses.dataclass(frozen=True)
class _Now:
  """The training that schedules belong to.

  Attributes:
    length: converts durations to steps.
    step: the global step, an int64 scalar; None where the caller passes the step.
  """

  length: durations.TrainingLength
  step: tf.Tensor | None


_IDLE = _Now(durations.TrainingLength(), None)

_now: contextvars.ContextVar[_Now | None] = contextvars.ContextVar("training", default=None)


def training_scope(
  length: durations.TrainingLength, step: tf.Tensor | None = None
) -> contextlib.AbstractContextManager[None]:
  """Makes schedules use a TrainingLength and follow a global step inside a `with` block.

  Open the block around the trace of a training step.

  Example:
      length = durations.TrainingLength(batch_size=1024, epoch_examples=50_000, train_steps=2441)
      with schedules.training_scope(length):
        schedule(245)

  Args:
    length: converts durations to steps.
    step: the global step, an int64 scalar; None if the caller gives schedules a step.
  """
  return patches.set_context(_now, _Now(length, step))


def idle_scope() -> contextlib.AbstractContextManager[None]:
  """Makes schedules return 0 inside a `with` block, whatever their durations.

  A model_fn may make its train_op in every mode. Evaluation and prediction do not know the length
  of a training, and never run the train_op.
  """
  return patches.set_context(_now, _IDLE)
