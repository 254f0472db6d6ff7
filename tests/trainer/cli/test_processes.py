import contextlib
import os
import select
import signal
import subprocess
import sys

from trainer.cli import processes

CHILD = """
import os, signal
from trainer.cli import processes
processes.end_with_parent()
print(os.getpid(), flush=True)
signal.pause()
"""
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def test_child_ends_with_a_parent_that_is_killed():
  with subprocess.Popen(
    [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True
  ) as parent:
    child = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    try:
      assert select.select([child], [], [], 30)[0]  # a pidfd can be read once its process has ended
    finally:
      with contextlib.suppress(ProcessLookupError):  # which is what is expected
        signal.pidfd_send_signal(child, signal.SIGKILL)
      os.close(child)


def run(code, tmp_path, seconds=60, **environment):
  with (tmp_path / "log.txt").open("wb") as output:
    return processes.run_command([sys.executable, "-c", code], output, seconds, environment)


def test_a_process_that_takes_too_long_is_killed(tmp_path):
  assert run("import signal; signal.pause()", tmp_path, 0.3) is None


def test_a_process_has_its_environment_and_octet(tmp_path):
  assert run("import os, trainer; print(os.environ['SHOWN'])", tmp_path, SHOWN="yes") == 0
  assert (tmp_path / "log.txt").read_text() == "yes\n"


ANSWERS = """
import os
from trainer.cli import processes

def function(request):
  print("asked", request)
  return {"twice": 2 * request["number"], "parent": os.getppid()}

if __name__ == "__main__":
  processes.answer(function)
"""


def ask(code, tmp_path):
  (tmp_path / "answering.py").write_text(code)
  with (tmp_path / "log.txt").open("wb") as output:
    return processes.ask(
      "answering", {"number": 21}, output, 60, {"PYTHONPATH": f"{tmp_path}:{os.getcwd()}"}
    )


def test_a_module_answers_in_a_process_of_its_own(tmp_path):
  assert ask(ANSWERS, tmp_path) == (0, {"twice": 42, "parent": os.getpid()})
  assert (tmp_path / "log.txt").read_text() == "asked {'number': 21}\n"


def test_a_module_that_dies_gives_no_answer(tmp_path):
  assert ask(ANSWERS.replace('print("asked", request)', "os._exit(3)"), tmp_path) == (3, None)


def test_a_module_whose_parent_has_ended_does_nothing(tmp_path):
  request = tmp_path / "request"
  request.write_text('{"parent": 1, "request": {"number": 1}}')
  (tmp_path / "answering.py").write_text(ANSWERS)
  command = [sys.executable, str(tmp_path / "answering.py"), str(request), str(tmp_path / "answer")]
  assert subprocess.run(command, env={**os.environ, "PYTHONPATH": os.getcwd()}).returncode == 1
  assert not (tmp_path / "answer").exists()


def test_how_a_process_ended_is_told_in_words():
  assert processes.how_it_ended(2) == "ended with exit code 2"
  assert processes.how_it_ended(-signal.SIGSEGV) == "died of SIGSEGV"
  assert processes.how_it_ended(-signal.SIGKILL) == "died of SIGKILL (out of memory?)"
