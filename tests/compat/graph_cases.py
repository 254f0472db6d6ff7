"""Small model_fns of graph mode, which make more than they fetch: the same for 2.15 and for Octet.

A case is a function of a `Program`, and returns the arguments of an EstimatorSpec for mode TRAIN.

    python graph_cases.py tensorflow.compat.v1 OUT.json          # with TensorFlow 2.15
    python graph_cases.py trainer.compat.v1 OUT.json [STEPS_PER_PROGRAM]  # with Octet

OUT.json gets the variables of each case after its training, or the error.
"""

import importlib
import json
import sys
import tempfile
import traceback

import numpy as np

STEPS = 5
BATCH = 4
_X = np.array([0.5, -1, 2, 1, 1.5, -0.5, 0.25, 1, -1, 0.75, 1.25, 2], np.float32)
_Y = np.array([1, -2, 3, 2.5, 3, -1, 0.5, 2, -1.5, 1, 2, 4.5], np.float32)

CASES = {}


class Program:
  """What a case builds with.

  Attributes:
    tf: TensorFlow's names of version 1.
    x, y: a batch: [4] floats.
    step: the global step's variable.
  """

  def __init__(self, tf, x, y):
    self.tf, self.x, self.y = tf, x, y
    self.step = tf.train.get_global_step()

  def variable(self, name, value=0.0, shape=(), **given):
    initializer = self.tf.constant_initializer(value)
    return self.tf.get_variable(name, shape, self.tf.float32, initializer, **given)

  def state(self, name, value=0.0, shape=(), **given):
    return self.variable(name, value, shape, trainable=False, **given)

  def weights(self):
    return self.variable("w"), self.variable("b", 0.5)

  def loss(self, w, b=0.0):
    return self.tf.reduce_mean((w * self.x + b - self.y) ** 2)

  def sgd(self, loss, rate=0.05, counts=True, **given):
    optimizer = self.tf.train.GradientDescentOptimizer(rate)
    return optimizer.minimize(loss, self.step if counts else None, **given)

  def count(self):
    """What counts the steps where no optimizer does."""
    return self.tf.assign_add(self.step, 1)


def case(fn=None, *, tpu=False, trainings=1, train_hooks=None, alike=False):
  """Adds a case.

  Args:
    fn: it.
    tpu: whether a TPUEstimator trains.
    trainings: how often the training is called, each from the last one's checkpoint.
    train_hooks: function of tf that returns the hooks of the call, or None.
    alike: whether both halves of a batch are the same: the statistics of a core are those of all.
  """

  def add(fn):
    fn.tpu, fn.trainings, fn.train_hooks, fn.alike = tpu, trainings, train_hooks, alike
    CASES[fn.__name__] = fn
    return fn

  return add if fn is None else add(fn)


# ------------------------------------------------------------------ train_op


@case
def one_optimizer(p):
  loss = p.loss(*p.weights())
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def dict_of_optimizers(p):
  loss = p.loss(*p.weights())
  made = {rate: p.sgd(loss, rate) for rate in (0.01, 0.1)}
  return dict(loss=loss, train_op=made[0.01])


@case
def dict_of_kinds_of_optimizers(p):
  loss, train = p.loss(*p.weights()), p.tf.train
  made = {
    "adam": train.AdamOptimizer(0.1).minimize(loss, p.step),
    "momentum": train.MomentumOptimizer(0.05, 0.9).minimize(loss, p.step),
    "adagrad": train.AdagradOptimizer(0.1).minimize(loss, p.step),
  }
  return dict(loss=loss, train_op=made["momentum"])


@case
def adam_beside_an_unfetched_adam(p):
  loss, optimizer = p.loss(*p.weights()), p.tf.train.AdamOptimizer(0.1)
  optimizer.minimize(loss, p.step)
  return dict(loss=loss, train_op=p.tf.train.AdamOptimizer(0.02).minimize(loss, p.step))


@case
def two_optimizers_in_a_group(p):
  w, b = p.weights()
  loss = p.loss(w, b)
  ones = p.sgd(loss, 0.1, counts=False, var_list=[b])
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss, 0.05, var_list=[w]), ones))


@case
def two_optimizers_one_fetched(p):
  w, b = p.weights()
  loss = p.loss(w, b)
  p.sgd(loss, 0.1, counts=False, var_list=[b])
  return dict(loss=loss, train_op=p.sgd(loss, 0.05, var_list=[w]))


@case
def generator_and_discriminator(p):
  with p.tf.variable_scope("g"):
    g = p.variable("w", 0.2)
  with p.tf.variable_scope("d"):
    d = p.variable("w", 0.3)
  g_loss = p.tf.reduce_mean((d * g * p.x - 1.0) ** 2)
  d_loss = p.tf.reduce_mean((d * p.y) ** 2) - p.tf.reduce_mean(d * g * p.x)
  of_d = p.tf.get_collection(p.tf.GraphKeys.TRAINABLE_VARIABLES, "d")
  of_g = p.tf.get_collection(p.tf.GraphKeys.TRAINABLE_VARIABLES, "g")
  d_op = p.sgd(d_loss, 0.02, counts=False, var_list=of_d)
  with p.tf.control_dependencies([d_op]):
    g_op = p.sgd(g_loss, 0.03, var_list=of_g)
  p.sgd(g_loss + d_loss, 0.5, counts=False)
  return dict(loss=g_loss, train_op=g_op)


@case
def apply_gradients_unfetched(p):
  loss, optimizer = p.loss(*p.weights()), p.tf.train.GradientDescentOptimizer(0.05)
  pairs = optimizer.compute_gradients(loss)
  optimizer.apply_gradients([(10.0 * gradient, v) for gradient, v in pairs])
  clipped = [(p.tf.clip_by_value(gradient, -1.0, 1.0), v) for gradient, v in pairs]
  return dict(loss=loss, train_op=optimizer.apply_gradients(clipped, p.step))


@case
def gradients_by_hand(p):
  w, b = p.weights()
  loss = p.loss(w, b)
  dw, db = p.tf.gradients(loss, [w, b])
  made = [p.tf.assign_sub(w, 0.05 * dw), p.tf.assign_sub(b, 0.05 * db)]
  w.assign_sub(7.0 * dw)
  return dict(loss=loss, train_op=p.tf.group(*made, p.count()))


@case
def an_assignment_is_the_train_op(p):
  w, _ = p.weights()
  seen = p.state("seen")
  with p.tf.control_dependencies([p.count()]):
    train_op = seen.assign_add(2.0)
  seen.assign_add(100.0)
  return dict(loss=p.loss(w), train_op=train_op)


@case
def a_tensor_is_the_train_op(p):
  loss = p.loss(*p.weights())
  with p.tf.control_dependencies([p.sgd(loss)]):
    train_op = p.tf.identity(loss)
  p.sgd(loss, 3.0)
  return dict(loss=loss, train_op=train_op)


@case
def a_no_op_that_waits(p):
  loss = p.loss(*p.weights())
  with p.tf.control_dependencies([p.sgd(loss, 0.03)]):
    train_op = p.tf.no_op()
  p.sgd(loss, 0.9)
  return dict(loss=loss, train_op=train_op)


@case
def a_tuple_of_losses(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")
  made, _ = p.tf.tuple([loss, p.x], control_inputs=[seen.assign_add(1.0).op])
  return dict(loss=made, train_op=p.sgd(loss))


@case
def the_loss_waits_for_an_assignment(p):
  w, b = p.weights()
  seen, not_seen = p.state("seen"), p.state("not_seen")
  not_seen.assign_add(1.0)
  with p.tf.control_dependencies([seen.assign_add(1.0)]):
    loss = p.loss(w, b)
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def multiplies_the_gradient_of_unused_losses(p):
  w, b = p.weights()
  loss, other = p.loss(w, b), p.loss(w * 5.0)
  p.tf.losses.add_loss(other)
  p.sgd(p.tf.losses.get_total_loss())
  return dict(loss=loss, train_op=p.sgd(loss))


# ------------------------------------------------------------------ assignments


@case
def a_reset_for_nobody(p):
  w, b = p.weights()
  w.assign(0.0)
  loss = p.loss(w, b)
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def a_reset_after_the_optimizer(p):
  w, b = p.weights()
  loss = p.loss(w, b)
  train_op = p.sgd(loss)
  p.tf.group(w.assign(0.0), b.assign(0.0))
  return dict(loss=loss, train_op=train_op)


@case
def some_of_many_assignments(p):
  w, _ = p.weights()
  states = [p.state(f"state_{i}") for i in range(4)]
  made = [state.assign_add(1.0 + i) for i, state in enumerate(states)]
  loss = p.loss(w)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), made[1], made[3]))


@case
def both_assignments_of_a_variable(p):
  w, _ = p.weights()
  state = p.state("state")
  once = state.assign_add(1.0)
  with p.tf.control_dependencies([once]):
    twice = state.assign(state.read_value() * 2.0)
  state.assign(-100.0)
  loss = p.loss(w)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), twice))


@case
def the_later_assignment_of_a_variable(p):
  w, _ = p.weights()
  state = p.state("state", 1.0)
  state.assign(state * 3.0)
  kept = state.assign_add(1.0)
  loss = p.loss(w)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), kept))


@case
def a_value_that_is_read_before(p):
  w, _ = p.weights()
  state = p.state("state", 1.0)
  before = state.read_value()
  with p.tf.control_dependencies([before]):
    kept = state.assign(before * 2.0)
  loss = p.loss(w)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), kept))


@case
def a_copy_beside_the_optimizer(p):
  w, b = p.weights()
  old, new = p.state("old"), p.state("new")
  loss = p.loss(w, b)
  trained = p.sgd(loss)
  copied = old.assign(w)
  with p.tf.control_dependencies([trained]):
    waited = new.assign(w.read_value())
  return dict(loss=loss, train_op=p.tf.group(trained, copied, waited))


@case
def a_read_beside_a_branch_that_assigns(p):
  w, _ = p.weights()
  state, seen = p.state("state", 1.0), p.state("seen")
  loss = p.loss(w)
  made = p.tf.cond(loss > -1.0, lambda: state.assign_add(1.0), lambda: p.tf.constant(0.0))
  noted = seen.assign(state * 1.0)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), made, noted))


@case
def a_swap_of_two_variables(p):
  w, _ = p.weights()
  one, other = p.state("one", 1.0), p.state("other", 2.0)
  first, second = one.read_value(), other.read_value()
  with p.tf.control_dependencies([first, second]):
    swap = p.tf.group(one.assign(second + 0.5), other.assign(first))
  p.tf.group(one.assign(second), other.assign(second))
  loss = p.loss(w)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), swap))


@case
def a_row_of_a_matrix(p):
  w, _ = p.weights()
  rows, others = p.state("rows", 1.0, [3, 2]), p.state("others", 1.0, [3, 2])
  kept = p.tf.scatter_update(rows, [1], [[7.0, 8.0]])
  p.tf.scatter_add(others, [0], [[1.0, 1.0]])
  loss = p.loss(w)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), kept))


@case
def a_soft_target(p):
  with p.tf.variable_scope("online"):
    w = p.variable("w")
  with p.tf.variable_scope("target"):
    target = p.variable("w", 1.0, trainable=False)
  copy = target.assign(w)
  soft = target.assign(0.9 * target + 0.1 * w)
  del copy
  loss = p.loss(w) + 0.0 * target
  with p.tf.control_dependencies([p.sgd(loss)]):
    train_op = p.tf.group(soft)
  return dict(loss=loss, train_op=train_op)


@case
def ema_fetched(p):
  w, b = p.weights()
  loss = p.loss(w, b)
  average = p.tf.train.ExponentialMovingAverage(0.9)
  with p.tf.control_dependencies([p.sgd(loss)]):
    train_op = average.apply([w, b])
  return dict(loss=loss, train_op=train_op)


@case
def ema_unfetched(p):
  w, b = p.weights()
  loss = p.loss(w, b)
  p.tf.train.ExponentialMovingAverage(0.9).apply([w, b])
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def a_learning_rate_that_is_a_variable(p):
  loss, rate = p.loss(*p.weights()), p.state("rate", 0.1)
  rate.assign(10.0)
  with p.tf.control_dependencies([p.sgd(loss, rate)]):
    train_op = rate.assign(rate * 0.5)
  return dict(loss=loss, train_op=train_op)


@case
def accumulates_and_applies_every_second_step(p):
  tf, (w, _) = p.tf, p.weights()
  loss, total = p.loss(w), p.state("total")
  (gradient,) = tf.gradients(loss, [w])
  add, zero = total.assign_add(gradient), total.assign(0.0)
  del zero
  with tf.control_dependencies([add]):
    full = tf.equal(p.step % 2, 1)
    value = tf.where(full, total.read_value(), 0.0)
    keep = tf.where(full, 0.0, total.read_value())
  with tf.control_dependencies([value, keep]):
    made = tf.group(w.assign_sub(0.05 * value), total.assign(keep))
  with tf.control_dependencies([made]):
    return dict(loss=loss, train_op=tf.group(p.count()))


@case
def an_assertion_for_nobody(p):
  loss = p.loss(*p.weights())
  p.tf.Assert(p.tf.less(loss, -1.0), [loss])
  p.tf.debugging.assert_less(loss, -1.0)
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def python_code_for_nobody(p):
  def fail(value):
    raise ValueError("nobody asked")

  loss = p.loss(*p.weights())
  p.tf.py_func(fail, [p.x], p.tf.float32)
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def a_print_that_changes(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")
  p.tf.print(seen.assign_add(1.0))
  return dict(loss=loss, train_op=p.sgd(loss))


# ------------------------------------------------------------------ branches and loops


@case
def a_branch_that_returns_its_assignment(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")
  even = p.tf.equal(p.step % 2, 0)
  made = p.tf.cond(even, lambda: seen.assign_add(1.0), lambda: p.tf.constant(0.0))
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), made))


@case
def a_branch_that_drops_its_assignment(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")

  def add():
    seen.assign_add(1.0)
    return p.tf.constant(1.0)

  made = p.tf.cond(p.step >= 0, add, lambda: p.tf.constant(0.0))
  return dict(loss=loss + made - 1.0, train_op=p.sgd(loss))


@case
def a_branch_for_nobody(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")
  p.tf.cond(p.step >= 0, lambda: seen.assign_add(1.0), lambda: p.tf.constant(0.0))
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def a_branch_that_waits(p):
  loss, seen, not_seen = p.loss(*p.weights()), p.state("seen"), p.state("not_seen")

  def add():
    not_seen.assign_add(1.0)
    with p.tf.control_dependencies([seen.assign_add(1.0)]):
      return p.tf.constant(1.0)

  made = p.tf.cond(p.step >= 2, add, lambda: p.tf.constant(1.0))
  return dict(loss=loss * made, train_op=p.tf.group(p.sgd(loss), made))


@case
def a_branch_of_operations(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")
  made = p.tf.cond(p.step >= 2, lambda: p.tf.group(seen.assign_add(1.0)), p.tf.no_op)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), made))


@case
def an_assignment_outside_of_its_branch(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")
  outside = seen.assign_add(1.0)
  made = p.tf.cond(p.step >= 3, lambda: p.tf.identity(outside), lambda: p.tf.constant(0.0))
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), made))


@case
def a_case_of_three(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")
  made = p.tf.switch_case(
    p.tf.cast(p.step % 3, p.tf.int32), [lambda i=i: seen.assign_add(10.0**i) for i in range(3)]
  )
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), made))


@case
def trains_in_a_branch(p):
  tf, (w, _) = p.tf, p.weights()
  loss = p.loss(w)
  (gradient,) = tf.gradients(loss, [w])

  def apply():
    w.assign(-50.0)
    return tf.group(w.assign_sub(0.1 * gradient))

  made = tf.cond(tf.equal(p.step % 2, 0), apply, tf.no_op)
  with tf.control_dependencies([made]):
    return dict(loss=loss, train_op=p.count())


@case
def minimizes_in_a_branch(p):
  loss, tf = p.loss(*p.weights()), p.tf
  optimizer = tf.train.MomentumOptimizer(0.02, 0.9)
  made = tf.cond(
    tf.equal(p.step % 2, 0), lambda: optimizer.minimize(loss, p.step), lambda: tf.group(p.count())
  )
  return dict(loss=loss, train_op=made)


@case
def minimizes_in_both_branches(p):
  w, b = p.weights()
  tf, loss, other = p.tf, p.loss(w, b), p.loss(w * b)
  made = tf.cond(
    tf.equal(p.step % 3, 0),
    lambda: p.sgd(loss, var_list=[w]),
    lambda: tf.train.AdagradOptimizer(0.1).minimize(other, p.step, var_list=[b]),
  )
  return dict(loss=loss, train_op=made)


@case
def a_loop_that_drops_its_assignment(p):
  tf, seen = p.tf, p.state("seen")

  def body(i, total):
    seen.assign_add(1.0)
    return i + 1, total + p.x[i]

  _, total = tf.while_loop(lambda i, _: i < 2, body, [0, 0.0])
  loss = p.loss(*p.weights())
  return dict(loss=loss + 0.0 * total, train_op=p.sgd(loss))


@case
def a_loop_that_waits(p):
  tf, seen, not_seen = p.tf, p.state("seen"), p.state("not_seen")

  def body(i):
    not_seen.assign_add(1.0)
    with tf.control_dependencies([seen.assign_add(1.0)]):
      return i + 1

  loop = tf.while_loop(lambda i: i < 3, body, [0])
  loss = p.loss(*p.weights())
  return dict(loss=loss, train_op=tf.group(p.sgd(loss), loop))


@case
def a_loop_for_nobody(p):
  tf, seen = p.tf, p.state("seen")

  def body(i):
    with tf.control_dependencies([seen.assign_add(1.0)]):
      return i + 1

  tf.while_loop(lambda i: i < 3, body, [0])
  loss = p.loss(*p.weights())
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def a_gradient_through_a_loop(p):
  tf, (w, b), seen = p.tf, p.weights(), p.state("seen")

  def body(i, value):
    seen.assign_add(1.0)
    return i + 1, value * w + b

  _, value = tf.while_loop(lambda i, _: i < 2, body, [0, p.x])
  loss = tf.reduce_mean((value - p.y) ** 2)
  p.sgd(loss, 1.0)
  return dict(loss=loss, train_op=p.sgd(loss, 0.01))


@case
def a_gradient_through_a_loop_of_unknown_sizes(p):
  """The gradient of where_v2 keeps shapes of the loop that only a discarded gradient needs."""
  tf, (w, b) = p.tf, p.weights()
  x, y = (tf.boolean_mask(one, p.y > -100.0) for one in (p.x, p.y))

  def body(i, value):
    is_inside = tf.expand_dims(x > tf.cast(i, tf.float32), 1)
    return i + 1, tf.where_v2(is_inside, value * w + b, tf.zeros_like(value))

  value = tf.stack([x, x], 1)
  _, value = tf.while_loop(lambda i, _: i < 2, body, [0, value])
  loss = tf.reduce_mean((value - tf.expand_dims(y, 1)) ** 2)
  return dict(loss=loss, train_op=p.sgd(loss, 0.01))


@case
def regularizers_of_layers_beside_those_of_scopes(p):
  """A spectral norm is such a custom_getter: TensorFlow regularizes the normalized kernel."""
  tf, rows = p.tf, p.tf.expand_dims(p.x, 1)

  def squares(rate):
    return lambda weights: rate * tf.reduce_sum(weights * weights)

  def normalized(getter, name, *args, **kwargs):
    found = getter(name, *args, **kwargs)
    return 0.5 * found if "kernel" in name else found

  def dense(scope, inputs, of_kernel, **of_scope):
    with tf.variable_scope(scope, reuse=tf.AUTO_REUSE, **of_scope):
      start = tf.constant_initializer(0.8)
      made = tf.layers.dense(inputs, 1, None, True, start, kernel_regularizer=of_kernel, name="d")
    return made[:, 0]

  found = dense("whole", rows, squares(0.05)) + dense("whole", rows + 1.0, squares(0.05))
  found += dense("both", rows, squares(0.07), regularizer=squares(0.02))
  for inputs in (rows, rows - 1.0):
    found += dense("normalized", inputs, squares(0.03), custom_getter=normalized)
  loss = tf.reduce_mean((found - p.y) ** 2) + tf.losses.get_regularization_loss()
  return dict(loss=loss, train_op=p.sgd(loss, 0.02))


@case
def clipped_gradients_of_parts_in_a_loop(p):
  """As in differentially private training: the loop takes gradients of a loss from outside."""
  tf, variables = p.tf, p.weights()
  w, b = variables
  losses = (w * p.x + b - p.y) ** 2
  optimizer = tf.train.GradientDescentOptimizer(0.05)

  def body(i, sums):
    part = tf.reduce_mean(tf.gather(losses, [i])) + 0.1 * (w - 1.0) ** 2  # reads w inside, too
    pairs = optimizer.compute_gradients(part, variables)
    clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 1.5)
    return i + 1, [one + own for one, own in zip(sums, clipped, strict=True)]

  count = tf.shape(losses)[0]
  _, sums = tf.while_loop(lambda i, _: i < count, body, [0, [tf.zeros([]), tf.zeros([])]])
  means = [one / tf.cast(count, tf.float32) for one in sums]
  pairs = list(zip(means, variables, strict=True))
  return dict(loss=tf.reduce_mean(losses), train_op=optimizer.apply_gradients(pairs, p.step))


@case
def a_gradient_through_a_branch(p):
  tf, (w, b), seen = p.tf, p.weights(), p.state("seen")

  def double():
    seen.assign_add(1.0)
    return 2.0 * w * p.x

  value = tf.cond(p.step >= 2, double, lambda: b * p.x)
  loss = tf.reduce_mean((value - p.y) ** 2)
  p.sgd(loss, 1.0)
  return dict(loss=loss, train_op=p.sgd(loss, 0.02))


@case
def a_map_that_assigns(p):
  tf, seen, not_seen = p.tf, p.state("seen"), p.state("not_seen")

  def each(value):
    not_seen.assign_add(1.0)
    with tf.control_dependencies([seen.assign_add(value)]):
      return value + 0.0

  mapped = tf.map_fn(each, tf.constant([1.0, 2.0]))
  loss = p.loss(*p.weights())
  return dict(loss=loss, train_op=tf.group(p.sgd(loss), mapped))


@case
def a_function_runs_all(p):
  seen = p.state("seen")

  @p.tf.function
  def called():
    seen.assign_add(1.0)
    return p.tf.constant(1.0)

  loss = p.loss(*p.weights())
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), called()))


@case
def a_function_for_nobody(p):
  seen = p.state("seen")

  @p.tf.function
  def called():
    seen.assign_add(1.0)
    return p.tf.constant(1.0)

  called()
  loss = p.loss(*p.weights())
  return dict(loss=loss, train_op=p.sgd(loss))


# ------------------------------------------------------------------ UPDATE_OPS, batch norm


def normalized(p, **given):
  rows = p.tf.stack([p.x, -p.x], 1)
  return p.tf.layers.batch_normalization(rows, training=True, momentum=0.5, **given)[:, 0]


@case(alike=True)
def batch_norm_fetched(p):
  loss = p.tf.reduce_mean((p.variable("w") * normalized(p) - p.y) ** 2)
  with p.tf.control_dependencies(p.tf.get_collection(p.tf.GraphKeys.UPDATE_OPS)):
    return dict(loss=loss, train_op=p.sgd(loss))


@case(alike=True)
def batch_norm_called_twice(p):
  def called(scale):
    with p.tf.variable_scope("norm", reuse=p.tf.AUTO_REUSE):
      rows = scale * p.tf.stack([p.x, -p.x], 1)
      return p.tf.layers.batch_normalization(rows, training=True, momentum=0.5)[:, 0]

  loss = p.tf.reduce_mean((p.variable("w") * (called(1.0) + called(3.0) ** 2) - p.y) ** 2)
  with p.tf.control_dependencies(p.tf.get_collection(p.tf.GraphKeys.UPDATE_OPS)):
    return dict(loss=loss, train_op=p.sgd(loss))


@case(alike=True)
def batch_norm_forgotten(p):
  loss = p.tf.reduce_mean((p.variable("w") * normalized(p) - p.y) ** 2)
  return dict(loss=loss, train_op=p.sgd(loss))


@case(alike=True)
def batch_norm_of_one_scope_fetched(p):
  with p.tf.variable_scope("one"):
    one = normalized(p)
  with p.tf.variable_scope("other"):
    other = normalized(p)
  loss = p.tf.reduce_mean((p.variable("w") * (one + other) - p.y) ** 2)
  updates = p.tf.get_collection(p.tf.GraphKeys.UPDATE_OPS, r"(model_fn/)?one/")
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), *updates))


@case
def update_ops_of_the_program(p):
  tf, seen, not_seen = p.tf, p.state("seen"), p.state("not_seen")
  tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, seen.assign_add(1.0))
  tf.add_to_collection("others", not_seen.assign_add(1.0))
  loss = p.loss(*p.weights())
  with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
    return dict(loss=loss, train_op=p.sgd(loss))


@case(alike=True)
def keras_batch_norm_fetched(p):
  layer = p.tf.keras.layers.BatchNormalization(momentum=0.5, name="norm")
  rows = layer(p.tf.stack([p.x, -p.x], 1), training=True)
  loss = p.tf.reduce_mean((p.variable("w") * rows[:, 0] - p.y) ** 2)
  with p.tf.control_dependencies(layer.updates):
    return dict(loss=loss, train_op=p.sgd(loss))


@case(alike=True)
def keras_batch_norm_forgotten(p):
  layer = p.tf.keras.layers.BatchNormalization(momentum=0.5, name="norm")
  rows = layer(p.tf.stack([p.x, -p.x], 1), training=True)
  loss = p.tf.reduce_mean((p.variable("w") * rows[:, 0] - p.y) ** 2)
  return dict(loss=loss, train_op=p.sgd(loss))


# ------------------------------------------------------------------ summaries and metrics


@case
def a_scalar_of_the_loss(p):
  loss = p.loss(*p.weights())
  p.tf.summary.scalar("loss", loss)
  p.tf.summary.histogram("x", p.x)
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def a_merged_summary_for_nobody(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")
  with p.tf.control_dependencies([seen.assign_add(1.0)]):
    p.tf.summary.scalar("loss_again", loss + 0.0, collections=["mine"])
  p.tf.summary.merge_all("mine")
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def metrics_in_a_training(p):
  loss = p.loss(*p.weights())
  value, _ = p.tf.metrics.mean(loss)
  return dict(loss=loss, train_op=p.sgd(loss), eval_metric_ops={"mean": (value, p.tf.no_op())})


@case
def a_streaming_metric_that_is_fetched(p):
  loss, shown = p.loss(*p.weights()), p.state("shown")
  value, update = p.tf.metrics.mean(p.tf.constant([1.0, 2.0]), name="average")
  p.tf.metrics.mean(loss)
  with p.tf.control_dependencies([update]):
    shown_op = shown.assign(value + 1.0)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), shown_op))


# ------------------------------------------------------------------ hooks


def hook_class(tf, **methods):
  return type("Hook", (tf.train.SessionRunHook,), methods)()


@case
def an_init_of_a_hook(p):
  w, b = p.weights()
  init = w.assign(5.0)
  hook = hook_class(p.tf, after_create_session=lambda self, session, coord: session.run(init))
  loss = p.loss(w, b)
  return dict(loss=loss, train_op=p.sgd(loss), training_hooks=[hook])


@case(trainings=2)
def an_init_of_a_hook_in_each_training(p):
  w, b = p.weights()
  init = w.assign(5.0)
  hook = hook_class(p.tf, after_create_session=lambda self, session, coord: session.run(init))
  loss = p.loss(w, b)
  return dict(loss=loss, train_op=p.sgd(loss), training_hooks=[hook])


@case
def an_embedding_that_is_fed(p):
  rows = p.variable("rows", 0.0, [4, 2])
  given = p.tf.placeholder(p.tf.float32, [4, 2])
  init = rows.assign(given)
  values = np.arange(8, dtype=np.float32).reshape(4, 2)

  def start(self, session, coord):
    session.run(init, feed_dict={given: values})

  loss = p.tf.reduce_mean((p.tf.gather(rows, [1, 2]) - 1.0) ** 2) + 0.0 * p.loss(0.0)
  hook = hook_class(p.tf, after_create_session=start)
  return dict(loss=loss, train_op=p.sgd(loss, 0.1), training_hooks=[hook])


@case
def a_hook_that_fetches_an_assignment(p):
  loss, seen = p.loss(*p.weights()), p.state("seen")
  made = seen.assign_add(1.0)
  hook = hook_class(p.tf, before_run=lambda self, context: p.tf.train.SessionRunArgs(made))
  return dict(loss=loss, train_op=p.sgd(loss), training_hooks=[hook])


@case
def a_hook_that_fetches_an_operation(p):
  loss, seen, not_seen = p.loss(*p.weights()), p.state("seen"), p.state("not_seen")
  made, _ = p.tf.group(seen.assign_add(1.0)), p.tf.group(not_seen.assign_add(1.0))
  hook = hook_class(
    p.tf, before_run=lambda self, context: p.tf.train.SessionRunArgs({"op": made, "loss": loss})
  )
  return dict(loss=loss, train_op=p.sgd(loss), training_hooks=[hook])


@case
def a_hook_that_resets_once(p):
  loss, (w, _) = p.loss(*p.weights()), (p.tf.trainable_variables()[0], None)
  reset = w.assign(0.25)

  def after(self, context, values):
    self.count = getattr(self, "count", 0) + 1
    if self.count == 3:
      context.session.run(reset)

  hook = hook_class(p.tf, after_run=after)
  return dict(loss=loss, train_op=p.sgd(loss), training_hooks=[hook])


@case
def a_hook_that_halves_the_rate(p):
  loss, rate = p.loss(*p.weights()), p.state("rate", 0.1)
  halve = rate.assign(rate * 0.5)

  def before(self, context):
    context.session.run(halve)

  hook = hook_class(p.tf, before_run=before)
  return dict(loss=loss, train_op=p.sgd(loss, rate), training_hooks=[hook])


@case
def a_hook_that_makes_its_own(p):
  w, b = p.weights()

  def begin(self):
    self.given = p.tf.placeholder(p.tf.float32, [])
    self.made = p.tf.assign(w, self.given)

  def start(self, session, coord):
    session.run(self.made, {self.given: 3.0})

  loss = p.loss(w, b)
  hook = hook_class(p.tf, begin=begin, after_create_session=start)
  return dict(loss=loss, train_op=p.sgd(loss), training_hooks=[hook])


@case(
  train_hooks=lambda tf: [
    hook_class(
      tf,
      begin=lambda self: setattr(self, "made", tf.group(tf.trainable_variables()[1].assign(2.0))),
      after_create_session=lambda self, session, coord: session.run(self.made),
    )
  ]
)
def a_hook_of_the_call(p):
  loss = p.loss(*p.weights())
  return dict(loss=loss, train_op=p.sgd(loss))


@case
def a_hook_that_copies_at_the_end(p):
  w, b = p.weights()
  copy, seen = p.state("copy"), p.state("seen")
  copied = copy.assign(w)
  loss = p.loss(w, b)

  def after(self, context, values):
    seen_value, _ = context.session.run([copied, p.step])
    assert np.isscalar(seen_value) or seen_value.shape == ()

  hook = hook_class(p.tf, after_run=after)
  return dict(loss=loss, train_op=p.tf.group(p.sgd(loss), seen.assign_add(1.0)),
              training_hooks=[hook])  # fmt: skip


# ------------------------------------------------------------------ Scaffold


@case
def an_init_fn_that_assigns(p):
  w, b = p.weights()
  init = p.tf.group(w.assign(4.0), b.assign(1.0))
  scaffold = p.tf.train.Scaffold(init_fn=lambda scaffold, session: session.run(init))
  loss = p.loss(w, b)
  return dict(loss=loss, train_op=p.sgd(loss), scaffold=scaffold)


@case(trainings=2)
def an_init_fn_once_in_two_trainings(p):
  w, b = p.weights()
  init = w.assign(4.0)
  scaffold = p.tf.train.Scaffold(init_fn=lambda scaffold, session: session.run(init))
  loss = p.loss(w, b)
  return dict(loss=loss, train_op=p.sgd(loss), scaffold=scaffold)


@case
def an_init_fn_that_feeds(p):
  w, b = p.weights()
  given = p.tf.placeholder(p.tf.float32, [])
  init = w.assign(given)
  w.assign(-1.0)
  scaffold = p.tf.train.Scaffold(init_fn=lambda _, session: session.run(init, {given: 2.5}))
  loss = p.loss(w, b)
  return dict(loss=loss, train_op=p.sgd(loss), scaffold=scaffold)


# ------------------------------------------------------------------ TPUEstimator


@case(tpu=True)
def a_host_call_that_is_fetched(p):
  loss, seen, not_seen = p.loss(*p.weights()), p.state("seen"), p.state("not_seen")
  shown = p.tf.reshape(seen.assign_add(1.0), [1])
  not_seen.assign_add(1.0)
  return dict(loss=loss, train_op=p.sgd(loss), host_call=(lambda shown: shown, [shown]))


@case(tpu=True)
def a_scaffold_fn_that_assigns(p):
  w, b = p.weights()
  init = w.assign(4.0)

  def scaffold_fn():
    return p.tf.train.Scaffold(init_fn=lambda scaffold, session: session.run(init))

  loss = p.loss(w, b)
  return dict(loss=loss, train_op=p.sgd(loss), scaffold_fn=scaffold_fn)


# ------------------------------------------------------------------ running them


def model_fn_of(tf, name):
  """The model_fn of a case."""

  def model_fn(features, labels, mode, params):
    made = CASES[name](Program(tf, features, labels))
    kind = tf.estimator.tpu.TPUEstimatorSpec if CASES[name].tpu else tf.estimator.EstimatorSpec
    return kind(mode, **made)

  return model_fn


def train(tf, name, model_dir):
  """Trains a case; returns its variables, name → list."""
  fn = CASES[name]

  order = [0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5] if fn.alike else range(len(_X))

  def input_fn(params):
    data = tf.data.Dataset.from_tensor_slices((_X[list(order)], _Y[list(order)]))
    return data.repeat().batch(BATCH, drop_remainder=True)

  settings = dict(model_dir=model_dir, save_checkpoints_steps=1000, log_step_count_steps=1000)
  if fn.tpu:
    estimator = tf.estimator.tpu.TPUEstimator(
      model_fn_of(tf, name),
      config=tf.estimator.tpu.RunConfig(**settings),
      use_tpu=False,
      train_batch_size=BATCH,
    )
  else:
    estimator = tf.estimator.Estimator(
      model_fn_of(tf, name), config=tf.estimator.RunConfig(**settings), params={}
    )
  for training in range(fn.trainings):
    hooks = fn.train_hooks(tf) if fn.train_hooks else None
    estimator.train(input_fn, hooks=hooks, max_steps=STEPS * (training + 1))
  names = sorted(set(estimator.get_variable_names()) - {"examples_seen"})
  return {each: np.asarray(estimator.get_variable_value(each)).tolist() for each in names}


def main(names, out, steps_per_program=""):
  tf = importlib.import_module(names)
  if steps_per_program:
    _in_programs(int(steps_per_program))
  found = {}
  for name in CASES:
    with tempfile.TemporaryDirectory() as model_dir:
      try:
        found[name] = train(tf, name, model_dir)
      except Exception as error:
        traceback.print_exc()
        found[name] = f"{type(error).__name__}: {error}"[:300]
  with open(out, "w") as file:
    json.dump(found, file, indent=1, sort_keys=True)


def _in_programs(steps):
  """Has so many steps be one program of two XLA devices, which take batches of static shapes."""
  import dataclasses

  import trainer

  original = trainer.Estimator

  def make(model_fn, config, **arguments):
    tpu_config = dataclasses.replace(config.tpu_config, steps_per_program=steps)
    config = dataclasses.replace(config, device="xla:2", tpu_config=tpu_config, static_shapes=True)
    return original(model_fn, config=config, **arguments)

  trainer.Estimator = make


if __name__ == "__main__":
  main(*sys.argv[1:])
