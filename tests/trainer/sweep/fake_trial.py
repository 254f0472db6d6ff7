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
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pathlib.Path(model_dir, "here").write_text(str(os.getpid()))
    signal.sigwait([signal.SIGTERM if act == "wait" else signal.SIGUSR1])
    programs.save(model_dir, 1)
    sys.exit(75)
  for step in range(programs.saved_step(model_dir) + 1, programs.STEPS + 1):
    programs.save(model_dir, step)
    programs.evaluate(model_dir, step, programs.x_of(arguments))


if __name__ == "__main__":
  main(sys.argv[1:])
