"""Traces one replica's step and lowers it to the HLO that the TPU compiler takes."""

import re
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from trainer import errors, spec
from trainer.devices import replica
from trainer.inputs import elements, feeder, stacks
from trainer.preflight import bindings
from trainer.programs import (
  abstract_variables,
  core_results,
  functionalize,
  hlo_program,
  program_length,
  step,
  tpu_lowering,
)
from trainer.settings.kinds import Kind
from trainer.tracing import user_frames

_METHODS: dict[str, str] = {Kind.TRAIN: "train", Kind.EVAL: "evaluate", Kind.PREDICT: "predict"}

# Ops that cannot run on a TPU → what to do instead.
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
  """XLA cannot compile a step.

  Attributes:
    file: of the user's program that makes the op; "" if it is not known.
    line: in this file; 0 if it is not known.
    op: name of the op, or "".
    suggestion: what to do, or "".
  """

  def __init__(
    self, message: str, file: str = "", line: int = 0, op: str = "", suggestion: str = ""
  ) -> None:
    super().__init__(
      message + (f" ({file}:{line})" if file else "") + (f": {suggestion}" if suggestion else "")
    )
    self.file, self.line, self.op, self.suggestion = file, line, op, suggestion


class Steps:
  """The steps of an experiment on one of `replicas` replicas. All kinds share their variables.

  Args:
    experiment: the experiment.
    replicas: number of cores.
    per_core: kind → per-core batch size.
  """

  def __init__(
    self, experiment: bindings.Experiment, replicas: int, per_core: Mapping[Any, int]
  ) -> None:
    self._experiment = experiment
    self._per_core = per_core
    params = dict(experiment.params, use_tpu=True)
    self._feeder = feeder.Feeder(
      feeder.Layout(replicas, replicas), per_core.__getitem__, experiment.config, params
    )
    model_fn = spec.ModelFn(experiment.model_fn)
    model_fn.check_params(experiment.params)
    self._program = step.Program(
      model_fn,
      strategy=replica.OneOfMany(replicas),
      params=params,
      batch_sizes=per_core,
      config=experiment.config,
    )

  @property
  def variables(self) -> dict[str, Any]:
    """Name → variable, of the steps that were traced so far."""
    return self._program.store.variables

  def contract(self, kind: str) -> Any:
    """Calls the input_fn of a kind and checks its dataset against what a TPU needs.

    Returns:
      The element that one replica's step gets: a nest of tf.TensorSpec with static shapes.

    Raises:
      InputError: the input_fn fails, or its elements cannot be used on a TPU.
    """
    input_fn = self._experiment.input_fns[kind]
    try:
      dataset, _ = self._feeder.batches(kind, input_fn)
      for path, leaf in elements.named_leaves(dataset.element_spec):
        if leaf.dtype in (tf.string, tf.variant, tf.resource):
          raise errors.InputError(
            f"{path} ({kind}) has dtype {leaf.dtype.name}, which a TPU does "
            "not have: turn it into numbers in the input_fn."
          )
    except errors.InputError as error:
      raise errors.InputError(f"{error} ({bindings.place_of(input_fn)})") from error
    return self.with_batch(dataset.element_spec, self._per_core[kind])

  @staticmethod
  def with_batch(element: Any, per_core: int) -> Any:
    """Returns the specs of an element with another batch size."""
    return tf.nest.map_structure(
      lambda leaf: tf.TensorSpec([per_core, *leaf.shape[1:]], leaf.dtype), element
    )

  def trace(self, kind: str, element: Any) -> Any:
    """Traces a step.

    Args:
      kind: "train", "eval" or "predict".
      element: what `contract` returns.

    Returns:
      A tf.function of the flat tensors of an element.
    """
    method = getattr(self._program, _METHODS[kind])

    def one_step(*flat):
      *tensors, _ = method([tf.nest.pack_sequence_as(element, flat)])
      return tensors

    one_step.__name__ = f"{kind}_step"
    function = tf.function(one_step, jit_compile=True, autograph=False)
    with tf.variable_creator_scope(abstract_variables.without_values):
      function.get_concrete_function(*tf.nest.flatten(element))
    return function

  def trace_program(self, kind: str, element: Any) -> tuple[Any, Any]:
    """Traces what the device runs in one program: many steps, or groups, where they may be one.

    Args:
      kind: "train", "eval" or "predict".
      element: what `contract` returns.

    Returns:
      (function, arguments): a tf.function, and the nest of tf.TensorSpec that it takes.

    Raises:
      SettingError: TPUConfig.steps_per_program cannot be had.
    """
    config = self._experiment.config
    if kind == Kind.TRAIN:
      steps = program_length.steps_on_tpu(config, element)
      traced = None if steps == 1 else self._trace_steps(element, steps)
    else:
      most = program_length.groups_on_tpu(config, element)
      _, traced = program_length.longest(
        lambda groups: self._trace_groups(Kind(kind), element, groups), most
      )
    return traced or (self.trace(kind, element), element)

  def _trace_steps(self, element, steps):
    return self._trace_stack(element, steps, self._program.train_steps)

  def _trace_groups(self, kind, element, groups):
    limit = self._experiment.config.tpu_config.stacked_input_bytes
    results = core_results.CoreResults(self._program.store, kind, groups, limit)

    def run(stacked, first, count):
      self._program.run_groups(kind, stacked, first, count, results)

    return self._trace_stack(element, groups, run)

  def _trace_stack(self, element, steps, run):
    (stack,) = stacks.spec_of(element, steps, replicas=1)

    def program(first, count, *flat):
      run([tf.nest.pack_sequence_as(stack, flat)], first, count)

    function = tf.function(program, jit_compile=True, autograph=False)
    arguments = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.int32), stack
    with tf.variable_creator_scope(abstract_variables.without_values):
      function.get_concrete_function(*tf.nest.flatten(arguments))
    return function, arguments

  def lower(self, function: Any, element: Any) -> hlo_program.HloProgram:
    """Lowers a traced step: as a TPU does if tensorflow-tpu is installed, else as for a CPU.

    Raises:
      LowerError: XLA cannot compile the step, or preflight cannot make it a function without
        variables, which lowering as a TPU does needs.
    """
    flat, lowering = tf.nest.flatten(element), None
    try:
      if not tpu_lowering.is_installed():
        hlo = function.experimental_get_compiler_ir(*flat)(stage="hlo_serialized")
        return hlo_program.HloProgram(hlo, hlo_program.CPU)
      lowering = tpu_lowering.Lowering(function.get_concrete_function(*flat))
      return lowering.lower()
    except functionalize.ImpureError as error:
      raise LowerError(
        f"{error} In an environment with the extras [cpu,preflight] the step is lowered as "
        "for a CPU, which can do it"
      ) from error
    except (ValueError, TypeError, tf.errors.OpError) as error:
      # Not chained: TensorFlow's message is long, and what helps of it is in ours.
      raise _lower_error(str(error), lowering) from None


def graph_of(function: Any, element: Any) -> tf.Graph:
  """Returns the graph of a traced step."""
  return function.get_concrete_function(*tf.nest.flatten(element)).graph


def _lower_error(text, lowering):
  """Returns the LowerError for a message of TensorFlow."""
  file, line = _place(text, lowering)
  unsupported = re.search(r"No registered '(\w+)' OpKernel", text)
  constant = re.search(
    r"Input \d+ to node `([^`]+)` with op (\w+) must be a compile-time constant", text
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


def _place(text, lowering):
  """Returns the file and line of the user's program that a message is about."""
  operation = lowering and lowering.operation_in(text)
  if operation is not None:
    frames = [(frame.filename, frame.lineno) for frame in operation.traceback or ()]
    return user_frames.innermost(frames)
  # Of an op in a loop, the stack trace of the op comes first, then that of the loop.
  of_op = text.split("tf2xla conversion failed while converting", 1)[0]
  return user_frames.innermost(
    [(match[1], int(match[2])) for match in re.finditer(r'File "([^"]+)", line (\d+)', of_op)]
  )
