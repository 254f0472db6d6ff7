"""Prediction by an export, compared with Keras `predict` and with direct calls of other engines.

    python -m benchmarks.run exports --cases=cifar128,fashion

Two questions for each network, with decoded images: how many images a second in batches, and how
long a single image takes. ONNX Runtime and OpenVINO convert the same SavedModel with their own
tools, and have their own settings, except OpenVINO's precision, float32 for all. They come with the
extras [onnx] and [openvino]; without an extra, the benchmark skips its rows.
"""

import glob
import importlib.util
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from benchmarks import cases, results, sides

CASES = ("digits", "cifar128", "fashion")
_CALLS = 200  # of one image, in a slice
_OPSET = 17
_FLOAT32 = {"INFERENCE_PRECISION_HINT": "f32"}


def measure(names=CASES, rounds=10):
  """Returns rows for the named cases that `CASES` has."""
  rows = []
  for name in names:
    if name in CASES:
      with tempfile.TemporaryDirectory() as folder:
        _in_process(export, cases.CASES[name], folder)
        rows += _throughput(cases.CASES[name], folder, rounds)
        rows += _latency(cases.CASES[name], folder, rounds)
  return rows


def _throughput(case, folder, rounds):
  same = {"case": case, "folder": folder}
  all_sides = {"keras": sides.Side(keras, same)}
  for engine in ("auto", "tensorflow", "tflite"):
    all_sides[f"octet {engine}"] = sides.Side(octet, same | {"engine": engine})
  for name, bare in _bare().items():
    all_sides[name] = sides.Side(bare, same)
  if "openvino" in all_sides:
    all_sides["openvino, asynchronous"] = sides.Side(openvino_asynchronous, same)
  slices = sides.alternate(all_sides, rounds)
  examples = case.steps * case.batch_size
  rows = []
  for ours in [name for name in all_sides if name.startswith("octet")]:
    for other in [name for name in all_sides if not name.startswith("octet")]:
      default = ours == "octet auto"
      if not default and other != "keras":
        continue
      rows.append(
        results.Row(
          "exports",
          f"{case.title}, {ours.removeprefix('octet ')}",
          "Keras predict" if other == "keras" else other,
          sides.ratios(slices, other, ours),
          at_least=(1.5 if other == "keras" else 0.95) if default else None,
          note=sides.note(slices, examples, other, ours),
        )
      )
  return rows


def _latency(case, folder, rounds):
  names = {"octet auto": octet, "octet tensorflow": octet} | _bare()
  all_sides, files = {}, {}
  for number, (name, function) in enumerate(names.items()):
    files[name] = os.path.join(folder, f"seconds-{number}.npy")
    arguments = {"case": case, "folder": folder, "seconds": files[name]}
    if function is octet:
      arguments["engine"] = name.removeprefix("octet ")
    all_sides[name] = sides.Side(function, arguments)
  slices = sides.alternate(all_sides, rounds)
  rows = []
  for other in list(all_sides)[1:]:
    if failed := sides.failure(slices, "octet auto", other):
      ratios, note = (), failed
    else:
      ours, theirs = (np.load(files[name])[-rounds:] for name in ("octet auto", other))
      ratios = tuple(np.median(theirs, 1) / np.median(ours, 1))
      shown = [
        " and ".join(f"{1000 * np.percentile(seconds, part):.3g}" for seconds in (ours, theirs))
        for part in (50, 99)
      ]
      note = f"p50 {shown[0]} ms; p99 {shown[1]} ms"
    bound = 0.95 if other in _bare() else None
    rows.append(
      results.Row("exports", f"{case.name}, one image, auto", other, ratios, bound, note=note)
    )
  return rows


def _bare():
  """Returns name → side for the installed engines."""
  return {
    name: side
    for name, side in {"onnxruntime": onnxruntime, "openvino": openvino}.items()
    if importlib.util.find_spec(name)
  }


def _in_process(function, *arguments):
  """Calls a function in another process, so that this one does not load TensorFlow."""
  process = multiprocessing.get_context("spawn").Process(target=function, args=arguments)
  process.start()
  process.join()
  if process.exitcode:
    raise RuntimeError(f"{function.__name__} ended with {process.exitcode}; it says above why.")


def export(case, folder):
  """Trains two steps and exports; also writes the same model with the other engines' tools."""
  import trainer

  def input_fn(params):
    return cases.dataset(case, params["batch_size"], training=True)

  estimator = trainer.Estimator(
    cases.model_fn(case),
    os.path.join(folder, "model"),
    trainer.RunConfig(device="cpu"),
    train_batch_size=case.batch_size,
    eval_batch_size=case.batch_size,
  )
  estimator.train(input_fn, max_steps=2)
  path = estimator.export_saved_model(os.path.join(folder, "export"))
  if "onnxruntime" in _bare():
    command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", path]
    command += ["--output", os.path.join(folder, "bare.onnx"), "--opset", str(_OPSET)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def _images(case):
  """Returns float32 [steps · batch_size, ...], a slice's images."""
  count = case.steps * case.batch_size
  images, _ = case.data()
  return (np.resize(images, (count, *case.shape)) / case.white).astype(np.float32)


def _work(turns, case, predict, seconds):
  """Runs a slice of batches; or, given a file for their seconds, of calls with one image."""
  images = _images(case)
  taken = []
  while turns.take():
    if seconds is None:
      for first in range(0, len(images), case.batch_size):
        predict(images[first : first + case.batch_size])
      continue
    taken.append([])
    for place in range(_CALLS):
      start = time.perf_counter()
      predict(images[place % len(images)][np.newaxis])
      taken[-1].append(time.perf_counter() - start)
    np.save(seconds, taken)


def octet(turns, case, folder, engine, seconds=None):
  """Octet's engine, as a Predictor selects it."""
  import trainer

  predictor = trainer.Predictor(
    os.path.join(folder, "export"), engine, batch_sizes=(1, case.batch_size)
  )
  print(f"{case.name}: {engine} is {predictor.loaded.engine.name}", file=sys.stderr)
  _work(turns, case, lambda images: predictor.predict_batch({"image": images}), seconds)


def keras(turns, case, folder):
  """Model.predict of an array."""
  del folder
  model = cases.keras_model(case)
  model.compile()
  images = _images(case)
  while turns.take():
    model.predict(images, batch_size=case.batch_size, verbose=0)


def onnxruntime(turns, case, folder, seconds=None):
  """ONNX Runtime with tf2onnx's conversion of the SavedModel."""
  import onnxruntime

  session = onnxruntime.InferenceSession(
    os.path.join(folder, "bare.onnx"), providers=["CPUExecutionProvider"]
  )
  _work(turns, case, lambda images: session.run(None, {"image": images}), seconds)


def openvino(turns, case, folder, seconds=None):
  """OpenVINO reading the SavedModel, one call after the other."""
  compiled = _compiled(folder, {})
  _work(turns, case, lambda images: compiled({"image": images}), seconds)


def openvino_asynchronous(turns, case, folder):
  """The same, set for throughput: a queue keeps several calls in flight."""
  import openvino

  queue = openvino.AsyncInferQueue(_compiled(folder, {"PERFORMANCE_HINT": "THROUGHPUT"}))
  images = _images(case)
  while turns.take():
    for first in range(0, len(images), case.batch_size):
      queue.start_async({"image": images[first : first + case.batch_size]})
    queue.wait_all()


def _compiled(folder, settings):
  import openvino

  (path,) = glob.glob(os.path.join(folder, "export", "[0-9]*"))
  return openvino.Core().compile_model(openvino.convert_model(path), "CPU", _FLOAT32 | settings)
