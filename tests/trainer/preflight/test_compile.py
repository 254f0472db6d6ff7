"""The TPU compiler itself. Small programs: a compilation takes a few seconds."""

import dataclasses
from concurrent import futures

import pytest

from tests.trainer.preflight import programs
from trainer.preflight import check, compiler, topology
from trainer.preflight import steps as steps_lib

pytestmark = pytest.mark.preflight


def test_training_step_compiles_fits_and_reduces_its_gradients():
  stages = []
  checker = check.Check(
    programs.experiment(), tell=lambda report, stage, value: stages.append(stage)
  )
  report = checker.check_step("train", topology.find("v3-8"))
  assert stages == list(check.STAGES)
  assert report.failed == ""
  assert report.compiled.device_kind == "TPU v3"
  assert report.all_reduces.replicas == 8
  assert (
    report.all_reduces.bytes == report.trainable_bytes == 4 * (3 * 3 * 3 * 32 + 32 + 32 * 10 + 10)
  )
  # Two products for each multiplication of the convolution, forward and for its kernel.
  convolution = 2 * 8 * programs.SIDE**2 * 9 * 3 * 32
  assert convolution < report.compiled.flops < 3 * convolution
  assert report.compiled.argument_bytes >= 8 * programs.SIDE**2 * 3 * 4 + 3 * report.trainable_bytes
  assert report.time.low > 0
  assert any(
    str(buffer) == f"f32[8,{programs.SIDE},{programs.SIDE},32]" for buffer in report.buffers
  )


def test_too_large_step_reports_buffers_and_a_fitting_batch():
  report = check.Check(programs.experiment(per_core=2**20), search_compiles=2).check_step(
    "train", topology.find("v3-8")
  )
  assert report.failed == "fit"
  assert report.out_of_memory.available_bytes == pytest.approx(
    topology.find("v3-8").memory_bytes, rel=1e-3
  )
  assert "GiB too much" in report.problem
  assert f"f32[{2**20},{programs.SIDE},{programs.SIDE},32]" in report.problem
  assert "programs.py" in report.problem
  assert (report.found.largest, True) in report.found.tried
  assert report.found.largest > 2**18
  assert f"run.train_per_core_batch_size = {report.found.largest}" in report.problem


def test_what_the_compiler_refuses_is_an_error_here():
  wrong = dataclasses.replace(topology.find("v3-8"), shape=(3, 5, 7))
  report = check.Check(programs.experiment()).check_step("predict", wrong)
  assert report.failed == "compile"
  assert "not divisible" in report.problem


def test_two_compile_at_once_in_spite_of_libtpus_lock():
  with futures.ThreadPoolExecutor() as pool:
    steps = steps_lib.Steps(programs.experiment(), "tpu", 8, {"predict": 8})
    program = steps.lower(steps.trace("predict", *steps.call_input_fn("predict")))
    results = list(
      pool.map(lambda _: compiler.compile_program(program, topology.find("v3-8"), 300), range(2))
    )
  assert [type(result) for result in results] == [compiler.Compiled] * 2
  assert results[0].flops == results[1].flops
