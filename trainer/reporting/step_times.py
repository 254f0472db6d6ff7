"""Where the time of a training's steps went, read from a profile: waiting for input, on the device,
on the host between the device loops.

Example:
    steps 10 to 20, 51.3 ms each:
      input      1.2 %    0.6 ms   the device waited for a batch
      host       0.4 %    0.2 ms   between the device loops: logs, summaries, hooks, checkpoints
      device    98.4 %   50.5 ms   of which operations on the CPU, all threads together:
        Conv2DBackpropFilter            31 %
        ...
"""

import collections
import dataclasses
import os
import re

import tensorflow as tf

LOOP = "octet device loop"  # the name under which a profile has the device loops
_INPUT = "IteratorGetNextOp::DoCompute"
_OPERATIONS = 8  # shown


@dataclasses.dataclass(frozen=True)
class StepTimes:
  """Seconds of all profiled steps.

  Attributes:
    input: in which the device loops waited for batches.
    device: in which they did not.
    host: from the end of one to the start of the next.
    operations: dict of kind of operation → seconds on the CPU, over all threads, the longest first;
      empty where the profile has none, as of steps that run in a single thread (see
      `trainer.loop.executor`).
  """

  input: float
  device: float
  host: float
  operations: dict


def mark_loop():
  """A context that marks a device loop in a profile, if one is being taken."""
  return tf.profiler.experimental.Trace(LOOP)


def read(directory):
  """StepTimes of the newest profile in a directory, of the loops that began and ended in it;
  None if there was none.
  """
  from tensorflow.tsl.profiler.protobuf import xplane_pb2

  space = xplane_pb2.XSpace()
  with tf.io.gfile.GFile(
    max(tf.io.gfile.glob(os.path.join(directory, "plugins", "profile", "*", "*.xplane.pb"))), "rb"
  ) as file:
    space.ParseFromString(file.read())
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
  inside = [
    (name, seconds) for name, start, seconds in events if loops[0][0] <= start <= loops[-1][1]
  ]
  waited = sum(seconds for name, seconds in inside if name == _INPUT)
  kinds = collections.Counter()
  for name, seconds in inside:
    operation = re.fullmatch(r"while/[^:]+:(?:_Mkl(?:Native)?)?([A-Za-z]\w*)", name)
    if operation:
      kinds[operation[1]] += seconds
  busy = sum(end - start for start, end in loops)
  return StepTimes(
    waited, max(0.0, busy - waited), loops[-1][1] - loops[0][0] - busy, dict(kinds.most_common())
  )


def table(times, first, last):
  """StepTimes of the steps after `first` up to `last`, as text."""
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
      "of which operations on the CPU, all threads together:"
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
