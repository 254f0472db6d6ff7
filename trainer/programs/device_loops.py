"""The device loops of a Program: what an Estimator runs on its device."""

import dataclasses

from trainer.programs import eval_loop, host_call, multi_group, multi_step, predict_loop, train_loop
from trainer.programs import step as step_lib


@dataclasses.dataclass(frozen=True)
class DeviceLoops:
  """A loop for each kind, and programs of several steps or groups. Each keeps what it has traced.

  Attributes:
    train: training loops that call each step.
    steps: programs of several training steps.
    evaluate: loops over whole batches, and partial batches.
    predict: prediction steps.
    groups: programs of several groups of an evaluation or a prediction.
    xla: whether XLA compiles the programs of training steps for a CPU or a GPU.
  """

  train: train_loop.TrainLoop
  steps: multi_step.Steps
  evaluate: eval_loop.EvalLoop
  predict: predict_loop.PredictLoop
  groups: multi_group.Groups
  xla: bool


def make(
  program: step_lib.Program,
  replicas: int,
  host_call_every_n_steps: int = 1,
  on_one_cpu: bool = False,
  xla: bool = False,
) -> DeviceLoops:
  """Makes the loops; traces nothing.

  Args:
    program: the program.
    replicas: number of batches in a step: the replicas of this process.
    host_call_every_n_steps: number of steps from one host_call to the next.
    on_one_cpu: whether the device is a CPU as one core.
    xla: see DeviceLoops.
  """
  host = host_call.HostCall(host_call_every_n_steps)
  return DeviceLoops(
    train_loop.TrainLoop(program, replicas, host, on_one_cpu),
    multi_step.Steps(program, replicas, host, xla),
    eval_loop.EvalLoop(program, replicas),
    predict_loop.PredictLoop(program, replicas, on_one_cpu),
    multi_group.Groups(program, replicas),
    xla,
  )
