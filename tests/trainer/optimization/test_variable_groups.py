"""Groups of variables with their own learning rate, weight decay and duration."""

import itertools

import keras
import numpy as np
import pytest

import trainer
from tests import long
from tests.trainer.optimization import rows
from trainer import errors


@pytest.mark.parametrize(
  ("optimizer", "device"),
  long.except_for(
    [(keras.optimizers.SGD, "cpu"), (keras.optimizers.Adam, "cpu")],
    itertools.product([keras.optimizers.SGD, keras.optimizers.Adam], ["cpu", "cpu:2"]),
  ),
)
def test_a_group_has_a_learning_rate_of_its_own(optimizer, tmp_path, device):
  group = trainer.VariableGroup(names="^b$", learning_rate_factor=3.0)
  plain = lambda loss: trainer.minimize(optimizer(rows.RATE), loss)
  grouped = lambda loss: trainer.minimize(optimizer(rows.RATE), loss, groups=[group])
  w, b = rows.values(rows.trained(plain, tmp_path / "plain", device))
  scaled_w, scaled_b = rows.values(rows.trained(grouped, tmp_path / "grouped", device))
  np.testing.assert_array_equal(scaled_w, w)
  np.testing.assert_allclose(scaled_b, 3 * b, rtol=1e-6)


@long.ON_TWO_CORES
def test_a_group_may_stay_as_it_is(tmp_path, device):
  groups = [trainer.VariableGroup(names="^w", trainable=False)]
  train_op = lambda loss: trainer.minimize(keras.optimizers.Adam(rows.RATE), loss, groups=groups)
  estimator = rows.trained(train_op, tmp_path, device)
  w, b = rows.values(estimator)
  assert not w.any()
  assert b
  assert not [name for name in estimator.get_variable_names() if "adam" in name and "w" in name]


def test_a_group_may_have_no_weight_decay(tmp_path):
  def after(names):
    groups = [trainer.VariableGroup(names=names, weight_decay=False)]
    optimizer = lambda decay: keras.optimizers.SGD(rows.RATE, weight_decay=decay)
    with_decay = lambda loss: trainer.minimize(optimizer(0.5), loss, groups=groups)
    return rows.values(rows.trained(with_decay, tmp_path / names, "cpu", steps=3))

  none = lambda loss: trainer.minimize(keras.optimizers.SGD(rows.RATE), loss)
  w, _ = rows.values(rows.trained(none, tmp_path / "none", "cpu", steps=3))
  of_b, of_w = after("^b$"), after("^w$")
  np.testing.assert_allclose(of_w[0], w, rtol=0.2)  # b, which has its decay, moves w a little
  assert np.abs(of_b[0]).sum() < np.abs(of_w[0]).sum()


@pytest.mark.parametrize(
  "groups, optimizer, said",
  [
    (dict(names="kernel"), keras.optimizers.SGD, "There are w, b"),
    (dict(names=".", trainable=False), keras.optimizers.SGD, "leave no variable to train"),
    (dict(names="b", weight_decay=False), keras.optimizers.SGD, "needs a Keras optimizer with a"),
  ],
)
def test_groups_that_cannot_be_are_told(groups, optimizer, said, tmp_path):
  group = trainer.VariableGroup(**groups)
  train_op = lambda loss: trainer.minimize(optimizer(rows.RATE), loss, groups=[group])
  with pytest.raises(errors.SettingError, match=said):
    rows.trained(train_op, tmp_path, "cpu")


def test_a_groups_names_must_be_a_regular_expression():
  with pytest.raises(errors.SettingError, match="VariableGroup.names"):
    trainer.VariableGroup(names="(")


@pytest.mark.long_on_several_cores  # test_a_group_may_stay_as_it_is has two cores in the gate
def test_a_group_may_be_trained_for_some_steps(tmp_path, device):
  def after_two(until):
    groups = [trainer.VariableGroup(names="^b$", until=until)]
    optimizer = lambda: keras.optimizers.SGD(rows.RATE, momentum=0.9)
    train_op = lambda loss: trainer.minimize(optimizer(), loss, groups=groups)
    return rows.trained(train_op, tmp_path / str(until), device, steps=2)

  estimator = after_two(2)
  w, b = rows.values(estimator)
  _, free_b = rows.values(after_two(None))
  assert b == pytest.approx(free_b, rel=1e-6)
  later_w, later_b = rows.values(estimator.train(rows.one_batch, steps=2))
  assert later_b == b
  assert (later_w != w).all()


def test_how_long_a_group_is_trained_must_be_a_duration(tmp_path):
  groups = [trainer.VariableGroup(names="^b$", until="3 moons")]
  train_op = lambda loss: trainer.minimize(keras.optimizers.SGD(rows.RATE), loss, groups=groups)
  with pytest.raises(errors.SettingError, match="VariableGroup.until is '3 moons'"):
    rows.trained(train_op, tmp_path, "cpu")
