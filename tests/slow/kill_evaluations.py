"""Kills a training that evaluates, stops early and exports, with SIGKILL.

Restarts it, and compares it with an undisturbed one.

    python -m tests.slow.kill_evaluations --kills=30
    python -m tests.slow.kill_evaluations --kills=40 --at_the_end=10

Two in three kills come at a random point among all points that the undisturbed run passed: in a
step, around the writing of a checkpoint, in an evaluation, between its files, around and in an
export, in retention. The others come by the clock. In the end, all of this must equal the
undisturbed run's, to the bit: each evaluation, the step of early stopping, the variables of the
last checkpoint, and the exports. No evaluation may appear twice, and no file may be incomplete.

Kills --at_the_end are for trainings without max_steps whose data end. They come after the last
checkpoint's first write: in its evaluations, in the checkpoint that records the data's end, in the
last exports. No training may start a second epoch.

The processes are forks of one process that has imported TensorFlow without using it, which saves
the import.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import hashlib
import json
import multiprocessing
import os
import random
import signal
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from tensorboard.backend.event_processing import plugin_event_accumulator

import trainer
from trainer.checkpoints import commit, directory, file_names, reader, retention, saver
from trainer.evaluation import pending
from trainer.hooks import early_stopping
from trainer.loop import watchdog
from trainer.outputs import exported_records, exporters, numbered_exports, options, saved_model
from trainer.reporting import evaluations_file, metrics_file, summaries

_FORK = multiprocessing.get_context("fork")

# Kills by the clock rotate over these, as the others rotate over points.
_CLOCK = "by the clock"

# Steps of trainings with finite data: at a scheduled checkpoint, and between two.
_ENDS = 30, 27


# ------------------------------------------------------------------ the training


def model_fn(features, labels, mode, params):
  """A line with more weights than examples, so its evaluations first improve and then worsen.

  Dropout and Adam have state too.
  """
  x = keras.layers.Dropout(0.2)(features["x"], training=mode == trainer.ModeKeys.TRAIN)
  y = keras.layers.Dense(1)(x)[:, 0]
  if mode == trainer.ModeKeys.PREDICT:
    return trainer.EstimatorSpec(mode, predictions={"y": y})
  loss = tf.reduce_mean(tf.square(y - labels))
  if mode == trainer.ModeKeys.EVAL:
    return trainer.EstimatorSpec(mode, loss=loss, eval_metrics=(_error, [labels, y]))
  return trainer.EstimatorSpec(
    mode, loss=loss, train_op=trainer.minimize(keras.optimizers.Adam(0.05), loss)
  )


def _error(labels, y):
  metric = keras.metrics.Mean()
  metric.update_state(tf.abs(labels - y))
  return {"error": metric}


def _examples(start, stop):
  generator = np.random.RandomState(5)
  x = generator.randn(160, 24).astype(np.float32)
  y = x @ generator.randn(24) * 0.3 + generator.randn(160)
  return tf.data.Dataset.from_tensor_slices(
    ({"x": x[start:stop]}, y[start:stop].astype(np.float32))
  )


def train_input(params):
  return _examples(0, 40).shuffle(40).repeat().batch(params["batch_size"], drop_remainder=True)


def held_out_input(params):
  return _examples(40, 100).batch(params["batch_size"])


def other_input(params):
  return _examples(100, 160).batch(params["batch_size"])


def train(model_dir, end=None):
  """Runs the training to kill, with data that end at a step, or to an early stop."""

  def ending_input(params):
    return train_input(params).take(end)

  estimator = trainer.Estimator(
    model_fn,
    model_dir,
    trainer.RunConfig(
      device="cpu",
      save_checkpoints_steps=10,
      # A restart begins the mean of a logged loss again, so each mean begins at a checkpoint.
      save_summary_steps=10,
      retention=retention.Retention(newest=2, best=1),
      # A logged loss is a mean of the loops' means: its last bit depends on the ends of the loops.
      tpu_config=trainer.TPUConfig(iterations_per_loop=5),
    ),
    train_batch_size=8,
    eval_batch_size=16,
    # The check of an export in another process is not a subject of these kills.
    export_options=options.ExportOptions(verify=False, warm_up_batches=()),
  )
  stopping = [early_stopping.EarlyStopping(patience=4)]
  trainer.train_and_evaluate(
    estimator,
    trainer.TrainSpec(ending_input) if end else trainer.TrainSpec(train_input, 1000, stopping),
    trainer.EvalSpec(
      held_out_input,
      exporters=[exporters.BestExporter(exports_to_keep=2), exporters.FinalExporter()],
    ),
    trainer.EvalSpec(
      other_input,
      name="other",
      exporters=[exporters.BestExporter("error", name="best_other", exports_to_keep=1)],
    ),
    trainer.EvalSpec(train_input, name="train", steps=2),
  )


# --------------------------------------------------------------------- the kills

# Function → its kind of place; a kill comes before or after a call.
_POINTS = {
  "in training": [(saver.Saver, "save"), (early_stopping.EarlyStopping, "__call__")],
  "around a checkpoint": [
    (pending.PendingEvaluations, "add"),
    (commit, "commit"),
    (directory.CheckpointDirectory, "_write_state"),
  ],
  "in an evaluation": [(watchdog.Watchdog, "beat")],
  "between its files": [
    (evaluations_file, "add"),
    (summaries.Writer, "scalars"),
    (metrics_file, "append"),
  ],
  "before or after hooks hear": [
    (early_stopping.EarlyStopping, "evaluated"),
    (pending.PendingEvaluations, "remove"),
  ],
  "around an export": [(exporters.Exporter, "export"), (trainer.Estimator, "export_saved_model")],
  "in an export": [(tf.saved_model, "save"), (saved_model, "write")],
  "in retention": [
    (directory.CheckpointDirectory, "_remove_unneeded"),
    (commit, "remove"),
    (numbered_exports, "remove_old"),
  ],
}


def _install(at):
  """Counts the process's passes at each point, and kills it at one of them.

  Args:
    at: (function's name, "before" or "after", which pass), or None.

  Returns:
    (a counter of (place, function's name), checkpoint → the counter at its first appearance).
  """
  seen = collections.Counter()
  when_there = {}

  def wrapped(where, name, original):
    def call(*args, **kwargs):
      seen[where, name] += 1
      time_ = seen[where, name]
      if at == (name, "before", time_):
        os.kill(os.getpid(), signal.SIGKILL)
      result = original(*args, **kwargs)
      if original is commit_:
        when_there.setdefault(file_names.step_of(args[1]), dict(seen))
      if at == (name, "after", time_):
        os.kill(os.getpid(), signal.SIGKILL)
      return result

    return call

  commit_ = commit.commit
  for where, functions in _POINTS.items():
    for owner, function in functions:
      name = f"{owner.__name__.rpartition('.')[2]}.{function}"
      setattr(owner, function, wrapped(where, name, getattr(owner, function)))
  return seen, when_there


def _child(task, pipe, log):
  """Runs a fork's task: sends its output to a file, its result into a pipe."""
  with open(log, "a") as file:
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
  pipe.send(task())


def forked(task, log, kill_after=None):
  """Returns a function's result from its own process; None if the process was killed.

  Args:
    task: a function without arguments.
    log: the path of a file for its output.
    kill_after: seconds until the kill, or None.

  Raises:
    RuntimeError: it failed by itself.
  """
  receiver, sender = _FORK.Pipe(duplex=False)
  process = _FORK.Process(target=_child, args=(task, sender, log))
  process.start()
  sender.close()
  if kill_after is not None:
    process.join(kill_after)
    process.kill()
  result = None
  with contextlib.suppress(EOFError):
    result = receiver.recv()
  process.join()
  if result is None and process.exitcode != -signal.SIGKILL:
    with open(log) as file:
      raise RuntimeError(f"It failed with {process.exitcode}:\n{file.read()[-3000:]}")
  return result


def run(model_dir, at=None, kill_after=None, end=None):
  """Trains to the end or a kill; returns `_install`'s result, or None."""

  def task():
    seen, when_there = _install(at)
    train(model_dir, end)
    return dict(seen), when_there

  return forked(task, model_dir + ".log", kill_after)


# --------------------------------------------------------------- comparison


def outcome(model_dir):
  """Returns everything that must equal the undisturbed run's, by name."""
  path = directory.CheckpointDirectory(model_dir).latest_valid()
  with open(os.path.join(model_dir, metrics_file.NAME)) as file:
    lines = [json.loads(line) for line in file]
  evaluated = sorted(
    json.dumps({name: value for name, value in line.items() if name != "time"})
    for line in lines
    if line["kind"].startswith("eval")
  )
  return {
    "the step of the stop": file_names.step_of(path),
    "evaluations.json": {
      name: evaluations_file.read(model_dir, name) for name in ("", "other", "train")
    },
    "the lines of evaluations": evaluated,
    "TensorBoard": sorted(
      point for name in ("eval", "eval_other", "eval_train") for point in _points(model_dir, name)
    ),
    "the training's losses": {
      line["step"]: line["loss"]
      for line in metrics_file.read(model_dir)
      if line["kind"] == metrics_file.TRAIN
    },
    "the variables": _digest(path),
    "the checkpoints": directory.CheckpointDirectory(model_dir).steps(),
    "the exports": {name: _exports(model_dir, name) for name in ("best", "best_other", "final")},
    "what is pending or half": sorted(_leftovers(model_dir)),
  }


def _points(model_dir, name):
  """Returns TensorBoard's points of an evaluation, from its own reader."""
  reader = plugin_event_accumulator.EventAccumulator(
    os.path.join(model_dir, name), size_guidance={plugin_event_accumulator.TENSORS: 0}
  )
  reader.Reload()
  for tag in reader.Tags()["tensors"]:
    for event in reader.Tensors(tag):
      yield name, event.step, tag, float(tf.make_ndarray(event.tensor_proto))


def _digest(path):
  """Returns one number for the names and values of all variables in a checkpoint."""
  digest = hashlib.sha256()
  for name, value in sorted(reader.read(path, list(reader.shapes(path))).items()):
    digest.update(name.encode() + np.asarray(value).tobytes())
  return digest.hexdigest()


def _exports(model_dir, name):
  """Returns (the record's metrics, the digest of each SavedModel's variables, the oldest first)."""
  folder = os.path.join(model_dir, "export", name)
  record = exported_records.read(folder)
  stamps = sorted((stamp for stamp in os.listdir(folder) if stamp.isdigit()), key=int)
  digests = []
  for stamp in stamps:
    variables = tf.train.load_checkpoint(os.path.join(folder, stamp, "variables", "variables"))
    digest = hashlib.sha256()
    for variable in sorted(variables.get_variable_to_shape_map()):
      if variable != "_CHECKPOINTABLE_OBJECT_GRAPH":
        digest.update(variable.encode() + np.asarray(variables.get_tensor(variable)).tobytes())
    digests.append(digest.hexdigest())
  return record["metrics"], digests, record["folder"] == stamps[-1]


def _leftovers(model_dir):
  whole = {
    file_names.PREFIX + f"-{step}" for step in directory.CheckpointDirectory(model_dir).steps()
  }
  for folder, folders, names in os.walk(model_dir):
    for name in [*folders, *names]:
      data = name.partition(".data-")
      if (
        name.startswith(".writing-")
        or ".writing-" in name
        or ".owed-" in name
        or (folder == model_dir and data[1] and data[0] not in whole)
      ):
        yield os.path.relpath(os.path.join(folder, name), model_dir)


# --------------------------------------------------------------- the whole test


def chosen(kills, seen, seed):
  """Returns (place, at or None) of each kill: the places in turn, with a random point of each."""
  randomness = random.Random(seed)
  places = list(_POINTS)
  found = []
  for number in range(kills):
    if number % 3 == 2:
      found.append((_CLOCK, randomness.uniform(0.1, 1.0)))
      continue
    place = places[(number - number // 3) % len(places)]
    (_, name), count = randomness.choice([item for item in seen.items() if item[0][0] == place])
    found.append(
      (place, (name, randomness.choice(["before", "after"]), randomness.randint(1, count)))
    )
  return found


def chosen_at_the_end(kills, end, undisturbed, seed):
  """As `chosen`, with all kills after the last checkpoint's first appearance."""
  randomness = random.Random(f"{seed} {end}")
  seen, when_there = undisturbed
  before = when_there[end]
  times = {point: range(before.get(point, 0) + 1, count + 1) for point, count in seen.items()}
  points = [point for point in times if times[point]]
  places = sorted({where for where, _ in points})
  found = []
  for number in range(kills):
    place = places[number % len(places)]
    where, name = randomness.choice([point for point in points if point[0] == place])
    when = randomness.choice(["before", "after"]), randomness.choice(times[where, name])
    found.append((f"{where}, at the end", (name, *when)))
  return found


def compare(number, kill, whole, expected, folder, seed, end=None):
  """Kills one run as described, restarts it until it ends, and compares.

  Returns:
    (place, what, newest checkpoint at the kill, differences).
  """
  where, at = kill
  model_dir = os.path.join(folder, f"killed-{number}")
  if where == _CLOCK:
    randomness = random.Random(f"{seed} {number}")
    while run(model_dir, kill_after=at * whole, end=end) is not None:  # it ended first
      tf.io.gfile.rmtree(model_dir)
      at = randomness.uniform(0.1, at)
    what = f"after {at * whole:.2f} s"
  else:
    if run(model_dir, at, end=end) is not None:
      raise RuntimeError(f"It did not come by {at}.")
    what = f"{at[1]} {at[0]}, time {at[2]}"
  newest = max(directory.CheckpointDirectory(model_dir).steps(), default=None)
  while run(model_dir, end=end) is None:
    pass
  found = forked(lambda: outcome(model_dir), model_dir + ".log")
  return where, what, newest, [name for name in expected if found[name] != expected[name]]


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--kills", type=int, default=30)
  parser.add_argument("--at_the_end", type=int, default=0, help="so many of the kills")
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--at_a_time", type=int, default=2)
  parser.add_argument("--folder", help="where to keep the runs; default: nowhere")
  arguments = parser.parse_args()
  with contextlib.ExitStack() as stack:
    folder = arguments.folder or stack.enter_context(tempfile.TemporaryDirectory())
    os.makedirs(folder, exist_ok=True)
    alone = os.path.join(folder, "alone")
    start = time.monotonic()
    seen, _ = run(alone)
    whole = time.monotonic() - start
    expected = forked(lambda: outcome(alone), alone + ".log")
    steps = sorted(expected["evaluations.json"][""])
    best = expected["the exports"]["best"][0]["global_step"]
    print(
      f"Undisturbed: {whole:.1f} s; stopped at step {expected['the step of the stop']}, "
      f"{len(steps)} evaluations by each of 3 EvalSpecs, the best at step {best}; "
      f"{sum(seen.values())} calls of {len(seen)} functions to be killed before or after.",
      flush=True,
    )
    assert not expected["what is pending or half"], expected["what is pending or half"]
    assert steps[0] < best < steps[-1], (steps, best)

    kills = arguments.kills - arguments.at_the_end
    to_do = [(kill, expected, None) for kill in chosen(kills, seen, arguments.seed)]
    for number, end in enumerate(_ENDS if arguments.at_the_end else ()):
      alone = os.path.join(folder, f"alone-{end}")
      undisturbed = run(alone, end=end)
      of_this = forked(lambda folder=alone: outcome(folder), alone + ".log")
      assert of_this["the step of the stop"] == end
      kills = len(range(number, arguments.at_the_end, len(_ENDS)))
      to_do += [
        (kill, of_this, end) for kill in chosen_at_the_end(kills, end, undisturbed, arguments.seed)
      ]

    different = 0
    print(f"{'kill':>4}  {'where':<38}{'newest':>7}  {'differs':<30}at", flush=True)
    with concurrent.futures.ThreadPoolExecutor(arguments.at_a_time) as threads:
      done = [
        threads.submit(compare, number, kill, whole, outcome_, folder, arguments.seed, end)
        for number, (kill, outcome_, end) in enumerate(to_do, 1)
      ]
      for number, future in enumerate(done, 1):
        where, what, newest, differs = future.result()
        different += bool(differs)
        shown = ", ".join(differs) or "nothing"
        print(f"{number:>4}  {where:<38}{newest!s:>7}  {shown:<30}{what}", flush=True)
    print(f"{arguments.kills} kills: {arguments.kills - different} runs as the undisturbed one.")
  raise SystemExit(1 if different else 0)


if __name__ == "__main__":
  main()
