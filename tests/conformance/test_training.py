"""Training: it learns, to the bit the same each time, and eight cores do what one does."""

import numpy as np

import trainer


def values(estimator):
  return {name: variable.numpy() for name, variable in estimator.variables.items()}


def assert_equal(first, second, tolerance=0.0):
  assert first.keys() == second.keys()
  for name, value in first.items():
    np.testing.assert_allclose(value, second[name], rtol=0, atol=tolerance, err_msg=name)


def test_loss_falls(case, device, tmp_path):
  losses = []
  case.estimator(tmp_path, device).train(case.train_input_fn, steps=60, hooks=[lambda step, metrics, _: losses.append(metrics["loss"])])
  assert np.isfinite(losses).all()
  assert losses[-1] < losses[0]


def test_same_seed_same_bits(case, device, tmp_path):
  runs = [case.estimator(tmp_path / name, device).train(case.train_input_fn, steps=5) for name in ("first", "second")]
  assert_equal(*map(values, runs))


def test_the_loop_length_changes_nothing(case, device, tmp_path):
  runs = []
  for length in (1, 3):
    config = dict(tpu_config=trainer.TPUConfig(iterations_per_loop=length))
    runs.append(case.estimator(tmp_path / str(length), device, **config).train(case.train_input_fn, steps=7))
  assert_equal(*map(values, runs))


def test_eight_cores_do_what_one_does(case, tmp_path):
  one = case.estimator(tmp_path / "one", "cpu").train(case.train_input_fn, steps=20)
  eight = case.estimator(tmp_path / "eight", "cpu:8").train(case.train_input_fn, steps=20)
  if case.deterministic:
    assert_equal(values(one), values(eight), 1e-5)
  else:  # batch norm's statistics are of a core's own batch, and dropout differs between cores: they are meant to differ
    assert values(one).keys() == values(eight).keys()


def test_resumed_training_has_the_same_step_and_slots(case, device, tmp_path):
  first = case.estimator(tmp_path, device).train(case.train_input_fn, steps=3)
  second = case.estimator(tmp_path, device)
  seen = []

  class Begin:
    def begin(self, estimator):
      seen.append(values(estimator))

    def __call__(self, step, metrics, estimator):
      seen.append(step)

  second.train(case.train_input_fn, steps=1, hooks=[Begin()])
  assert_equal(seen[0], values(first))
  assert seen[1] == 4
