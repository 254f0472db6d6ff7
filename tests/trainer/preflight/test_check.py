"""The stages, with a compiler that is made up."""

import dataclasses

import pytest

import trainer
from tests.trainer.preflight import programs
from trainer import errors
from trainer.preflight import check, compiler, memory, topology
from trainer.preflight import steps as steps_lib
from trainer.programs import graph_operations
from trainer.settings import kinds

V3 = topology.find("v3-8")
# What a core gives the host for a group of 8: labels and logits, with the loss, or the logits.
EVALUATED, PREDICTED = 4 + 8 * (4 + 10 * 4), 8 * 10 * 4


def compiled(allocated):
  return compiler.Compiled(
    "TPU v3",
    1.0,
    1,
    1,
    1,
    1,
    1,
    allocated,
    1e6,
    1e6,
    None,
    None,
    {},
    memory.Listing("", "", allocated),
  )


@pytest.fixture
def fake_compiler(monkeypatch):
  """Puts functions in the place of the compiler, one for each call; gives the list of
  topologies that were compiled for.
  """

  def put(*results):
    answers, calls = iter(results), []

    def compile_program(source, topology, timeout_seconds, kept=""):
      calls.append(topology.name)
      answer = next(answers)
      if isinstance(answer, Exception):
        raise answer
      return answer

    monkeypatch.setattr(compiler, "compile_program", compile_program)
    return calls

  return put


def out_of_memory():
  return compiler.OutOfMemory(2**35, 2**34, "RESOURCE_EXHAUSTED", {}, memory.Listing())


def test_stages_are_told_as_they_pass(fake_compiler):
  fake_compiler(compiled(2**20))
  told = []
  report = check.Check(
    programs.experiment(), tell=lambda report, stage, value: told.append((stage, value is not None))
  ).check_step("train", V3)
  assert told == [(stage, True) for stage in check.STAGES]
  assert report.failed == ""
  assert set(report.seconds) == set(check.STAGES)


@pytest.mark.parametrize(
  "model, inputs, stage",
  [
    (programs.model_fn, programs.names, "contract"),
    (programs.model_fn, programs.partial_batches, "contract"),
    (programs.raises, programs.input_fn, "trace"),
    (programs.asks_python, programs.input_fn, "lower"),
    (programs.shape_of_data, programs.input_fn, "lower"),
  ],
)
def test_a_mistake_stops_at_its_stage_with_its_place(fake_compiler, model, inputs, stage):
  calls = fake_compiler()
  report = check.Check(programs.experiment(model, inputs)).check_step("train", V3)
  assert (report.failed, calls) == (stage, [])
  assert f"{programs.__file__}:" in report.problem


def test_what_is_lowered_once_is_compiled_for_each_topology(fake_compiler):
  calls = fake_compiler(compiled(2**20), compiled(2**20))
  model_calls = []

  def model_fn(features, labels, mode, params):
    model_calls.append(mode)
    return programs.model_fn(features, labels, mode, params)

  checker = check.Check(programs.experiment(model_fn))
  for name in ("v2-8", "v3-8"):
    assert checker.check_step("train", topology.find(name)).failed == ""
  assert calls == ["v2-8", "v3-8"]
  assert model_calls == ["train"]


def test_too_large_is_searched_from_there(fake_compiler):
  fake_compiler(out_of_memory(), compiled(2**33), out_of_memory(), out_of_memory())
  experiment = programs.experiment(programs.old_optimizer, per_core=64)
  report = check.Check(experiment, search_compiles=2).check_step("train", V3)
  assert report.failed == "fit"
  assert report.found.tried[0] == (64, False)
  assert report.found.largest < report.found.too_large < 64
  assert f"run.train_per_core_batch_size = {report.found.largest}" in report.problem


def test_the_next_stack_needs_room_too(fake_compiler):
  """The program fits by itself; the search goes by what both need."""
  stack = 100 * 8 * (4 * programs.SIDE**2 * 3 + 4)
  room = V3.memory_bytes - stack
  fake_compiler(compiled(room + 1024), compiled(room - stack), compiled(room - 1024))
  checker = check.Check(programs.experiment(programs.old_optimizer), search_compiles=1)
  report = checker.check_step("train", V3)
  assert report.failed == "fit"
  assert "2.35 MiB, arrives while it works" in report.problem
  assert "smaller TPUConfig.stacked_input_bytes" in report.problem
  assert [fits for _, fits in report.found.tried] == [False, True]
  assert f"run.train_per_core_batch_size = {report.found.largest}" in report.problem
  assert checker.check_step("train", V3).failed == ""


def test_search_that_breaks_off_leaves_what_is_known(fake_compiler):
  fake_compiler(out_of_memory(), compiler.CompileError("no"))
  experiment = programs.experiment(programs.old_optimizer, per_core=64)
  report = check.Check(experiment).check_step("train", V3)
  assert report.failed == "fit"
  assert "16.00 GiB too much" in report.problem
  assert report.warnings == ["the search for a batch that fits ended early: no"]


def test_step_without_an_input_fn_is_a_mistake_in_the_question():
  experiment = programs.experiment()
  del experiment.input_fns["eval"]
  with pytest.raises(errors.SettingError, match="run.eval_input_fn"):
    check.Check(experiment).check_step("eval", V3)
  assert experiment.kinds() == ["train", "predict"]


def test_the_device_loop(fake_compiler):
  fake_compiler(compiled(2**20), compiled(2**20), compiled(2**20))
  checker = check.Check(programs.experiment())
  train, evaluation, prediction = (checker.check_step(kind, V3).loop for kind in kinds.Kind)
  step = 8 * (4 * programs.SIDE**2 * 3 + 4)  # bytes of the input of a core
  # Of a training the host reads the sum of the losses, the step that is not finite and the learning
  # rate; of an evaluation each loss, and what the metrics are of; and all predictions.
  assert train == check.DeviceLoop(100, 100 * step, 8 + 8 + 4)
  assert evaluation == check.DeviceLoop(64, 64 * step, 64 * EVALUATED)
  assert prediction == check.DeviceLoop(64, 64 * step, 64 * PREDICTED)


def test_a_stack_that_holds_one_group(fake_compiler):
  fake_compiler(compiled(2**20))
  config = trainer.RunConfig(tpu_config=trainer.TPUConfig(stacked_input_bytes=1))
  checker = check.Check(dataclasses.replace(programs.experiment(), config=config))
  loop = checker.check_step("eval", V3).loop
  assert (loop.steps_per_program, loop.result_bytes) == (1, EVALUATED)


def test_xla_devices_of_a_cpu_have_no_memory_to_fit(fake_compiler):
  calls = fake_compiler(compiled(2**60))
  told = []
  checker = check.Check(programs.experiment(), tell=lambda report, stage, value: told.append(stage))
  report = checker.check_step("train", topology.find("xla:8"))
  assert (report.failed, told) == ("", list(check.STAGES[:-1]))
  assert calls == ["xla:8"]
  assert report.time is None


def test_the_place_of_an_op_inside_of_the_loop():
  steps = steps_lib.Steps(programs.experiment(), "tpu", V3.replicas, {"train": 8})
  graph = steps.trace("train", *steps.call_input_fn("train")).concrete.graph
  named = next(
    operation.name for operation in graph_operations.walk(graph) if operation.type == "Conv2D"
  )
  # As the compiler names it: with the loop around it before TensorFlow's name, and parts behind.
  assert check._place(graph, f"while/{named}/transpose").startswith(f"{programs.__file__}:")
