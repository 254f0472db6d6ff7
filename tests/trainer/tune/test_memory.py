"""The memory that a process may take, and its end beyond that."""

import subprocess
import sys
import types

import pytest

from trainer.tune import memory


def test_a_process_ends_that_takes_more_than_its_limit():
  code = (
    "from trainer.tune import memory\n"
    "memory.end_beyond(200 * 2**20)\n"
    "parts = []\n"
    "while True: parts.append(bytearray(b'x' * 2**20))\n"
  )
  done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)
  assert done.returncode == memory.EXIT_CODE


@pytest.mark.parametrize(
  ("files", "limit"),
  [
    ({}, 4000),
    ({"max": "max\n", "current": "1000\n"}, 4000),
    ({"max": "3500\n", "current": "1000\n"}, 2000),
    ({"max": "3500\n", "current": "3000\n", "stat": "anon 1\ninactive_file 2000\n"}, 2000),
    ({"max": "99999\n", "current": "1000\n"}, 4000),
  ],
)
def test_limit_is_a_share_of_machine_or_container_memory(files, limit, tmp_path, monkeypatch):
  free = types.SimpleNamespace(available=5000)
  monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: free)
  for name, text in files.items():
    (tmp_path / f"memory.{name}").write_text(text)
  assert memory.limit_bytes(str(tmp_path)) == limit
