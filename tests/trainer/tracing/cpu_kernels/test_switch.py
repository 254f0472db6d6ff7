"""Whether a trace uses Octet's kernels: only inside of its block, and only in its thread."""

import threading

from trainer.internals import patches
from trainer.tracing.cpu_kernels import switch


def seen_in_a_thread(make):
  found = []
  thread = threading.Thread(target=make(lambda: found.append(switch.is_on.get())))
  thread.start()
  thread.join()
  return found


def test_kernels_are_on_inside_of_the_block():
  assert not switch.is_on.get()
  with switch.use():
    with switch.use():
      assert switch.is_on.get()
    assert switch.is_on.get()
  assert not switch.is_on.get()


def test_another_trace_at_the_same_time_keeps_keras_operations():
  with switch.use():
    assert seen_in_a_thread(lambda function: function) == [False]
    # The threads of a strategy's replicas belong to the trace.
    assert seen_in_a_thread(patches.keep_context) == [True]
