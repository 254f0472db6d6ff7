"""One replica's step, from the model_fn to the HLO that the TPU compiler takes."""

import re

import tensorflow as tf

from trainer import errors, spec
from trainer.inputs import call, elements
from trainer.loop import step
from trainer.preflight import bindings, replica
from trainer.tracing import user_frames

_METHODS = {"train": "train", "eval": "evaluate", "predict": "predict"}
_MODES = {
  "train": spec.ModeKeys.TRAIN,
  "eval": spec.ModeKeys.EVAL,
  "predict": spec.ModeKeys.PREDICT,
}

# Ops that have no place on a TPU → what to do.
_SUGGESTIONS = {
  r"\w*PyFunc\w*": (
    "Python cannot run on a TPU: do it in the input_fn, where the host runs it, or write it with "
    "TensorFlow ops."
  ),
  r"Print\w*|StringFormat|PrintV2": (
    "printing cannot run on a TPU: use tf.summary.scalar, or print in the input_fn."
  ),
  r"String\w*|AsString|\w*Regex\w*|Decode\w*|\w*ToHashBucket\w*|Substr|Unicode\w*": (
    "strings stay on the host: turn them into numbers in the input_fn."
  ),
  r"Iterator\w*|\w*Dataset\w*": (
    "a dataset cannot be read inside model_fn: return it from the input_fn."
  ),
  r"Resize(Bicubic|Area)\w*|CropAndResize\w*": (
    "resize in the input_fn, or use the method 'bilinear' or 'nearest'."
  ),
  r"Ragged\w*|Sparse(?!Softmax)\w*": (
    "ragged and sparse tensors must become dense: pad them in the input_fn."
  ),
  r"LookupTable\w*|\w*HashTable\w*": "look-up tables stay on the host: look up in the input_fn.",
}


class LowerError(errors.OctetError, RuntimeError):
  """A step holds something that XLA cannot compile.

  Attributes:
    file, line: where the user's program asks for it; "" and 0 if it is not known.
    op: the name of the op, or "".
    suggestion: what to do, or "".
  """

  def __init__(self, message, file="", line=0, op="", suggestion=""):
    super().__init__(
      message + (f" ({file}:{line})" if file else "") + (f": {suggestion}" if suggestion else "")
    )
    self.file, self.line, self.op, self.suggestion = file, line, op, suggestion


class Steps:
  """The steps of an experiment on one replica of `replicas`; the kinds share their variables.

  Args:
    experiment: a bindings.Experiment.
    replicas: number of cores.
    per_core: dict of kind → per-core batch size.
  """

  def __init__(self, experiment, replicas, per_core):
    self._experiment = experiment
    self._replicas = replicas
    self._per_core = per_core
    self._params = dict(experiment.params, use_tpu=True)
    model_fn = spec.ModelFn(experiment.model_fn)
    model_fn.check_params(experiment.params)
    self._program = step.Program(
      model_fn,
      strategy=replica.OneOfMany(replicas),
      params=self._params,
      batch_sizes={_MODES[kind]: size for kind, size in per_core.items()},
      config=experiment.config,
    )

  @property
  def variables(self):
    """dict of name → variable, of the steps traced so far."""
    return self._program.store.variables

  def contract(self, kind):
    """The element (nest of tf.TensorSpec, with static shapes) that one replica's step of this
    kind gets; InputError if the input_fn gives no such.
    """
    input_fn, per_core = self._experiment.input_fns[kind], self._per_core[kind]
    host_batches = kind == "train" and self._experiment.config.tpu_config.gives_host_batches
    size = per_core * self._replicas if host_batches else per_core
    context = tf.distribute.InputContext(1, 0, self._replicas)
    try:
      dataset = call.call(
        input_fn, self._params, size, self._experiment.config.tf_random_seed, kind, context
      )
      elements.check_shapes(dataset, size, kind)
      for path, leaf in elements.named_leaves(dataset.element_spec):
        if leaf.dtype in (tf.string, tf.variant, tf.resource):
          raise errors.InputError(
            f"{path} ({kind}) has dtype {leaf.dtype.name}, which a TPU does "
            "not have: turn it into numbers in the input_fn."
          )
    except errors.InputError as error:
      raise errors.InputError(f"{error} ({bindings.place_of(input_fn)})") from error
    return self.with_batch(dataset.element_spec, per_core)

  @staticmethod
  def with_batch(element, per_core):
    """An element's specs with another batch size."""
    return tf.nest.map_structure(
      lambda leaf: tf.TensorSpec([per_core, *leaf.shape[1:]], leaf.dtype), element
    )

  def trace(self, kind, element):
    """A tf.function of the flat tensors of an element, already traced for it."""
    method = getattr(self._program, _METHODS[kind])

    def one_step(*flat):
      return method([tf.nest.pack_sequence_as(element, flat)])

    one_step.__name__ = f"{kind}_step"
    function = tf.function(one_step, jit_compile=True, autograph=False)
    function.get_concrete_function(*tf.nest.flatten(element))
    return function

  def lower(self, function, element):
    """bytes: the serialized HLO of a traced step; LowerError if it cannot be had."""
    try:
      return function.experimental_get_compiler_ir(*tf.nest.flatten(element))(
        stage="hlo_serialized"
      )
    except (ValueError, TypeError, tf.errors.OpError) as error:
      raise _explained(str(error)) from None  # its words are in ours, as far as they help


def graph_of(function, element):
  """The graph of a traced step."""
  return function.get_concrete_function(*tf.nest.flatten(element)).graph


def _explained(text):
  """The LowerError for TensorFlow's words."""
  file, line = user_frames.innermost(
    [
      (match[1], int(match[2]))
      for match in re.finditer(
        r"File "
        r'"([^"]+)", line (\d+)',
        text,
      )
    ]
  )
  unsupported = re.search(r"No registered '(\w+)' OpKernel", text)
  constant = re.search(
    r"Input \d+ to node `([^`]+)` with op (\w+) must be a compile-time "
    r"constant",
    text,
  )
  if unsupported:
    op = unsupported[1]
    advices = (advice for pattern, advice in _SUGGESTIONS.items() if re.fullmatch(pattern, op))
    suggestion = next(advices, "XLA has no such op: compute it in another way.")
    return LowerError(f"{op} cannot be compiled", file, line, op, suggestion)
  if constant:
    return LowerError(
      f"The shape that {constant[2]} asks for depends on the data",
      file,
      line,
      constant[2],
      "shapes must be known when the program is compiled: pad to a fixed size and mask",
    )
  if "fixed tensor list size" in text:
    return LowerError(
      "The gradient of a loop without a known bound cannot be compiled",
      file,
      line,
      "While",
      "give tf.while_loop maximum_iterations",
    )
  if "Only support static input shape" in text:
    return LowerError(
      "An input of the step has a shape that is not known",
      suggestion="batch with drop_remainder=True",
    )
  said = (
    re.sub(r"^Failed getting HLO text: '", "", text)
    .split("\n\nStack trace")[0]
    .split("\nThe op is created at")[0]
  )
  return LowerError(f"XLA cannot compile the step: {said[:1000]}", file, line)
