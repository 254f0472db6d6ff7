"""Takes the place of trainer.main in a sweep's processes.

`--gin_bindings='act = ...'` says what it does besides a trial's steps.

Example:
    exit 3       it ends with that code
    wait         it tells that it is there, by a file `here`, and waits for SIGTERM, after which it
                 saves and leaves with 75
    hang         it tells that it is there, and does not hear SIGTERM
"""

import os
import pathlib
import signal
import sys

from tests.trainer.sweep import programs


def heard():
  """Yields the signals SIGTERM and SIGUSR1 that come from now on.

  Not by a mask and sigwait: a mask is one thread's, NumPy has others, and a signal that came before
  sigwait would be theirs, and the end of the process.
  """
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  signal.set_wakeup_fd(writer)
  for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda *_: None)
  return iter(lambda: os.read(reader, 1)[0], None)


def main(arguments):
  model_dir = programs.flag(arguments, "model_dir")
  act = next(
    (argument.partition("act = ")[2] for argument in arguments if "act = " in argument), ""
  )
  print(f"cores {sorted(os.sched_getaffinity(0))} omp {os.environ.get('OMP_NUM_THREADS')}")
  if act.startswith("exit"):
    print("this went wrong", file=sys.stderr)
    sys.exit(int(act.split()[1]))
  if act:
    signals = heard()
    pathlib.Path(model_dir, "here").write_text(str(os.getpid()))
    while next(signals) != (signal.SIGTERM if act == "wait" else signal.SIGUSR1):
      pass
    programs.save(model_dir, 1)
    sys.exit(75)
  for step in range(programs.saved_step(model_dir) + 1, programs.STEPS + 1):
    programs.save(model_dir, step)
    programs.evaluate(model_dir, step, programs.x_of(arguments))


if __name__ == "__main__":
  main(sys.argv[1:])
