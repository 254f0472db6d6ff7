"""Kills a training with evaluations, early stopping and exports with SIGKILL, starts it again, and
compares it with one that was left alone.

    python -m tests.slow.kill_evaluations --kills=30
    python -m tests.slow.kill_evaluations --kills=40 --at_the_end=10

Two in three kills come at a point that is chosen by chance among all that the undisturbed run came
by: in a step, around the writing of a checkpoint, in an evaluation, between the files that tell of
it, around and in an export, in retention. The others come by the clock. In the end all of this must
be as if nothing had happened, to the bit: each evaluation, where early stopping ended the training,
the variables of the last checkpoint, and what the exporters have exported. No evaluation may be
written down twice, and nothing half may be left.

Kills --at_the_end are among the others: their trainings have no max_steps, and their data end. They
are killed after the last checkpoint was first written: in its evaluations, in the checkpoint that
says that the data have ended, in the last exports. No second epoch may be trained.

The processes are forks of one that has imported TensorFlow and not used it, which saves the import.
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
from trainer.checkpoints import commit, directory, file_names, reader, removal, retention, saver
from trainer.evaluation import pending
from trainer.hooks import early_stopping
from trainer.loop import watchdog
from trainer.outputs import exported_records, exporters, numbered_exports, options, saved_model
from trainer.reporting import evaluations_file, metrics_file, summaries

_FORK = multiprocessing.get_context("fork")

# What kills by the clock are shared out over, where the points do it for the others.
_CLOCK = "by the clock"

# Steps of trainings whose data end: where a checkpoint is due, and where none is.
_ENDS = 30, 27


# ------------------------------------------------------------------ the training


def model_fn(features, labels, mode, params):
  """A line with more weights than it has examples to learn them from, so that its evaluations get
  better first and worse then; with dropout and Adam, which have a state of their own.
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
  """The training that is killed; with data that end at a step, or to an early stop."""

  def ending_input(params):
    return train_input(params).take(end)

  estimator = trainer.Estimator(
    model_fn,
    model_dir,
    trainer.RunConfig(
      device="cpu",
      save_checkpoints_steps=10,
      # A restart begins the mean of a logged loss anew, so that each begins at a checkpoint.
      save_summary_steps=10,
      retention=retention.Retention(newest=2, best=1),
      # A logged loss is a mean of the loops' means: its last bit depends on where these are cut.
      tpu_config=trainer.TPUConfig(iterations_per_loop=5),
    ),
    train_batch_size=8,
    eval_batch_size=16,
    # The check of an export in another process is no part of what is killed here.
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

# Functions before and after which the process may be killed, by where that is.
_POINTS = {
  "in training": [(saver.Saver, "save"), (early_stopping.EarlyStopping, "__call__")],
  "around a checkpoint": [
    (pending.PendingEvaluations, "add"),
    (commit, "commit"),
    (removal.Removal, "write_state"),
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
  "around an export": [
    (exporters.Exporter, "export"),
    (trainer.Estimator, "export_saved_model"),
    (exporters.Exporter, "_record"),
    (exported_records.PendingExport, "end"),
  ],
  "in an export": [(tf.saved_model, "save"), (saved_model, "write")],
  "in retention": [
    (removal.Removal, "remove_unneeded"),
    (commit, "remove"),
    (numbered_exports, "remove_old"),
  ],
}


def _install(at):
  """Has the process count how often it comes by each point, and be killed at one of them.

  Args:
    at: (function's name, "before" or "after", which time), or None.

  Returns:
    (a counter of (where, function's name), checkpoint → what the counter was when it was first
    there).
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
  """What a fork does: its output goes to a file, its result into a pipe."""
  with open(log, "a") as file:
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
  pipe.send(task())


def forked(task, log, kill_after=None):
  """The result of a function in a process of its own; None if that was killed.

  Args:
    task: a function without arguments.
    log: the path of a file for what it says.
    kill_after: seconds after which it is killed, or None.

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
  """Trains until it ends or is killed; what `_install` returns, or None."""

  def task():
    seen, when_there = _install(at)
    train(model_dir, end)
    return dict(seen), when_there

  return forked(task, model_dir + ".log", kill_after)


# --------------------------------------------------------------- what must be equal


def outcome(model_dir):
  """All that must be as in the undisturbed run, by what it is."""
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
  """What TensorBoard shows of an evaluation, by its own reader."""
  reader = plugin_event_accumulator.EventAccumulator(
    os.path.join(model_dir, name), size_guidance={plugin_event_accumulator.TENSORS: 0}
  )
  reader.Reload()
  for tag in reader.Tags()["tensors"]:
    for event in reader.Tensors(tag):
      yield name, event.step, tag, float(tf.make_ndarray(event.tensor_proto))


def _digest(path):
  """One number for the names and values of all variables of a checkpoint."""
  digest = hashlib.sha256()
  for name, value in sorted(reader.read(path, list(reader.shapes(path))).items()):
    digest.update(name.encode() + np.asarray(value).tobytes())
  return digest.hexdigest()


def _exports(model_dir, name):
  """(the record's metrics, of each SavedModel the digest of its variables, the oldest first)."""
  folder = os.path.join(model_dir, "export", name)
  with open(os.path.join(folder, "exported.json")) as file:
    record = json.load(file)
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
        or name == "exporting.json"
        or (folder == model_dir and data[1] and data[0] not in whole)
      ):
        yield os.path.relpath(os.path.join(folder, name), model_dir)


# --------------------------------------------------------------------------- all of it


def chosen(kills, seen, seed):
  """(where, at or None) of each kill: the places in turn, a point of each by chance."""
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
  """The same, all after the last checkpoint was first there."""
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
  """Kills one run as said, starts it again until it ends, and compares.

  Returns:
    (where, what, newest checkpoint at the kill, what differs).
  """
  where, at = kill
  model_dir = os.path.join(folder, f"killed-{number}")
  if where == _CLOCK:
    randomness = random.Random(f"{seed} {number}")
    while run(model_dir, kill_after=at * whole, end=end) is not None:  # it was done before
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
