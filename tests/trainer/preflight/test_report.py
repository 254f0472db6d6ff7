import dataclasses
import json

from trainer.preflight import check, compiler, estimates, hlo, memory, report, search, topology

V2 = topology.find("v2-8")


def compiled(**changes):
  values = dict(
    device_kind="TPU v2",
    compile_seconds=1.5,
    argument_bytes=2**20,
    output_bytes=2**19,
    aliased_bytes=2**19,
    temporary_bytes=2**22,
    code_bytes=2**18,
    peak_bytes=5 * 2**20,
    flops=23e9,
    bytes_accessed=35e6,
    optimal_seconds=-0.996,
    kept_bytes=None,
    versions={"libtpu": "0.0.51"},
    listing=memory.Listing("ENTRY\n\nENTRY %m {\n %a = f32[] custom-call()\n}", "", 5 * 2**20),
  )
  return compiler.Compiled(**{**values, **changes})


def passed():
  return check.StepReport(
    "train",
    V2,
    128,
    {"contract": 0.1, "fit": 0.0},
    warnings=["<resize>"],
    loop=check.DeviceLoop(20, 2**20, 40),
    compiled=compiled(),
    all_reduces=hlo.AllReduces((400, 100), 8),
    trainable_bytes=500,
    buffers=[memory.Buffer("f32", (32, 64), (1, 0), 2**14, 2, "model_fn/x")],
    time=estimates.step_time(compiled(), V2),
  )


def too_large():
  out_of_memory = compiler.OutOfMemory(2**34, 2**33, "RESOURCE_EXHAUSTED", {}, memory.Listing())
  return check.StepReport(
    "eval",
    V2,
    1024,
    {"contract": 0.1},
    failed="fit",
    problem="Out of memory",
    out_of_memory=out_of_memory,
    all_reduces=hlo.AllReduces((), 0),
    found=search.BatchSearch(512, 520, [(1024, False), (512, True), (520, False)]),
  )


def test_an_estimate_names_its_source():
  assert "not a prediction: roofline of published peaks" in report.text(passed())


def test_text_of_a_step_that_passes():
  text = report.text(passed())
  assert "5.00 MiB of 7.48 GiB (0.1%)" in text
  assert "2 over 8 cores, 0.5 KiB in all (trainable variables: 0.5 KiB)" in text
  assert "16.0 KiB × 2  f32[32,64]  model_fn/x" in text


def test_a_training_step_that_reduces_nothing_is_called_out():
  assert "NONE" in report.text(dataclasses.replace(passed(), all_reduces=hlo.AllReduces((), 0)))


def test_text_of_a_step_that_does_not_fit():
  text = report.text(too_large())
  assert "FAILED          fit: Out of memory" in text
  assert (
    "512 is the largest per-core batch found to fit (tried: 1024 does not, 512 fits, 520 does not)"
    in text
  )


def test_json_has_plain_values():
  results = json.loads(json.dumps([report.as_dict(passed()), report.as_dict(too_large())]))
  assert results[0]["passed"]
  assert results[0]["all_reduces"]["bytes"] == 500
  assert results[0]["flops_per_example"] == 23e9 / 128
  assert (
    results[1]["failed_stage"],
    results[1]["batch_search"]["largest"],
    results[1]["needed_bytes"],
  ) == ("fit", 512, 2**34)


def test_the_device_loop():
  assert report.as_dict(passed())["loop"] == dict(
    steps_per_program=20, stacked_input_bytes=2**20, result_bytes=40
  )
  assert "20 steps in one program of 8 cores, 1.00 MiB" in report.text(passed())


def test_of_a_cpu_the_report_says_what_was_kept():
  result = dataclasses.replace(
    passed(), topology=topology.find("xla:8"), compiled=compiled(kept_bytes=2**20), time=None
  )
  text = report.text(result)
  assert "the compiled program, 1.00 MiB, for runs with --compiled" in text
  assert "memory " not in text
