"""Optimizers of tf.compat.v1 in all the ways they are called, against the arithmetic done by hand.

Most have an `apply_gradients` of their own, which must be given combined gradients, once.
"""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from tests import long
from tests.trainer import programs
from trainer import errors
from trainer.cli import notices

v1 = tf.compat.v1
ROWS = 16
RATE, DECAY, MOMENTUM = 0.05, 0.1, 0.5


class DecayedMomentum(v1.train.Optimizer):
  """Momentum, and weight decay beside the gradient, with slots by get_variable as BERT makes
  them.
  """

  def __init__(self):
    super().__init__(False, "DecayedMomentum")
    self.calls = 0

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    self.calls += 1
    updates = []
    for gradient, variable in grads_and_vars:
      if gradient is None:
        continue
      slot = v1.get_variable(
        f"{variable.op.name}/momentum",
        variable.shape,
        initializer=v1.zeros_initializer(),
        trainable=False,
      )
      speed = MOMENTUM * slot + gradient
      step = RATE * (speed + DECAY * variable)
      updates += [slot.assign(speed), variable.assign(variable - step)]
    return tf.group(*updates, name=name)


class Decayed(v1.train.MomentumOptimizer):
  """The same by inheritance: what it adds to a gradient is not combined again."""

  def __init__(self):
    super().__init__(RATE, MOMENTUM)

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    grads_and_vars = [pair for pair in grads_and_vars if pair[0] is not None]
    decays = [variable.assign_sub(RATE * DECAY * variable) for _, variable in grads_and_vars]
    with tf.control_dependencies(decays):
      return super().apply_gradients(grads_and_vars, global_step, name)


class Around(v1.train.Optimizer):
  """Hands its gradients on to another optimizer."""

  def __init__(self, inner):
    super().__init__(False, "Around")
    self.inner = inner

  def apply_gradients(self, grads_and_vars, global_step=None, name=None):
    return self.inner.apply_gradients(list(grads_and_vars), global_step=global_step, name=name)


class Halved(v1.train.GradientDescentOptimizer):
  """Changes gradients where they are computed."""

  def compute_gradients(self, *args, **kwargs):
    pairs = super().compute_gradients(*args, **kwargs)
    return [
      (gradient / 2 if gradient is not None else None, variable) for gradient, variable in pairs
    ]


def trained_by(train_op, model_dir, device, steps=3, batch=ROWS):
  """The Estimator of a line after some steps of train_op(loss, variables), each on the same
  points.
  """

  def model_fn(features, labels, mode, params):
    w = v1.get_variable("w", [programs.WIDTH], initializer=v1.ones_initializer())
    b = v1.get_variable("b", [], initializer=v1.zeros_initializer())
    unused = v1.get_variable("unused", [])
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(features["x"], w) + b - labels))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op(loss, [w, b, unused]))

  def input_fn(params):
    data = tf.data.Dataset.from_tensor_slices((({"x": x}), y)).repeat()
    return data.batch(params["batch_size"], drop_remainder=True)

  x, y = programs.arrays(ROWS)
  config = programs.fixed_loops(2)
  estimator = programs.estimator(model_dir, model_fn, device, batch_size=batch, **config)
  return estimator.train(input_fn, steps=steps)


def gradients(w, b):
  x, y = (array.astype(np.float64) for array in programs.arrays(ROWS))
  error = x @ w + b - y
  return 2 * x.T @ error / len(x), 2 * error.mean()


def expected(steps=3, rate=RATE, decay=DECAY, momentum=MOMENTUM, transform=lambda w, b: (w, b)):
  """(w, b) after steps of momentum with weight decay."""
  values = [np.ones(programs.WIDTH), 0.0]
  speeds = [0.0, 0.0]
  for _ in range(steps):
    for index, gradient in enumerate(transform(*gradients(*values))):
      speeds[index] = momentum * speeds[index] + gradient
      values[index] = values[index] - rate * (speeds[index] + decay * values[index])
  return values


def assert_close(estimator, reference):
  """Also that each replica has the same."""
  for name, wanted in zip(("w", "b"), reference, strict=True):
    for value in each_replica(estimator.variables[name]):
      np.testing.assert_allclose(value, wanted, rtol=0, atol=2e-6)


def each_replica(variable):
  return [part.numpy() for part in getattr(variable, "values", [variable])]


def directly(optimizer, loss, variables):
  return optimizer.minimize(loss, v1.train.get_global_step())


def as_bert_does(optimizer, loss, variables):
  optimizer = trainer.CrossShardOptimizer(optimizer)
  pairs = list(zip(tf.gradients(loss, variables), variables, strict=True))
  global_step = v1.train.get_global_step()
  train_op = optimizer.apply_gradients(pairs, global_step=global_step)
  return tf.group(train_op, [global_step.assign(global_step + 1)])


WAYS = {
  "directly": directly,
  "by tf.gradients": lambda optimizer, loss, variables: optimizer.apply_gradients(
    zip(tf.gradients(loss, variables), variables, strict=True)
  ),
  "as BERT does": as_bert_does,
  "by trainer.minimize": lambda optimizer, loss, variables: trainer.minimize(optimizer, loss),
}
OWN = {
  "own": DecayedMomentum,
  "by inheritance": Decayed,
  "around another": lambda: Around(DecayedMomentum()),
}


@pytest.mark.of_tensorflows_replicas
@pytest.mark.parametrize(
  ("way", "device"),
  long.except_for(
    [("directly", "cpu"), *((way, "cpu:2") for way in WAYS)],
    itertools.product(WAYS, ["cpu", "cpu:2", "cpu:8", "xla:8"]),
  ),
  indirect=["device"],
)
def test_an_own_apply_gradients_gets_combined_gradients(way, tmp_path, device):
  """Each replica calls it once."""
  made = []

  def train_op(*given):
    made.append(DecayedMomentum())
    return WAYS[way](made[-1], *given)

  estimator = trained_by(train_op, tmp_path, device)
  assert [optimizer.calls for optimizer in made] == [1] * _cores(device)
  assert_close(estimator, expected())
  assert estimator.latest_step() == 3
  slots = {name: variable for name, variable in estimator.variables.items() if "momentum" in name}
  assert list(slots) == ["w/momentum", "b/momentum"]
  for slot in slots.values():
    assert slot.synchronization != tf.VariableSynchronization.ON_READ
    np.testing.assert_array_equal(each_replica(slot), [each_replica(slot)[0]] * _cores(device))


@pytest.mark.parametrize(
  ("make", "way"),
  long.except_for(
    [("by inheritance", "directly"), ("around another", "as BERT does")],
    itertools.product(list(OWN)[1:], ["directly", "as BERT does"]),
  ),
)
def test_other_ways_to_have_one(make, way, tmp_path):
  estimator = trained_by(lambda *given: WAYS[way](OWN[make](), *given), tmp_path, "cpu:2")
  assert_close(estimator, expected())


def test_its_gradients_are_clipped_and_accumulated_by_minimize(tmp_path):
  def train_op(loss, variables):
    return trainer.minimize(DecayedMomentum(), loss, clip_norm=0.5, accumulate_steps=2)

  def clipped(of_w, of_b):
    factor = min(1.0, 0.5 / np.sqrt(np.sum(of_w**2) + of_b**2))
    return of_w * factor, of_b * factor

  estimator = trained_by(train_op, tmp_path, "cpu:2", steps=5)
  assert_close(estimator, expected(steps=2, transform=clipped))


def test_gradients_of_a_few_rows_are_combined_for_it(tmp_path):
  """Those of an embedding are tf.IndexedSlices; each core sees other rows."""

  def model_fn(features, labels, mode, params):
    table = v1.get_variable("table", [10, 2], initializer=v1.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.gather(table, features)))
    return trainer.EstimatorSpec(mode, loss=loss, train_op=DecayedMomentum().minimize(loss))

  def input_fn(params):
    rows = tf.data.Dataset.from_tensor_slices([1, 2, 2, 1] * 2 + [5, 2, 2, 5] * 2).repeat()
    return rows.batch(params["batch_size"], drop_remainder=True)

  estimator = programs.estimator(tmp_path, model_fn, "cpu:2", batch_size=16).train(
    input_fn, steps=1
  )
  counts = np.array([0, 4, 8, 0, 0, 4, 0, 0, 0, 0])[:, None] / 16
  wanted = np.ones([10, 2]) - RATE * (counts + DECAY)
  for value in each_replica(estimator.variables["table"]):
    np.testing.assert_allclose(value, wanted, atol=1e-6)


@pytest.mark.parametrize("wrap", [trainer.CrossShardOptimizer, lambda optimizer: optimizer])
def test_an_own_compute_gradients_is_called(wrap, tmp_path):
  estimator = trained_by(
    lambda loss, variables: wrap(Halved(RATE)).minimize(loss), tmp_path, "cpu:2", steps=2
  )
  assert_close(estimator, expected(steps=2, rate=RATE / 2, decay=0, momentum=0))


@pytest.mark.long_on_several_cores
def test_in_evaluation_it_is_not_called_and_makes_no_slots(tmp_path, device):
  """A checkpoint that was trained otherwise can be evaluated."""
  made = []

  def model_fn(features, labels, mode, params):
    result = programs.line(features, labels, mode, params)
    if mode == trainer.ModeKeys.EVAL:
      made.append(DecayedMomentum())
      made[-1].minimize(result.loss)
      trainer.CrossShardOptimizer(made[-1]).minimize(result.loss)
    return result

  estimator = programs.estimator(tmp_path, model_fn, device).train(programs.train_input, steps=1)
  names = set(estimator.variables)
  estimator.evaluate(programs.examples(16))
  assert set(estimator.variables) == names
  assert {optimizer.calls for optimizer in made} == {0}


def test_outside_of_a_model_fn_it_is_as_ever():
  optimizer, w = Decayed(), tf.Variable([1.0])

  @tf.function(autograph=False)
  def step():
    optimizer.apply_gradients([(tf.constant([1.0]), w)])

  step()
  np.testing.assert_allclose(w, [1 - RATE * (1 + DECAY)], rtol=1e-6)


# ------------------------------------------------------------ TensorFlow's own


@long.ON_TWO_CORES
@pytest.mark.parametrize("way", ["directly", "by tf.gradients"])
def test_those_of_tensorflow_take_the_mean(way, tmp_path, device):
  estimator = trained_by(
    lambda *given: WAYS[way](v1.train.MomentumOptimizer(RATE, MOMENTUM), *given), tmp_path, device
  )
  assert_close(estimator, expected(decay=0))


@long.ON_TWO_CORES
def test_a_loss_that_is_a_sum_has_a_sum_of_gradients(tmp_path, device):
  def train_op(loss, variables):
    w, b, _ = variables
    x, y = (tf.constant(array) for array in programs.arrays(ROWS))
    own = slice(None)
    if device != "cpu":
      replica, rows = tf.distribute.get_replica_context(), ROWS // _cores(device)
      own = tf.range(rows) + rows * replica.replica_id_in_sync_group
      x, y = tf.gather(x, own), tf.gather(y, own)
    total = v1.losses.mean_squared_error(
      y, tf.linalg.matvec(x, w) + b, reduction=v1.losses.Reduction.SUM
    )
    return v1.train.GradientDescentOptimizer(RATE / ROWS).minimize(total)

  estimator = trained_by(train_op, tmp_path, device)
  assert_close(estimator, expected(decay=0, momentum=0))


# -------------------------------------------------------------- two optimizers


def two_lines(train_op):
  """A model_fn with a line a and a line b, trained by train_op(losses, variables, global_step)."""

  def model_fn(features, labels, mode, params):
    variables, losses = [], []
    for name in ("a", "b"):
      w = v1.get_variable(name, [programs.WIDTH], initializer=v1.zeros_initializer())
      variables.append(w)
      losses.append(tf.reduce_mean(tf.square(tf.linalg.matvec(features["x"], w) - labels)))
    op = train_op(losses, variables, v1.train.get_global_step())
    return trainer.EstimatorSpec(mode, loss=sum(losses), train_op=op)

  return model_fn


def descended(steps, rate):
  """A line after steps of gradient descent on the same 16 points."""
  x, y = (array.astype(np.float64) for array in programs.arrays(ROWS))
  w = np.zeros(programs.WIDTH)
  for _ in range(steps):
    w -= rate * 2 * x.T @ (x @ w - y) / len(x)
  return w


def points(params):
  """The same 16 points in every step."""
  x, y = programs.arrays(ROWS)
  data = tf.data.Dataset.from_tensor_slices(({"x": x}, y)).repeat()
  return data.batch(params["batch_size"], drop_remainder=True)


def trained_two(train_op, model_dir, device, steps):
  estimator = programs.estimator(
    model_dir, two_lines(train_op), device, batch_size=ROWS, **programs.fixed_loops(3)
  )
  return estimator.train(points, steps=steps)


SECOND_COUNT = "passes global_step to two optimizers"  # the warning's


@long.ON_TWO_CORES
def test_two_optimizers_may_both_be_given_the_global_step(tmp_path, device, caplog, monkeypatch):
  """It counts once a step, and is this step's number wherever it is read. A warning says so."""
  seen = []
  monkeypatch.setattr(notices, "_given", set())

  def train_op(losses, variables, global_step):
    ops = []
    for loss, w, rate in zip(losses, variables, (0.1, 0.05), strict=True):
      ops.append(v1.train.GradientDescentOptimizer(rate).minimize(loss, global_step, [w]))
      with tf.control_dependencies(ops):
        tf.summary.scalar(f"step after {w.op.name}", tf.cast(global_step.read_value(), tf.float32))
    return tf.group(*ops)

  estimator = programs.estimator(
    tmp_path, two_lines(train_op), device, batch_size=ROWS, **programs.fixed_loops(1)
  )

  def look(step, metrics, _):
    seen.append((step, metrics["step after a"], metrics["step after b"]))

  with caplog.at_level("WARNING", logger="absl"):
    estimator.train(points, steps=3, hooks=[look])
  assert sum(SECOND_COUNT in line for line in caplog.messages) == 1
  assert seen == [(1, 0, 0), (2, 1, 1), (3, 2, 2)]
  assert estimator.latest_step() == 3
  for name, rate in (("a", 0.1), ("b", 0.05)):
    np.testing.assert_allclose(estimator.variables[name].numpy(), descended(3, rate), atol=2e-6)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_of_one_name_have_their_own_variables(accumulate, tmp_path):
  def train_op(losses, variables, global_step):
    return tf.group(
      *(
        trainer.minimize(
          v1.train.AdamOptimizer(0.1), loss, var_list=[w], accumulate_steps=accumulate
        )
        for loss, w in zip(losses, variables, strict=True)
      )
    )

  estimator = trained_two(train_op, tmp_path, "cpu", steps=4)
  powers = [estimator.variables[name].numpy() for name in ("beta1_power", "beta1_power_1")]
  np.testing.assert_allclose(powers, [0.9 ** (1 + 4 // accumulate)] * 2, rtol=1e-6)
  np.testing.assert_array_equal(estimator.variables["a"].numpy(), estimator.variables["b"].numpy())
  assert {"a/Adam", "a/Adam_1", "b/Adam", "b/Adam_1"} < set(estimator.variables)


def in_turn_minimize(losses, variables, global_step):
  optimizers = [v1.train.MomentumOptimizer(0.05, 0.0) for _ in losses]
  ways = [
    lambda optimizer=optimizer, loss=loss, w=w: optimizer.minimize(loss, global_step, [w])
    for optimizer, loss, w in zip(optimizers, losses, variables, strict=True)
  ]
  return tf.cond(tf.equal(global_step % 3, 0), *ways)


def in_turn_apply(losses, variables, global_step):
  """Gradients are combined outside of the condition; one optimizer has its own apply_gradients."""
  optimizers = [
    Around(v1.train.GradientDescentOptimizer(0.05)),
    v1.train.GradientDescentOptimizer(0.05),
  ]
  first, second = (
    optimizer.compute_gradients(loss, [w])
    for optimizer, loss, w in zip(optimizers, losses, variables, strict=True)
  )
  return tf.cond(
    tf.equal(global_step % 3, 0),
    lambda: optimizers[0].apply_gradients(first),
    lambda: optimizers[1].apply_gradients(second),
  )


@pytest.mark.parametrize("in_turn", [in_turn_minimize, in_turn_apply])
@long.ON_TWO_CORES
def test_optimizers_may_take_turns_under_a_condition(
  in_turn, tmp_path, device, caplog, monkeypatch
):
  monkeypatch.setattr(notices, "_given", set())
  with caplog.at_level("WARNING", logger="absl"):
    estimator = trained_two(in_turn, tmp_path, device, steps=4)
  assert not any(SECOND_COUNT in line for line in caplog.messages)
  for name, steps in (("a", 2), ("b", 2)):
    for value in each_replica(estimator.variables[name]):
      np.testing.assert_allclose(value, descended(steps, 0.05), atol=2e-6)


def test_gradients_inside_tf_cond_are_an_error_on_many_cores(tmp_path):
  def train_op(losses, variables, global_step):
    def step():
      x = tf.square(variables[0])
      return v1.train.GradientDescentOptimizer(0.05).minimize(
        tf.reduce_sum(x), var_list=variables[:1]
      )

    return tf.cond(global_step > 5, step, tf.no_op)

  with pytest.raises(errors.ModelFnError, match="inside tf.cond.*compute them before it"):
    trained_two(train_op, tmp_path, "cpu:2", steps=1)


def _cores(device):
  return int(device.partition(":")[2] or 1)


@pytest.mark.parametrize("shape", ["known", "of the features"])
def test_slices_that_all_cores_share_count_once(tmp_path, shape):
  """Adam divides by the square of each slice of an embedding's gradient."""
  words = np.random.RandomState(0).randint(0, 5, [ROWS, 4])

  def model_fn(features, labels, mode, params):
    places = tf.range(4 if shape == "known" else tf.shape(features)[1])
    of_places = keras.layers.Embedding(4, 2, name="places")(places)
    of_words = keras.layers.Embedding(5, 2, name="words")(features)
    loss = tf.reduce_mean((of_words + of_places - 1.0) ** 2)
    train_op = trainer.minimize(keras.optimizers.Adam(0.1), loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices(words).batch(
      params["batch_size"], drop_remainder=True
    )

  names, values = ("places/embeddings", "words/embeddings"), []
  for device in ("cpu", "cpu:2"):
    config = trainer.RunConfig(device=device)
    estimator = trainer.Estimator(
      model_fn, str(tmp_path / device), config, train_batch_size=ROWS // 2
    )
    estimator.train(input_fn, max_steps=2)
    values.append({name: estimator.get_variable_value(name) for name in names})
  for name in names:
    np.testing.assert_allclose(values[0][name], values[1][name], rtol=1e-5, err_msg=name)


def test_slices_of_each_cores_own_row_are_those_of_two_rows(tmp_path):
  """The number of the core is a constant of its graph, and not the same on all cores."""

  def model_fn(features, labels, mode, params):
    table = tf.compat.v1.get_variable("table", [3, 1], initializer=tf.zeros_initializer())
    number = tf.distribute.get_replica_context().replica_id_in_sync_group
    loss = tf.reduce_sum(tf.gather(table, tf.reshape(number, [1])) * tf.reduce_mean(features))
    train_op = trainer.minimize(keras.optimizers.SGD(1.0), loss)
    return trainer.EstimatorSpec(mode, loss=loss, train_op=train_op)

  def input_fn(params):
    return tf.data.Dataset.from_tensor_slices([2.0, 6.0]).batch(1, drop_remainder=True)

  config = trainer.RunConfig(device="cpu:2")
  estimator = trainer.Estimator(model_fn, str(tmp_path), config, train_batch_size=2)
  estimator.train(input_fn, max_steps=1)
  np.testing.assert_array_equal(estimator.get_variable_value("table"), [[-1.0], [-3.0], [0.0]])
