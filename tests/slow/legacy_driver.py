"""Runs a published program and records the loss of each step and each evaluation.

python legacy_driver.py SIDE RECORD PROGRAM ARGUMENTS...

SIDE is `octet`: the program imports trainer.compat.v1. Or `preflight`: the same, but instead of a
training it compiles the training step for a TPU v3-8, and records the result. Or `export`: as
`octet`, and keeps the last predictions for legacy_served.py with a SavedModel (the program's own,
else one for the raw features). Or `2.15`: the published program runs on tensorflow 2.15, with
tf_slim instead of tf.contrib.layers. RECORD is a file; each step and each evaluation appends a line
of JSON. PROGRAM is its file.

Both sides run without the differences between runs: random numbers of masks are the same for each
example and step, data come in order, file after file, no image is cropped or turned, and
tf.nn.dropout passes its input through. In 2.15, threads decide whether
`global_step.assign(global_step + 1)` comes before the learning rate is read or after; here it comes
after the other assignments.
"""

import json
import os
import runpy
import sys
import types


def note(record, **what):
  with open(record, "a") as out:
    out.write(json.dumps(what) + "\n")


def hold_random_numbers(v1):
  """Makes v1 draw the same numbers for each example, at each step."""

  def uniform(shape, minval=0, maxval=1, dtype=v1.float32, seed=None, name=None):
    return v1.fill(shape, v1.cast(minval + 0.5 * (maxval - minval), dtype))

  def categorical(logits, num_samples, dtype=v1.int64, seed=None, name=None):
    last = v1.shape(logits)[-1]
    order = v1.cast(v1.range(last) * 7 % 31, v1.float32) / 31.0  # distinct, to avoid ties
    return v1.cast(v1.nn.top_k(logits + order, num_samples).indices, dtype)

  def shuffle(self, *args, **kwargs):
    return self

  def dropout(x, *args, **kwargs):
    return v1.identity(x)

  def whole_image(image_size, *args, **kwargs):
    begin, size = v1.constant([0, 0, 0]), v1.concat([image_size[:2], [-1]], 0)
    return begin, size, v1.constant([[[0.0, 0.0, 1.0, 1.0]]])

  with_options, interleave = v1.data.Dataset.with_options, v1.data.Dataset.interleave

  def in_order(self, options, *args, **kwargs):
    options.deterministic = True
    return with_options(self, options, *args, **kwargs)

  def one_after_another(self, map_func, *args, **kwargs):
    return interleave(self, map_func, cycle_length=1)

  v1.data.Dataset.shuffle = shuffle
  v1.data.Dataset.with_options = in_order
  v1.data.Dataset.interleave = one_after_another
  v1.image.random_flip_left_right = v1.identity
  v1.image.sample_distorted_bounding_box = whole_image
  v1.nn.dropout = dropout
  v1.random.uniform = v1.random_uniform = uniform
  v1.random.categorical = v1.random.multinomial = categorical


def prepare_octet(record):
  import tensorflow as tf

  from trainer.compat.estimator import estimator

  class EachStep:
    """A hook of Octet that runs after each step."""

    def next_step(self, step):
      return step + 1

    def __call__(self, step, metrics, estimator):
      note(record, step=int(step), loss=float(metrics["loss"]))
      return False

  wrap(estimator.Estimator, record, EachStep)
  return tf.compat.v1


def prepare_preflight(record):
  import tensorflow as tf

  import trainer
  from trainer import preflight
  from trainer.compat.estimator import estimator

  made = {}
  original = trainer.Estimator

  def noting(model_fn, **arguments):
    made.update(arguments, model_fn=model_fn)
    return original(model_fn, **arguments)

  def compile_step(self, input_fn, hooks=None, steps=None, max_steps=None, **others):
    reader = self._reader("train", input_fn)
    assert self.octet
    reports = preflight.check_steps(
      made["model_fn"],
      "v3-8",
      train_input_fn=reader,
      params=made["params"],
      train_batch_size=made["train_batch_size"],
      train_steps=steps or max_steps,
    )
    for report in reports:
      note(record, preflight=preflight.text(report))
    raise SystemExit(0)

  trainer.Estimator = noting
  estimator.Estimator.train = compile_step
  return tf.compat.v1


def prepare_export(record):
  """As prepare_octet. If the program exports no SavedModel, writes one at its end."""
  import functools

  import numpy as np
  import tensorflow as tf

  from trainer.compat.estimator import estimator, export

  v1 = prepare_octet(record)
  cls = estimator.Estimator
  predict, export_saved_model = cls.predict, cls.export_saved_model
  last = {}

  def column(rows, name):
    return np.stack([np.asarray(row[name]) for row in rows])

  def noting_predict(self, input_fn, *args, yield_single_examples=True, **kwargs):
    given = []

    @functools.wraps(input_fn)
    def noting_input_fn(*args, **kwargs):
      given.append(input_fn(*args, **kwargs))
      return given[-1]

    found = list(predict(self, noting_input_fn, *args, **kwargs))
    rows = given[-1].unbatch().as_numpy_iterator()
    rows = [row[0] if isinstance(row, tuple) else row for row in rows]
    last.update(estimator=self, given={name: column(rows, name) for name in rows[0]})
    last.update(found={name: column(found, name) for name in found[0]})
    last.update(checkpoint_path=kwargs.get("checkpoint_path"))
    return iter(found)

  def keep(path, taken):
    asked = {f"in/{name}": value for name, value in taken.items()}
    asked |= {f"out/{name}": value for name, value in last["found"].items()}
    np.savez(f"{record}.npz", **asked)
    note(record, saved_model=path.decode())

  def noting_export(self, *args, **kwargs):
    path = export_saved_model(self, *args, **kwargs)
    examples = [example(index) for index in range(len(rows_of(last["given"])))]
    keep(path, {"input": np.array(examples, object)})  # NumPy's strings lose zeros at their end
    last["exported"] = True
    return path

  def rows_of(columns):
    return next(iter(columns.values()))

  def example(index):
    features = {
      name: tf.train.Feature(int64_list=tf.train.Int64List(value=np.ravel(values[index])))
      for name, values in last["given"].items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()

  def finish():
    if "exported" in last:
      return
    specs = {
      name: tf.TensorSpec([None, *values.shape[1:]], values.dtype)
      for name, values in last["given"].items()
    }
    receiver_fn = export.build_raw_serving_input_receiver_fn(specs)
    folder = os.path.splitext(record)[0]
    path = export_saved_model(
      last["estimator"], folder, receiver_fn, checkpoint_path=last["checkpoint_path"]
    )
    keep(path, last["given"])

  cls.predict, cls.export_saved_model = noting_predict, noting_export
  return v1, finish


def prepare_2_15(record):
  import tensorflow as tf
  import tensorflow.compat.v1 as v1
  from tensorflow_estimator.python.estimator import estimator

  class EachStep(v1.train.SessionRunHook):
    def begin(self):
      self._loss = v1.get_default_graph().get_collection(v1.GraphKeys.LOSSES)[-1]
      self._step = v1.train.get_global_step()

    def before_run(self, run_context):
      return v1.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
      step = run_context.session.run(self._step)
      note(record, step=int(step), loss=float(run_values.results))

  wrap(estimator.Estimator, record, EachStep)
  count_last(v1)
  give_contrib(tf, v1)
  return v1


def wrap(cls, record, hook):
  """Makes an Estimator's class record its losses and evaluations."""
  train, evaluate = cls.train, cls.evaluate

  def noting_train(self, input_fn, hooks=None, *args, **kwargs):
    return train(self, input_fn, [*(hooks or []), hook()], *args, **kwargs)

  def noting_evaluate(self, *args, **kwargs):
    found = evaluate(self, *args, **kwargs)
    note(record, evaluation={name: float(value) for name, value in found.items()})
    return found

  cls.train, cls.evaluate = noting_train, noting_evaluate


def count_last(v1):
  """Moves global_step.assign after all other assignments of the graph except the first ones."""
  from tensorflow.python.ops import ref_variable, resource_variable_ops

  kinds = ("Assign", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
  # ResourceVariable has the methods of its base class in a copy of its own.
  for kind in (ref_variable.RefVariable, resource_variable_ops.ResourceVariable):

    def last(self, *args, assign=kind.assign, **kwargs):
      if self.op.name != "global_step":
        return assign(self, *args, **kwargs)
      variables = v1.global_variables()
      first = {one.initializer.name for one in variables}
      # init_from_checkpoint gives a variable another initializer; the graph keeps the former one.
      first |= {f"{one.op.name}/Assign" for one in variables}
      operations = v1.get_default_graph().get_operations()
      wanted = [one for one in operations if one.type in kinds and one.name not in first]
      with v1.control_dependencies(wanted):
        return assign(self, *args, **kwargs)

    kind.assign = last


def give_contrib(tf, v1):
  """Makes tf.contrib for 2.15 from names that exist elsewhere; `import tensorflow` returns v1."""
  import tf_slim
  from tensorflow.python.framework import ops

  ops.Tensor = v1.Tensor  # tf_slim 1.1.0 looks for it there
  contrib = types.ModuleType("tensorflow.contrib")
  contrib.cluster_resolver = tf.distribute.cluster_resolver
  contrib.data = tf.data.experimental
  contrib.distribute = tf.distribute
  contrib.framework = v1.train
  contrib.layers = tf_slim.layers
  contrib.metrics = tf_slim.metrics
  contrib.slim = tf_slim
  contrib.summary = v1.summary
  contrib.tpu = types.SimpleNamespace(**(vars(v1.tpu) | vars(v1.estimator.tpu)))
  sys.modules["tensorflow.contrib"] = v1.contrib = contrib
  for name in dir(v1):
    if not name.startswith("__"):
      setattr(tf, name, getattr(v1, name))


def main(side, record, program, *arguments):
  finish = None
  if side == "export":
    v1, finish = prepare_export(record)
  else:
    v1 = {"octet": prepare_octet, "preflight": prepare_preflight, "2.15": prepare_2_15}[side](
      record
    )
  hold_random_numbers(v1)
  sys.argv = [program, *arguments]
  sys.path.insert(0, os.path.dirname(program))
  try:
    runpy.run_path(program, run_name="__main__")
  except SystemExit as ended:
    if ended.code or finish is None:
      raise
  if finish:
    finish()


if __name__ == "__main__":
  main(*sys.argv[1:])
