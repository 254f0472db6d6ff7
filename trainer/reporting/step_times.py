"""Reads from a profile where the time of the training steps went: input, device or host.

Example:
    steps 10 to 20, 51.3 ms each:
      input      1.2 %    0.6 ms   the device waited for a batch
      host       0.4 %    0.2 ms   between the device loops: logs, summaries, hooks, checkpoints
      device    98.4 %   50.5 ms   of which operations on the CPU, all threads together:
        Conv2DBackpropFilter            31 %
        ...
"""

import collections
import contextlib
import dataclasses
import os
import re
from typing import Any

import tensorflow as tf

from trainer.io import files, storage

LOOP = "octet device loop"  # The name of the device loops in a profile.
_INPUT = "IteratorGetNextOp::DoCompute"  # TensorFlow's name for the wait for a batch.
_OPERATIONS = 8  # The number of operations in the table.


@dataclasses.dataclass(frozen=True)
class StepTimes:
  """Times in seconds, summed over all profiled steps.

  Attributes:
    input: the device loops waited for batches.
    device: the device loops computed.
    host: between the end of a device loop and the start of the next one.
    operations: kind of operation → seconds on the CPU, summed over all threads, the longest first.
      It is empty if the profile has no operations, as for steps in a single thread (see
      `trainer.programs.executor`).
  """

  input: float
  device: float
  host: float
  operations: dict[str, float]


def mark_loop() -> contextlib.AbstractContextManager[Any]:
  """Returns a context that marks a device loop in a running profile."""
  return tf.profiler.experimental.Trace(LOOP)


def read(directory: str) -> StepTimes | None:
  """Reads the newest profile in a directory.

  Args:
    directory: the argument of tf.profiler.experimental.start.

  Returns:
    The times of the device loops that began and ended within the profile; None if none did.
  """
  from tensorflow.tsl.profiler.protobuf import xplane_pb2

  space = xplane_pb2.XSpace()
  newest = files.matching(os.path.join(directory, "plugins", "profile"), "*")[-1]
  space.ParseFromString(storage.read(files.matching(newest, "*.xplane.pb")[-1], "rb"))
  events = [
    (
      plane.event_metadata[event.metadata_id].name,
      (line.timestamp_ns + event.offset_ps / 1e3) / 1e9,
      event.duration_ps / 1e12,
    )
    for plane in space.planes
    if plane.name == "/host:CPU"
    for line in plane.lines
    for event in line.events
  ]
  loops = sorted((start, start + seconds) for name, start, seconds in events if name == LOOP)
  if not loops:
    return None
  # The profile may begin and end within a loop; that loop has no mark. So the function leaves out
  # its events.
  inside = [
    (name, seconds) for name, start, seconds in events if loops[0][0] <= start <= loops[-1][1]
  ]
  waited = sum(seconds for name, seconds in inside if name == _INPUT)
  kinds: collections.Counter[str] = collections.Counter()
  for name, seconds in inside:
    operation = re.fullmatch(r"while/[^:]+:(?:_Mkl(?:Native)?)?([A-Za-z]\w*)", name)
    if operation:
      kinds[operation[1]] += seconds
  busy = sum(end - start for start, end in loops)
  return StepTimes(
    waited, max(0.0, busy - waited), loops[-1][1] - loops[0][0] - busy, dict(kinds.most_common())
  )


def table(times: StepTimes, first: int, last: int) -> str:
  """Returns the times of the steps after `first` up to `last`, as text."""
  steps = last - first
  whole = times.input + times.device + times.host

  def line(name, seconds, what):
    return f"  {name:<8} {seconds / whole:>6.1%} {1000 * seconds / steps:>8.3g} ms   {what}"

  lines = [
    f"Where the time went, steps {first} to {last}, {1000 * whole / steps:.3g} ms each:",
    line("input", times.input, "the device waited for a batch"),
    line("host", times.host, "between the device loops: logs, summaries, hooks, checkpoints"),
    line(
      "device",
      times.device,
      "operations on the CPU, all threads together:"
      if times.operations
      else "the steps themselves",
    ),
  ]
  total = sum(times.operations.values())
  lines += [
    f"    {kind:<28} {seconds / total:>4.0%}"
    for kind, seconds in list(times.operations.items())[:_OPERATIONS]
  ]
  return "\n".join(lines)
