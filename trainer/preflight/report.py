"""Writes the preflight's report as text for a terminal, and as a dict for JSON."""

import dataclasses
import typing
from collections.abc import Iterator
from typing import Any

from trainer.cli.formatting import memory_size as _size
from trainer.preflight import estimates
from trainer.settings.kinds import Kind

if typing.TYPE_CHECKING:
  from trainer.preflight import check


def text(report: "check.StepReport") -> str:
  """Returns the text of one step's report."""
  result = as_dict(report)
  title = (
    f"{report.kind} on {report.topology.name}, {report.per_core} examples a core, "
    f"{report.topology.replicas} cores"
  )
  lines = [title, "-" * len(title)]
  if report.seconds:
    lines += [
      f"  {'passed':<16}"
      + ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in report.seconds.items())
    ]
  if report.failed:
    lines += [f"  {'FAILED':<16}{report.failed}: " + report.problem.replace("\n", "\n" + " " * 18)]
  lines += [f"  {name:<16}{value}" for name, value in figures(result)]
  buffers = [buffer.line() for buffer in report.buffers[:5]]
  for name, sentences in (("largest buffers", buffers), ("misleading", report.warnings)):
    lines += [f"  {name if i == 0 else '':<16}{sentence}" for i, sentence in enumerate(sentences)]
  if report.found:
    lines += [f"  {'batch search':<16}{_found(report.found)}"]
  return "\n".join(lines)


def as_dict(report: "check.StepReport") -> dict[str, Any]:
  """Returns one step's report as plain values for JSON: bytes, seconds and FLOPs of one core."""
  found: dict[str, Any] = dict(
    step=report.kind,
    topology=report.topology.name,
    compiler_topology=report.topology.compiler_name,
    replicas=report.topology.replicas,
    per_core_batch=report.per_core,
    passed=not report.failed,
    failed_stage=report.failed or None,
    problem=report.problem or None,
    stage_seconds=report.seconds,
    warnings=report.warnings,
    available_bytes=report.topology.memory_bytes,
    largest_buffers=[
      dict(array=str(b), bytes=b.size, bytes_without_padding=b.content, count=b.count, op=b.op)
      for b in report.buffers
    ],
  )
  if report.loop:
    found["loop"] = dataclasses.asdict(report.loop)
  found |= _of_the_compiler(report)
  if time := report.time:
    found["estimated_step_seconds"] = dict(
      low=time.low, high=time.high, bound=time.bound, source=estimates.SOURCE
    )
  if report.found:
    found["batch_search"] = dataclasses.asdict(report.found)
  return found


def _of_the_compiler(report):
  """Returns the compiler's counts, whether the step fits or not."""
  found: dict[str, Any] = {}
  if compiled := report.compiled:
    found = dict(vars(compiled), allocated_bytes=compiled.listing.allocated_bytes)
    found["flops_per_example"] = compiled.flops / report.per_core
    del found["listing"], found["optimal_seconds"]
  elif oom := report.out_of_memory:
    found = dict(vars(oom), compiler_message=oom.message)
    del found["listing"], found["message"]
  if reduces := report.all_reduces:
    found["all_reduces"] = dict(
      dataclasses.asdict(reduces),
      count=reduces.count,
      bytes=reduces.bytes,
      trainable_bytes=report.trainable_bytes,
    )
  return found


def figures(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
  """Yields the name and the text of each figure of a step that compiled."""
  if "flops" not in result:
    return
  loop, steps = result["loop"], result["loop"]["steps_per_program"]
  yield (
    "device loop",
    f"{steps} step{'s' * (steps > 1)} in one program of {result['replicas']} cores, "
    f"{_size(loop['stacked_input_bytes'])} of input for a core at once, "
    f"{_size(loop['result_bytes'])} back",
  )
  if result["kept_bytes"]:
    yield "kept", f"the compiled program, {_size(result['kept_bytes'])}, for runs with --compiled"
  if not result["available_bytes"]:
    return  # Of a CPU's memory and time the report says nothing.
  allocated, available = result["allocated_bytes"], result["available_bytes"]
  share = allocated / available
  yield (
    "memory",
    f"{_size(allocated)} of {_size(available)} ({share:.1%}); peak in use "
    f"{_size(result['peak_bytes'])}",
  )
  yield (
    "  arguments",
    f"{_size(result['argument_bytes'])}, {_size(result['aliased_bytes'])} updated in place",
  )
  yield "  temporaries", _size(result["temporary_bytes"])
  yield "  program", _size(result["code_bytes"])
  yield (
    "arithmetic",
    f"{result['flops'] / 1e6:,.2f} MFLOP a step, {result['flops_per_example'] / 1e6:,.3f} an "
    "example",
  )
  yield "traffic", f"{_size(result['bytes_accessed'])} moved a step"
  reduced = result["all_reduces"]
  if reduced["count"]:
    yield (
      "all-reduces",
      f"{reduced['count']} over {reduced['replicas']} cores, {_size(reduced['bytes'])} in all "
      f"(trainable variables: {_size(reduced['trainable_bytes'])})",
    )
  elif result["step"] == Kind.TRAIN and result["replicas"] > 1:
    yield "all-reduces", "NONE: the cores would train apart from each other"
  if time := result.get("estimated_step_seconds"):
    batch = result["per_core_batch"] * result["replicas"]
    rate = f"{batch / time['high']:,.0f} to {batch / time['low']:,.0f} examples/s on all cores"
    yield (
      "estimate",
      f"{1e3 * time['low']:.3g} to {1e3 * time['high']:.3g} ms a step, {rate}, bound by "
      f"{time['bound']}",
    )
    yield "", f"not a prediction: {time['source']}"


def _found(found):
  tried = ", ".join(f"{batch} {'fits' if fits else 'does not'}" for batch, fits in found.tried)
  return f"{found.largest or 'none'} is the largest per-core batch found to fit (tried: {tried})"
