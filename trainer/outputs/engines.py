"""Engines run an export's signature on the CPU. All have the same interface.

Example:
    engine = engines.load("out/digits/export/1732283000", "auto", batch_size=128)
    engine.predict_batch({"image": images})["probabilities"]
    engine.name                                                # "onnx"

    "tensorflow"      the frozen graph, see `outputs.freezing`; always there
    "onnx"            ONNX Runtime; the extra [onnx]
    "openvino"        OpenVINO, all threads on the same batch; the extra [openvino]
    "openvino_parts"  OpenVINO, each thread with its own part of a batch; the same extra
    "tflite"          TensorFlow Lite, by ai-edge-litert (the extra [litert]) or else by TensorFlow;
                      one call at a time
    "tflite_int8"     the int8 file of an export, see `outputs.runtimes`
    "auto"            the fastest of the first four that are installed. It is measured, because it
                      depends on the model, the processor and the size of the batch
"""

import abc
import contextlib
import dataclasses
import importlib.util
import logging as standard_logging
import os
import queue
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.cli import installation, processes
from trainer.io import files, storage
from trainer.outputs import description, freezing, random_inputs, verification


class Engine(abc.ABC):
  """Runs a model. Several threads may call it at the same time.

  Attributes:
    name: one of `engines.NAMES`.
  """

  name: str

  @abc.abstractmethod
  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model on a batch.

    Args:
      features: name → array; the first axis is the batch.

    Returns:
      Name of an output → array; the first axis is the batch.
    """


class TensorFlowEngine(Engine):
  """Runs a signature.

  Args:
    function: a ConcreteFunction that takes keywords and returns a dict, or a Frozen.
  """

  name = "tensorflow"

  def __init__(self, function: Any) -> None:
    self._function = function

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    tensors = {name: tf.convert_to_tensor(array) for name, array in features.items()}
    return {name: tensor.numpy() for name, tensor in self._function(**tensors).items()}


# -------------------------------------------------------- ONNX Runtime

_OPSET = 17


def convert_to_onnx(frozen: freezing.Frozen) -> bytes:
  """Converts a frozen signature.

  Returns:
    A serialised ONNX model. Its inputs and outputs have the signature's names.
  """
  import tf2onnx

  standard_logging.getLogger("tf2onnx").setLevel(standard_logging.ERROR)
  standard_logging.getLogger("tensorflow").addFilter(_is_ours)  # Adding it again has no effect.
  model, _ = tf2onnx.convert.from_graph_def(
    _without_erfc(frozen.graph_def),
    input_names=list(frozen.inputs.values()),
    output_names=list(frozen.outputs.values()),
    opset=_OPSET,
  )
  for tensors, names in ((model.graph.input, frozen.inputs), (model.graph.output, frozen.outputs)):
    _rename(model.graph, tensors, {tensor: name for name, tensor in names.items()})
  return model.SerializeToString()


def _without_erfc(graph_def):
  """The graph with 1 - erf(x) for the erfc(x) of Keras's gelu; tf2onnx 1.17 does not know erfc."""
  written = tf.compat.v1.GraphDef()
  written.CopyFrom(graph_def)
  for node in [node for node in written.node if node.op == "Erfc"]:
    one = written.node.add(name=f"{node.name}/one", op="Const")
    one.attr["dtype"].type = node.attr["T"].type
    dtype = tf.as_dtype(node.attr["T"].type)
    one.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(1, dtype))
    erf = written.node.add(name=f"{node.name}/erf", op="Erf")
    erf.attr["T"].type = node.attr["T"].type
    erf.input.extend(node.input)
    node.op = "Sub"
    node.input[:] = [one.name, erf.name]
  return written


def _is_ours(record):
  """Returns False for TensorFlow's warnings about deprecated functions that tf2onnx calls."""
  return not any(
    "tf2onnx" in str(argument) or argument == "extract_sub_graph" for argument in record.args or ()
  )


def _rename(graph, tensors, names):
  """Renames inputs or outputs to the signature's names, wherever nodes use them."""
  taken = {name for node in graph.node for name in (*node.input, *node.output)}
  for tensor in tensors:
    wanted = names[tensor.name]
    if wanted == tensor.name:
      continue
    if wanted in taken:  # A tensor inside of the graph has the name: rename that tensor.
      _replace(graph, wanted, f"{wanted}/inside")
    _replace(graph, tensor.name, wanted)
    tensor.name = wanted


def _replace(graph, name, by):
  for node in graph.node:
    node.input[:] = [by if used == name else used for used in node.input]
    node.output[:] = [by if made == name else made for made in node.output]


class OnnxEngine(Engine):
  """Runs an ONNX model.

  Args:
    model: the serialised model of `convert_to_onnx`.
    threads: number of threads of a call; None for all CPUs.
  """

  name = "onnx"

  def __init__(self, model: bytes, threads: int | None = None) -> None:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or processes.cpu_count()
    options.log_severity_level = 3
    self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    self._names = [output.name for output in self._session.get_outputs()]

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    return dict(zip(self._names, self._session.run(None, dict(features)), strict=True))


# ------------------------------------------------------------ OpenVINO

_OPENVINO_PRECISIONS = {"float32": "f32", "bfloat16": "bf16"}


def _import_openvino():
  """Imports openvino, and restores the root logger: the import changes its handlers and level."""
  root = standard_logging.getLogger()
  handlers, level = list(root.handlers), root.level
  import openvino

  for handler in handlers:
    if handler not in root.handlers:
      root.addHandler(handler)
  root.setLevel(level)
  return openvino


def write_openvino(frozen: freezing.Frozen, path: str) -> None:
  """Writes a frozen signature in OpenVINO's format, to <path>.xml and <path>.bin."""
  openvino = _import_openvino()
  openvino.save_model(read_for_openvino(frozen), f"{path}.xml", compress_to_fp16=False)


def read_for_openvino(frozen: freezing.Frozen) -> Any:
  """Makes an openvino.Model. Its inputs and outputs have the signature's names."""
  openvino = _import_openvino()
  with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "frozen.pb")
    with open(path, "wb") as file:
      file.write(frozen.graph_def.SerializeToString())
    model = openvino.Core().read_model(path)
  for tensors, names in ((model.inputs, frozen.inputs), (model.outputs, frozen.outputs)):
    known = {tensor: name for name, tensor in names.items()}
    # OpenVINO writes a tensor's name with or without ":0".
    known |= {tensor.removesuffix(":0"): name for tensor, name in known.items()}
    for tensor in tensors:
      tensor.get_tensor().set_names({next(known[name] for name in tensor.names if name in known)})
  return model


class OpenVinoEngine(Engine):
  """Runs an OpenVINO model.

  Args:
    model: an openvino.Model, or the path of an .xml file.
    threads: number of threads of a call; None for all CPUs.
    precision: "float32", or "bfloat16" if the processor supports it.
    in_parts: whether to cut a batch into parts, each for one or a few threads. Then threads need
      not wait for each other after every layer. Otherwise all threads work on the whole batch.
  """

  def __init__(
    self, model: Any, threads: int | None = None, precision: str = "float32", in_parts: bool = False
  ) -> None:
    openvino = _import_openvino()
    self.name = "openvino_parts" if in_parts else "openvino"
    settings = {
      "INFERENCE_PRECISION_HINT": _OPENVINO_PRECISIONS[precision],
      "INFERENCE_NUM_THREADS": threads or processes.cpu_count(),
      "PERFORMANCE_HINT": "THROUGHPUT" if in_parts else "LATENCY",
    }
    core = openvino.Core()
    model = core.read_model(model) if isinstance(model, str) else model
    # The compiled model may have further names for an output, of operations that it merges.
    self._names = [output.any_name for output in model.outputs]
    self._compiled = core.compile_model(model, "CPU", settings)
    self._parts = int(self._compiled.get_property("NUM_STREAMS"))
    # Inference requests that no thread uses now. A request serves one thread at a time.
    self._idle: queue.SimpleQueue = queue.SimpleQueue()

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    rows = len(next(iter(features.values())))
    bounds = np.linspace(0, rows, min(self._parts, rows) + 1).astype(int)
    requests = [self._request() for _ in bounds[1:]]
    for request, first, last in zip(requests, bounds[:-1], bounds[1:], strict=True):
      request.start_async(
        {name: array[first:last] for name, array in features.items()}, share_inputs=True
      )
    for request in requests:
      request.wait()
    outputs = {name: _joined(requests, place) for place, name in enumerate(self._names)}
    for request in requests:
      self._idle.put(request)
    return outputs

  def _request(self):
    try:
      return self._idle.get_nowait()
    except queue.Empty:
      return self._compiled.create_infer_request()


def _joined(requests, place):
  """Copies an output of all requests into one new array."""
  return np.concatenate([request.get_output_tensor(place).data for request in requests])


# ----------------------------------------------------- TensorFlow Lite


def convert_to_tflite(frozen: freezing.Frozen, sample: Callable | None = None) -> bytes:
  """Converts a frozen signature; returns the TFLite model.

  Args:
    frozen: the signature.
    sample: None for float32. For int8, a function that returns an iterator of examples: name →
      feature [1, ...]. The examples show the range of every tensor. Inputs and outputs stay
      float32.
  """
  converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen.function], tf.Module())
  if sample is not None:
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: (
      [example[name] for name in frozen.inputs] for example in sample()
    )
  with _silence():
    return converter.convert()


@contextlib.contextmanager
def _silence():
  """Discards the library's output to the descriptor of stderr; it does not use sys.stderr."""
  kept = os.dup(2)
  with open(os.devnull, "w") as nowhere:
    os.dup2(nowhere.fileno(), 2)
  try:
    yield
  finally:
    os.dup2(kept, 2)
    os.close(kept)


def find_interpreter() -> Any:
  """Returns the class Interpreter of an installed ai-edge-litert, otherwise TensorFlow's.

  Raises:
    SettingError: this TensorFlow has none, and ai-edge-litert is missing.
  """
  if importlib.util.find_spec("ai_edge_litert") is not None:
    from ai_edge_litert import interpreter

    return interpreter.Interpreter
  if not hasattr(tf.lite, "Interpreter"):
    raise errors.SettingError(
      f"TensorFlow {tf.__version__} runs no TensorFlow Lite models, ai-edge-litert does: "
      f"`{installation.command('litert')}` brings it."
    )
  return tf.lite.Interpreter


class TfliteEngine(Engine):
  """Runs a TFLite model, one call at a time.

  Args:
    model: the TFLite model of `convert_to_tflite`.
    threads: number of threads of a call; None for all CPUs.
  """

  name = "tflite"

  def __init__(self, model: bytes, threads: int | None = None) -> None:
    make = find_interpreter()
    with _silence():
      # The runner uses the interpreter's memory, and does not keep it alive.
      self._interpreter = make(model_content=model, num_threads=threads or processes.cpu_count())
      self._runner = self._interpreter.get_signature_runner()
    self._lock = threading.Lock()

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    with self._lock:
      return {name: np.array(array) for name, array in self._runner(**features).items()}


# ---------------------------------------------------------- the choice

_ROUNDS = 5  # The fewest rounds of a measurement.
_MEASURING_SECS = 1.0  # The shortest time of a measurement.
_SHORT_SECS = 0.02


def measure(
  candidates: Sequence[Engine],
  features: Mapping[str, np.ndarray],
  clock: Callable = time.perf_counter,
  at_least: float = _MEASURING_SECS,
) -> dict[str, float]:
  """Measures calls of each engine. The engines take turns, and the median counts.

  The median and not the shortest time: on a busy machine, engines with threads that wait for each
  other lose more than others, and will do so later.

  Args:
    candidates: the engines.
    features: the inputs of a call.
    clock: returns the time in seconds.
    at_least: the shortest time of the whole measurement, in seconds. There are at least `_ROUNDS`
      rounds.

  Returns:
    Name of an engine → seconds.
  """
  for candidate in candidates:  # The first call compiles and fills caches.
    candidate.predict_batch(features)
  seconds: dict[str, list[float]] = {candidate.name: [] for candidate in candidates}
  began, rounds = clock(), 0
  while rounds < _ROUNDS or clock() - began < at_least:
    for candidate in candidates:
      taken = seconds[candidate.name]
      if not taken or min(taken) < _SHORT_SECS:
        # After a call, the threads of the former engine spin for some milliseconds and slow down
        # the next call. So that call does not count.
        candidate.predict_batch(features)
      start = clock()
      candidate.predict_batch(features)
      taken.append(clock() - start)
    rounds += 1
  return {name: statistics.median(taken) for name, taken in seconds.items()}


class FastestEngine(Engine):
  """Runs each batch in the fastest engine for its size.

  An engine may fail for a batch unlike those that it was tried on. Then the engine TensorFlow runs
  this batch, and all later ones in place of the engine.

  Args:
    by_size: batch size → engine, in rising order.
    reference: the engine TensorFlow.
  """

  def __init__(self, by_size: Mapping[int, Engine], reference: Engine) -> None:
    self._reference = reference
    self._choose(by_size)

  def _choose(self, by_size):
    self._by_size = dict(by_size)
    self.name = "+".join(dict.fromkeys(chosen.name for chosen in self._by_size.values()))

  def predict_batch(self, features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Runs the model, see Engine."""
    rows = len(next(iter(features.values())))
    sizes = list(self._by_size)
    size = max((size for size in sizes if size <= rows), default=sizes[0])
    chosen = self._by_size[size]
    if chosen is self._reference:
      return chosen.predict_batch(features)
    try:
      return chosen.predict_batch(features)
    except Exception as error:  # The engines' libraries raise errors of many kinds.
      outputs = self._reference.predict_batch(features)  # Raises if the features are at fault.
      logging.warning(
        "The engine %s failed for %d examples; TensorFlow runs them and all later ones. %s: %s.",
        chosen.name,
        rows,
        type(error).__name__,
        errors.first_line(error),
      )
    self._choose(
      {size: self._reference if each is chosen else each for size, each in self._by_size.items()}
    )
    return outputs


NAMES = ("auto", "tensorflow", "onnx", "openvino", "openvino_parts", "tflite", "tflite_int8")
PRECISIONS = ("float32", "bfloat16")
SIGNATURE = "serving_default"


@dataclasses.dataclass(frozen=True)
class Requirements:
  """The needs and promises of an engine.

  Attributes:
    file: the engine's file in an export, below assets.extra: ExportOptions.runtimes.
    tolerance: how far its outputs may be from TensorFlow's, see `verification.compare`; None: no
      comparison.
    extra: installs the packages; "" if TensorFlow has all.
    package: runs the engine.
    converter: makes the file.
  """

  file: str
  tolerance: float | None
  extra: str = ""
  package: str | None = None
  converter: str | None = None

  def missing(self, converts: bool) -> list[str]:
    """Returns the missing packages; the converter among them, if the engine converts the export."""
    wanted = [self.package, self.converter if converts else None]
    return [each for each in wanted if each and importlib.util.find_spec(each) is None]


REQUIREMENTS = {
  "onnx": Requirements("model.onnx", 1e-4, "onnx", "onnxruntime", "tf2onnx"),
  "openvino": Requirements("model.xml", 1e-4, "openvino", "openvino"),
  "openvino_parts": Requirements("model.xml", 1e-4, "openvino", "openvino"),
  "tflite": Requirements("model.tflite", 1e-3),
  "tflite_int8": Requirements("model_int8.tflite", None),
}
_MEASURED = ("tensorflow", "onnx", "openvino", "openvino_parts")
_LONGEST_SECS = 1.0  # Of one call; a slower model gets fewer examples.
_CHECKED_SIZES = (4, 1)


def check_name(name: str, precision: str = "float32") -> None:
  """Checks the flags --engine and --precision.

  Raises:
    SettingError: there is no such engine, it lacks the precision, or its packages are missing.
  """
  if name not in NAMES:
    raise errors.SettingError(f"--engine={name}: expected one of {', '.join(NAMES)}.")
  if precision not in PRECISIONS:
    raise errors.SettingError(f"--precision={precision}: expected one of {', '.join(PRECISIONS)}.")
  needs = REQUIREMENTS.get(name)
  if precision != "float32" and (needs is None or needs.extra != "openvino"):
    raise errors.SettingError(
      f"--precision={precision} works with OpenVINO alone: add --engine=openvino."
    )
  if needs is not None:
    check_installed(f"--engine={name} needs", needs, converts=False)


def check_installed(what_needs: str, needs: Requirements, converts: bool) -> None:
  """Raises SettingError if a package is missing; `what_needs` begins the message."""
  if missing := needs.missing(converts):
    raise errors.SettingError(
      f"{what_needs} {', '.join(missing)}: `{installation.command(needs.extra)}` brings it."
    )


def load(
  saved_model: str,
  name: str = "auto",
  *,
  batch_sizes: Sequence[int] = (128,),
  precision: str = "float32",
  threads: int | None = None,
  signature: str = SIGNATURE,
  clock: Callable = time.perf_counter,
) -> Engine:
  """Loads an engine for an export.

  Args:
    saved_model: the export's folder.
    name: one of `NAMES`.
    batch_sizes: batch sizes that "auto" measures, in rising order. Each size gets its fastest
      engine. A batch between two sizes runs in the engine of the smaller one.
    precision: OpenVINO's precision. The other engines compute in float32.
    threads: number of threads of a call; None for all CPUs of this process.
    signature: the signature to run. Only "tensorflow" runs signatures other than serving_default.
    clock: returns the time in seconds.

  Returns:
    The engine. The function has compared its outputs with TensorFlow's.

  Raises:
    SettingError: the engine is missing, or cannot run the export.
    ExportError: its outputs differ from the SavedModel's.
    InputError: the folder is no SavedModel with this signature.
  """
  check_name(name, precision)
  if signature != SIGNATURE and name != "tensorflow":
    raise errors.SettingError(
      f"--engine={name} runs {SIGNATURE!r} alone; the signature {signature!r} takes "
      "--engine=tensorflow."
    )
  function = load_signature(saved_model, signature)
  try:
    frozen = freezing.freeze(function)
  except errors.SettingError as error:
    if name not in ("auto", "tensorflow"):
      raise errors.SettingError(
        f"--engine={name} cannot run {saved_model}: {error}. Use --engine=tensorflow."
      ) from error
    logging.info("Engine: tensorflow, with the SavedModel's own function: %s.", error)
    return TensorFlowEngine(function)
  reference = TensorFlowEngine(frozen)
  if name == "tensorflow":
    return reference
  if name == "auto":
    return _fastest(saved_model, frozen, reference, batch_sizes, threads, clock)
  return _make_engine(name, saved_model, frozen, reference, precision, threads)


def load_signature(
  saved_model: str, signature: str = SIGNATURE
) -> tf.types.experimental.ConcreteFunction:
  """Loads a signature of a SavedModel as a ConcreteFunction.

  Raises:
    InputError: there is no such SavedModel or signature.
  """
  names = description.signatures_of(saved_model)
  if signature not in names:
    raise errors.InputError(
      f"{saved_model} has no signature {signature!r}; it has {', '.join(names) or 'none'}."
    )
  with files.plain_path(saved_model) as plain:
    loaded = storage.retry("load the model", saved_model, lambda: tf.saved_model.load(plain))
  function = loaded.signatures[signature]
  function.keeps_alive = loaded  # Without `loaded`, Python would delete its variables.
  return function


def _random_features(frozen, examples):
  return random_inputs.make(frozen.function.structured_input_signature[1], examples)


def _make_engine(name, saved_model, frozen, reference, precision, threads):
  """Makes an engine, from the export's file if there is one, and compares it with TensorFlow."""
  if _random_features(frozen, 1) is None:
    raise errors.SettingError(
      f"--engine={name} cannot run {saved_model}: its inputs are texts, or their sizes are free. "
      "Use --engine=tensorflow."
    )
  needs = REQUIREMENTS[name]
  file = os.path.join(saved_model, "assets.extra", needs.file)
  has_file = storage.exists(file)
  if name == "tflite_int8" and not has_file:
    raise errors.SettingError(
      f"--engine=tflite_int8: {saved_model} has no {needs.file}. Export it with "
      'ExportOptions.runtimes = ["tflite_int8"]; the conversion needs a sample of the data.'
    )
  check_installed(f"--engine={name}, to convert the export, needs", needs, not has_file)
  with _explain(name, saved_model):
    made = _load_engine(name, file if has_file else None, frozen, precision, threads)
  for examples in _CHECKED_SIZES:
    _check(name, made, saved_model, frozen, reference, examples, precision)
  return made


@contextlib.contextmanager
def _explain(name, saved_model):
  """Turns an error of an engine's library into a SettingError that names engine and export."""
  try:
    yield
  except errors.OctetError:
    raise
  except Exception as error:  # The engines' libraries raise errors of many kinds.
    # OpenVINO begins its messages with places in its own files.
    lines = [line.strip() for line in str(error).splitlines() if "Exception from" not in line]
    reason = next(filter(None, lines), "").rstrip(".:")
    raise errors.SettingError(
      f"--engine={name} cannot run {saved_model}: {type(error).__name__}: {reason}. "
      "Use --engine=tensorflow."
    ) from error


def _check(name, made, saved_model, frozen, reference, examples, precision="float32"):
  """Runs an engine on random features, and compares its outputs with TensorFlow's; returns it.

  Raises:
    SettingError: it fails.
    ExportError: the outputs differ.
  """
  positive = _random_features(frozen, examples)
  # Of both signs, for the other branch of a condition; apart, for casts to integers.
  signed = {
    key: 8 * (each - each.dtype.type(0.5)) if each.dtype.kind == "f" else each
    for key, each in positive.items()
  }
  tolerance = REQUIREMENTS[name].tolerance if precision == "float32" else None
  for features in (positive, signed):
    with _explain(name, saved_model):
      found = made.predict_batch(features)
    if tolerance is not None:
      expected = reference.predict_batch(features)
      verification.compare(expected, found, f"{saved_model} in the engine {name!r}", tolerance)
  return made


def _load_engine(name, file, frozen, precision, threads):
  if name in ("openvino", "openvino_parts"):
    return OpenVinoEngine(
      file or read_for_openvino(frozen), threads, precision, in_parts=name == "openvino_parts"
    )
  content = storage.read(file, "rb") if file else None
  if name == "onnx":
    return OnnxEngine(content or convert_to_onnx(frozen), threads)
  return TfliteEngine(content or convert_to_tflite(frozen), threads)


def _fastest(saved_model, frozen, reference, batch_sizes, threads, clock):
  if _random_features(frozen, 1) is None:
    logging.info("Engine: tensorflow, since the model takes texts, or features of a free size.")
    return reference
  others = []
  for name in _MEASURED[1:]:
    if missing := REQUIREMENTS[name].missing(converts=False):
      if name == REQUIREMENTS[name].extra:  # Once for an extra.
        logging.info(
          "%s is missing; `%s` brings an engine that may be faster.",
          missing[0],
          installation.command(name),
        )
      continue
    if made := _or_warn(_make_engine, name, saved_model, frozen, reference, "float32", threads):
      others.append(made)
  if not others:
    return reference
  # The largest batch size with no measured call that takes too long.
  features = _random_features(frozen, 1)
  seconds = measure([reference, *others], features, clock, at_least=0.0)
  most = max(1, int(_LONGEST_SECS / max(*seconds.values(), 1e-9)))
  by_size = {}
  for size in batch_sizes:
    measured = min(size, most)
    others = [
      each
      for each in others
      if _or_warn(_check, each.name, each, saved_model, frozen, reference, measured)
    ]
    candidates = [reference, *others]
    seconds = measure(candidates, _random_features(frozen, measured), clock)
    by_size[size] = min(candidates, key=lambda candidate: seconds[candidate.name])
    logging.info(
      "Engine for batches of %d: %s; %d examples take %s.",
      size,
      by_size[size].name,
      measured,
      ", ".join(f"{1000 * seconds[one.name]:.3g} ms with {one.name}" for one in candidates),
    )
  return FastestEngine(by_size, reference)


def _or_warn(call, *arguments):
  """Returns the result of a call; None, with a warning, if the engine cannot run the export."""
  try:
    return call(*arguments)
  except errors.OctetError as error:
    logging.warning("%s", error)
    return None
