"""Several steps in one program do what as many steps do that the host calls, for every conformance
case, on one core and on eight: the largest difference of any variable after 20 steps, of any result
of an evaluation, and of any prediction.

On one core the loop is inside of `strategy.run`, as on a TPU; on eight it is around the cores.

The evaluation and the prediction are of one checkpoint, that of the training by the host, so that
they may be compared to the bit.

Example:
    python -m tests.slow.multi_step
    python -m tests.slow.multi_step --cases=keras_layers,modules
"""

import argparse
import pathlib
import tempfile

import numpy as np

import trainer
from tests.conformance import cases
from trainer import testing
from trainer.devices import device as device_lib

STEPS, PER_PROGRAM, TOLERANCE = 20, 6, 1e-6
# Of the 43 examples, on one core 22 groups, the last of one example; on eight 3 groups, the last of
# which has whole batches, a partial one and empty ones.
EVAL_BATCH = {"cpu": 2, "cpu:8": 16}
GROUPS = {"cpu": 6, "cpu:8": 2}
# A bias in front of batch norm has a gradient of zero, but for rounding. Adam divides it by its own
# size, so that the bias and the mean that follows it walk at random, without effect on the loss.
UNDETERMINED = {"batch_norm_and_dropout": ("conv2d/bias", "batch_normalization/moving_mean")}


def estimator(case, folder, device, per_program):
  return trainer.Estimator(
    case.model_fn,
    str(folder),
    trainer.RunConfig(device=device, tpu_config=trainer.TPUConfig(steps_per_program=per_program)),
    params=case.params,
    train_batch_size=case.global_batch,
    eval_batch_size=EVAL_BATCH[device],
  )


def difference(one, other):
  """The largest difference of two dicts of numbers and arrays."""
  assert one.keys() == other.keys(), one.keys() ^ other.keys()
  return max(
    float(np.max(np.abs(np.asarray(one[key], float) - np.asarray(other[key], float))))
    for key in one
  )


def differences(case, device):
  """The largest differences of the training, of the evaluation and of the prediction."""
  with tempfile.TemporaryDirectory() as folder:
    host, program = pathlib.Path(folder) / "host", pathlib.Path(folder) / "program"
    by_host = estimator(case, host, device, None).train(case.train_input_fn, steps=STEPS)
    in_program = estimator(case, program, device, PER_PROGRAM)
    in_program.train(case.train_input_fn, steps=STEPS)
    values = [testing.values(each) for each in (by_host, in_program)]
    for name in UNDETERMINED.get(case.name, ()):
      for each in values:
        del each[name]
    of_host = estimator(case, host, device, GROUPS[device])
    evaluations = [each.evaluate(case.eval_input_fn) for each in (by_host, of_host)]
    predictions = [list(each.predict(case.eval_input_fn)) for each in (by_host, of_host)]
    assert len(predictions[0]) == cases.EXAMPLES
  return (
    difference(*values),
    difference(*evaluations),
    max(difference(*pair) for pair in zip(*predictions, strict=True)),
  )


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--cases", default=",".join(case.name for case in cases.CASES))
  wanted = parser.parse_args().cases.split(",")
  device_lib.connect("cpu:8")
  for device in ("cpu", "cpu:8"):
    for case in cases.CASES:
      if case.name not in wanted:
        continue
      found = differences(case, device)
      print(
        f"{device:<6} {case.name:<24} training {found[0]:.1e}  evaluation {found[1]:.1e}  "
        f"prediction {found[2]:.1e}",
        flush=True,
      )
      assert max(found) <= TOLERANCE


if __name__ == "__main__":
  main()
