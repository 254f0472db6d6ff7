"""Training: it learns, to the bit the same each time, and eight cores do what one does."""

import shutil

import pytest

import trainer
from tests import long
from tests.conformance import cases
from trainer import testing


@pytest.mark.long_on_several_cores  # which do what one core does, see below
def test_it_learns(case, device):
  testing.assert_learns(
    model_fn=case.model_fn,
    input_fn=case.train_input_fn,
    batch_size=case.global_batch,
    params=case.params,
    steps=60,
    device=device,
  )


@pytest.mark.long_on_several_cores  # where a training that is resumed shows it
def test_same_seed_same_bits_whatever_the_loop_length(case, device, tmp_path):
  runs = []
  # XLA compiles a stack of one step as another program, which may round otherwise.
  for length in (2, 3) if device.startswith("xla") else (1, 3):
    config = dict(tpu_config=trainer.TPUConfig(iterations_per_loop=length))
    runs.append(
      case.estimator(tmp_path / str(length), device, **config).train(case.train_input_fn, steps=7)
    )
  testing.assert_same_values(*map(testing.values, runs))


@pytest.mark.parametrize(
  "case",
  long.except_for(cases.ON_EIGHT, [case for case in cases.CASES if case.deterministic]),
  ids=lambda case: case.name,
)
def test_eight_cores_do_what_one_does(case, train):
  """But for batch norm, whose statistics are of a core's own batch, and dropout: they are meant
  to differ.
  """
  one, eight = (testing.values(train(case, device)) for device in ("cpu", "cpu:8"))
  testing.assert_same_values(one, eight, 1e-5, names=("one core", "eight cores"))


@pytest.mark.long_on_several_cores(but="v1_variables")
def test_a_training_that_is_resumed_comes_to_the_same_bits(case, device, tmp_path):
  # Both save in step 3: there, variables that each core has its own of become their mean.
  whole, resumed = (
    case.estimator(tmp_path / name, device, save_checkpoints_steps=3)
    for name in ("whole", "resumed")
  )
  whole.train(case.train_input_fn, max_steps=6)
  (tmp_path / "resumed").mkdir()
  for path in (tmp_path / "whole").glob("model.ckpt-3.*"):
    shutil.copy(path, tmp_path / "resumed")
  assert resumed.latest_step() == 3
  resumed.train(case.train_input_fn, max_steps=6)
  testing.assert_same_values(testing.values(whole), testing.values(resumed))
