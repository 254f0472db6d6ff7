"""Where the time of steps went, read from a profile that is made up here."""

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from trainer.reporting import step_times

WAIT = "IteratorGetNextOp::DoCompute"


def profile(folder, events):
  """Writes a profile of events (name, start, duration), in milliseconds."""
  space = xplane_pb2.XSpace()
  plane = space.planes.add(name="/host:CPU")
  line = plane.lines.add(timestamp_ns=10**9)
  names = sorted({name for name, _, _ in events})
  for index, name in enumerate(names):
    plane.event_metadata[index].id = index
    plane.event_metadata[index].name = name
  for name, start, duration in events:
    line.events.add(
      metadata_id=names.index(name), offset_ps=int(start * 1e9), duration_ps=int(duration * 1e9)
    )
  target = folder / "plugins" / "profile" / "1"
  target.mkdir(parents=True)
  (target / "host.xplane.pb").write_bytes(space.SerializeToString())


def test_waiting_computing_and_time_between_loops_differ(tmp_path):
  profile(
    tmp_path,
    [
      (step_times.LOOP, 0, 50),
      (WAIT, 1, 10),
      ("while/body/dense:MatMul", 12, 30),
      (step_times.LOOP, 70, 40),  # 20 ms after the end of the first
      (WAIT, 71, 5),
      ("while/body/conv:_MklNativeConv2D", 80, 60),
      ("ReadFile", 2, 99),  # in no loop's graph
    ],
  )
  times = step_times.read(str(tmp_path))
  assert times.input == pytest.approx(0.015)
  assert times.device == pytest.approx(0.075)  # 90 ms in the loops, without the waiting
  assert times.host == pytest.approx(0.020)
  assert times.operations == pytest.approx({"Conv2D": 0.060, "MatMul": 0.030})
  assert list(times.operations) == ["Conv2D", "MatMul"]  # the longest first


def test_time_outside_marked_loops_does_not_count(tmp_path):
  profile(tmp_path, [(WAIT, 0, 10), (step_times.LOOP, 20, 10), (WAIT, 40, 10)])
  times = step_times.read(str(tmp_path))
  assert (times.input, times.device) == (0, pytest.approx(0.010))


def test_a_profile_without_a_whole_loop_tells_nothing(tmp_path):
  profile(tmp_path, [(WAIT, 0, 10)])
  assert step_times.read(str(tmp_path)) is None


def test_the_table():
  times = step_times.StepTimes(
    input=0.01, device=0.08, host=0.01, operations={"Conv2D": 0.12, "MatMul": 0.04}
  )
  assert step_times.table(times, 10, 20).splitlines() == [
    "Where the time went, steps 10 to 20, 10 ms each:",
    "  input     10.0%        1 ms   the device waited for a batch",
    "  host      10.0%        1 ms   between the device loops: logs, summaries, hooks, checkpoints",
    "  device    80.0%        8 ms   operations on the CPU, all threads together:",
    "    Conv2D                        75%",
    "    MatMul                        25%",
  ]
