"""Measures one case on one device, in the process that calls it.

It times a training in slices: device loops of `slice_steps` steps. The training itself writes their
times to metrics.jsonl. They include the steps and the wait for input, but not the host's work
between two loops. It times a prediction call by call, and includes all the work of a call.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from trainer import config, errors, run_config
from trainer.cli import processes
from trainer.compare import machine, results
from trainer.devices import device as device_lib
from trainer.estimator import estimator
from trainer.preflight import bindings
from trainer.reporting import metrics_file
from trainer.settings.kinds import Kind


def measure(request: Mapping[str, Any]) -> dict[str, Any]:
  """Measures the case in a request of `runner`; returns fields of a results.Row.

  Args:
    request: "settings" of the case, "mode", "batch_size", "examples", "device", "tpu_type",
      "precision" and "modules".

  Raises:
    OctetError: the experiment cannot run.
  """
  settings = request["settings"]
  # Before the gin file: a tensor in a module that it imports would start TensorFlow, and virtual
  # cores must exist before.
  device = device_lib.connect(request["device"])
  found: dict[str, Any] = {
    "hardware": machine.hardware(device, request["tpu_type"]),
    "cores": device.replicas,
    "machine": machine.describe(),
    "load": os.getloadavg()[0],  # Before the measurement, whose own threads would count.
  }
  config.load([settings["gin_file"]], settings["bindings"], modules=request["modules"])
  experiment = bindings.from_gin(request["precision"])
  with tempfile.TemporaryDirectory(prefix="compare") as folder:
    runner = _estimator(experiment, request, folder)
    timed = _train if request["mode"] == "train" else _predict
    found |= timed(runner, experiment, request, folder)
  return found | {
    "status": results.OK,
    "memory_bytes": processes.peak_memory(),
    "device_memory_bytes": machine.device_memory_bytes(device),
  }


def spread(seconds: Sequence[float]) -> dict[str, Any]:
  """Returns the median and the quartiles of times, as fields of a Row."""
  ordered = sorted(seconds)
  low, high = ordered[0], ordered[-1]
  if len(ordered) > 1:  # `quantiles` needs two values.
    low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
  return {"seconds": statistics.median(ordered), "low": low, "high": high, "slices": len(ordered)}


def _estimator(experiment, request, folder):
  slice_steps = request["settings"]["slice_steps"] if request["mode"] == "train" else 1
  evaluates = experiment.sizes.eval_batch_size if Kind.EVAL in experiment.input_fns else None
  return estimator.Estimator(
    experiment.model_fn,
    config=run_config.RunConfig(
      model_dir=folder,
      device=request["device"],
      precision=request["precision"],
      train_steps=experiment.config.train_steps,
      # No checkpoint between two slices, and a report after each.
      save_checkpoints_steps=0,
      save_checkpoints_secs=None,
      save_summary_steps=slice_steps,
      log_step_count_steps=slice_steps,
      tpu_config=run_config.TPUConfig(iterations_per_loop=slice_steps),
    ),
    params=experiment.params,
    train_batch_size=request["batch_size"],
    eval_batch_size=evaluates,
    predict_batch_size=request["batch_size"],
  )


def _train(runner, experiment, request, folder):
  settings = request["settings"]
  slices, warm = settings["slices"], settings["warm_slices"]
  first = _FirstSlice()
  start = time.perf_counter()
  runner.train(
    _input_fn(experiment, Kind.TRAIN),
    hooks=[first],
    max_steps=settings["slice_steps"] * (warm + slices),
  )
  lines = [line for line in metrics_file.read(folder) if line["kind"] == metrics_file.TRAIN]
  if len(lines) <= warm:
    raise errors.SettingError(
      f"The input ended after {len(lines)} of {warm + slices} slices of "
      f"{settings['slice_steps']} steps: lower Workload.slice_steps or Workload.slices."
    )
  found = spread([1 / line["steps_per_second"] for line in lines[warm:]])
  found |= {
    "examples_per_second": request["batch_size"] / found["seconds"],
    # The first slice includes the traces. Without the time of its steps, the start-up remains.
    "start_seconds": max(0.0, first.ended_at - start - settings["slice_steps"] * found["seconds"]),
    "input_wait": statistics.median(line["input_wait"] for line in lines[warm:]),
  }
  return found | (_accuracy(runner, experiment) if settings["evaluate"] else {})


def _accuracy(runner, experiment):
  metrics = runner.evaluate(_input_fn(experiment, Kind.EVAL))
  if "accuracy" not in metrics:
    raise errors.SettingError(
      f"Workload.evaluate: the model_fn has no metric 'accuracy', but {', '.join(metrics)}."
    )
  return {"accuracy": metrics["accuracy"], "accuracy_steps": metrics["global_step"]}


def _predict(runner, experiment, request, folder):
  del folder
  settings, examples = request["settings"], request["examples"]
  # A step, so that there are values to predict with.
  runner.train(_input_fn(experiment, Kind.TRAIN), max_steps=1)
  whole = _input_fn(experiment, Kind.PREDICT)

  def first_examples(params):
    return whole(params).unbatch().take(examples).batch(params["batch_size"])

  def call():
    batches = runner.predict(first_examples, yield_single_examples=False)
    return sum(len(tf.nest.flatten(batch)[0]) for batch in batches)

  calls = [_timed(call, examples) for _ in range(settings["warm_slices"] + settings["slices"])]
  found = spread(calls[settings["warm_slices"] :])
  return found | {
    "examples_per_second": examples / found["seconds"],
    "start_seconds": max(0.0, calls[0] - found["seconds"]),  # The first call traces the model.
  }


def _timed(call: Callable[[], int], examples: int) -> float:
  start = time.perf_counter()
  done = call()
  seconds = time.perf_counter() - start
  if done != examples:
    raise errors.SettingError(
      f"The input to predict has {done} examples, and Workload.examples asks for {examples}."
    )
  return seconds


def _input_fn(experiment, kind):
  if kind not in experiment.input_fns:
    raise errors.SettingError(
      f"The experiment has no input_fn to {kind}: bind run.{kind}_input_fn in its gin file or in "
      "Workload.bindings."
    )
  return experiment.input_fns[kind]


class _FirstSlice:
  """A hook that notes when the first slice ended."""

  def __init__(self):
    self.ended_at = None

  def __call__(self, step, metrics, estimator):
    if self.ended_at is None:
      self.ended_at = time.perf_counter()
