"""A process that answers until it ends, or its parent does."""

import os
import select
import signal
import subprocess
import sys

import pytest

from trainer.cli import json_lines, kept_process, processes

# Answers with its number of the question, until it is asked to do something else. The alarm ends a
# process that nobody ends, so that a test fails instead of waiting for it.
PROGRAM = """
import json, os, signal, socket, sys
signal.alarm(20)
lines = socket.socket(fileno=0).makefile("rw")
for number, line in enumerate(lines):
  question = json.loads(line)
  if question.get("say"):
    print(question["say"], flush=True)
    sys.exit(3)
  if not question.get("silent"):
    print(json.dumps({"number": number, "pid": os.getpid()}), file=lines, flush=True)
"""


def start(timeout_seconds=None):
  return kept_process.KeptProcess(
    [sys.executable, "-c", PROGRAM], processes.with_octet(), timeout_seconds
  )


def test_one_process_answers_all_questions():
  process = start()
  assert [process.ask({}) for _ in range(2)] == [
    {"number": 0, "pid": process.pid},
    {"number": 1, "pid": process.pid},
  ]
  process.end()
  assert not process.is_alive()


def test_a_process_that_ends_tells_how_and_what_it_said_last():
  process = start()
  with pytest.raises(kept_process.EndedError, match="ended with exit code 3: no such package"):
    process.ask({"say": "no such package"})
  assert not process.is_alive()


def test_a_killed_process():
  process = start()
  process.ask({})
  os.kill(process.pid, signal.SIGKILL)
  with pytest.raises(kept_process.EndedError, match="died of SIGKILL"):
    process.ask({})


def test_no_answer_in_time():
  process = start(timeout_seconds=0.05)
  with pytest.raises(kept_process.EndedError, match="gave no answer for 0.05 s"):
    process.ask({"silent": True})
  assert not process.is_alive()


def test_an_interrupted_question_has_no_late_answer(monkeypatch):
  process = start()

  def interrupt(*arguments):
    raise KeyboardInterrupt

  monkeypatch.setattr(json_lines.Connection, "receive", interrupt)
  with pytest.raises(KeyboardInterrupt):
    process.ask({})
  assert not process.is_alive()


def test_the_process_ends_when_its_parent_is_killed(tmp_path):
  """And first finishes what it does: only then it sees that the socket is closed."""
  ended = tmp_path / "ended"
  os.mkfifo(ended)
  (tmp_path / "program.py").write_text(PROGRAM + f"open({str(ended)!r}, 'w').write('yes')\n")
  parent = (
    "import os, signal, sys\n"
    "from trainer.cli import kept_process, processes\n"
    f"command = [sys.executable, {str(tmp_path / 'program.py')!r}]\n"
    "kept_process.KeptProcess(command, processes.with_octet()).ask({})\n"
    "os.kill(os.getpid(), signal.SIGKILL)\n"
  )
  subprocess.run([sys.executable, "-c", parent], check=False, env=processes.with_octet())
  reader = os.open(ended, os.O_RDONLY | os.O_NONBLOCK)
  assert select.select([reader], [], [], 20.0)[0]
  assert os.read(reader, 9) == b"yes"
  os.close(reader)
