"""The report: on a terminal as text, and as a dict for JSON."""

import dataclasses

from trainer.preflight import estimates, memory


def text(report, price=None, epoch_examples=None):
  """Lines on one check.StepReport."""
  title = f"{report.kind} on {report.topology.name}, {report.per_core} examples a core, {report.topology.replicas} cores"
  lines = [title, "-" * len(title)]
  lines += [f"  {'passed':<16}" + ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in report.seconds.items())]
  if report.failed:
    lines += [f"  {'FAILED':<16}{report.failed}: " + report.problem.replace("\n", "\n" + " " * 18)]
  if report.compiled:
    lines += [f"  {name:<16}{value}" for name, value in _figures(report)]
    lines += [f"  {name:<16}{value}" for name, value in _costs(report, price, epoch_examples)]
  buffers = [_buffer_line(buffer) for buffer in report.buffers[:5]]
  for name, sentences in (("largest buffers", buffers), ("padding", report.advice), ("misleading", report.warnings)):
    lines += [f"  {name if i == 0 else '':<16}{sentence}" for i, sentence in enumerate(sentences)]
  if report.found:
    lines += [f"  {'batch search':<16}{_found(report.found)}"]
  return "\n".join(lines)


def as_dict(report, price=None, epoch_examples=None):
  """Plain values for JSON: bytes, seconds, FLOPs, of one core."""
  compiled, oom = report.compiled, report.out_of_memory
  result = dict(
      step=report.kind, topology=report.topology.name, compiler_topology=report.topology.compiler_name, replicas=report.topology.replicas,
      per_core_batch=report.per_core, passed=not report.failed, failed_stage=report.failed or None, problem=report.problem or None,
      stage_seconds=report.seconds, warnings=report.warnings, padding_advice=report.advice, available_bytes=report.topology.memory_bytes,
      largest_buffers=[dict(array=str(b), bytes=b.size, bytes_without_padding=b.content, count=b.count, op=b.op) for b in report.buffers])
  if compiled:
    result.update({f.name: getattr(compiled, f.name) for f in dataclasses.fields(compiled) if f.name not in ("listing", "optimal_seconds")})
    result.update(allocated_bytes=compiled.listing.allocated_bytes, flops_per_example=compiled.flops / report.per_core)
  if oom:
    result.update(needed_bytes=oom.needed_bytes, available_bytes=oom.available_bytes, versions=oom.versions, compiler_message=oom.message)
  if report.all_reduces:
    result["all_reduces"] = dict(
        count=report.all_reduces.count, bytes=report.all_reduces.bytes, sizes=list(report.all_reduces.sizes), replicas=report.all_reduces.replicas,
        trainable_bytes=report.trainable_bytes)
  if report.time:
    result["estimated_step_seconds"] = dict(low=report.time.low, high=report.time.high, source=estimates.SOURCE)
    if cost := _cost(report, price, epoch_examples):
      result["estimated_epoch_cost"] = dict(low=cost[0], high=cost[1], **dataclasses.asdict(price))
  if report.found:
    result["batch_search"] = dict(largest=report.found.largest, too_large=report.found.too_large, tried=[list(pair) for pair in report.found.tried])
  return result


def _figures(report):
  compiled, limit = report.compiled, report.topology.memory_bytes
  allocated = compiled.listing.allocated_bytes
  yield "memory", f"{memory.shown(allocated)} of {memory.shown(limit)} ({allocated / limit:.1%}); peak in use {memory.shown(compiled.peak_bytes)}"
  yield "  arguments", f"{memory.shown(compiled.argument_bytes)}, {memory.shown(compiled.aliased_bytes)} of them updated in place"
  yield "  temporaries", memory.shown(compiled.temporary_bytes)
  yield "  program", memory.shown(compiled.code_bytes)
  yield "arithmetic", f"{compiled.flops / 1e6:,.2f} MFLOP a step, {compiled.flops / report.per_core / 1e6:,.3f} an example"
  yield "traffic", f"{memory.shown(compiled.bytes_accessed)} moved a step"
  reduced = report.all_reduces
  if reduced.count:
    trainable = memory.shown(report.trainable_bytes)
    yield "all-reduces", f"{reduced.count} over {reduced.replicas} cores, {memory.shown(reduced.bytes)} in all (trainable variables: {trainable})"
  elif report.kind == "train" and report.topology.replicas > 1:
    yield "all-reduces", "NONE: the cores would train apart from each other"


def _costs(report, price, epoch_examples):
  time = report.time
  batch = report.per_core * report.topology.replicas
  yield "estimate", (
      f"{1e3 * time.low:.3g} to {1e3 * time.high:.3g} ms a step, {batch / time.high:,.0f} to {batch / time.low:,.0f} examples/s on all cores, "
      f"bound by {time.bound}; an estimate, not a prediction ({estimates.SOURCE})")
  if cost := _cost(report, price, epoch_examples):
    low, high = cost
    yield "cost estimate", (
        f"{low:.3g} to {high:.3g} {price.currency} for an epoch of {epoch_examples:,} examples, at {price.per_hour:g} {price.currency} an hour "
        f"({price.source}, {price.date})")


def _cost(report, price, epoch_examples):
  if not (price and epoch_examples and report.time and report.kind == "train"):
    return None
  return estimates.epoch_cost(report.time, report.per_core * report.topology.replicas, epoch_examples, price)


def _buffer_line(buffer):
  return f"{memory.shown(buffer.size)}{f' × {buffer.count}' if buffer.count > 1 else ''}  {buffer}  {buffer.op}"


def _found(found):
  tried = ", ".join(f"{batch} {'fits' if fits else 'does not'}" for batch, fits in found.tried)
  return f"{found.largest or 'none'} is the largest per-core batch found to fit (tried: {tried})"

