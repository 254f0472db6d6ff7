"""What `python -m trainer.reproduce` finds, prints and repeats."""

import shlex
import subprocess
import sys

import pytest

from tests import sources
from trainer import errors, reproduce

RECORD = {
  "octet": "0.2.0",
  "tensorflow": "2.21.0",
  "keras": "3.15.1",
  "python": "3.11.7",
  "machine": "Linux",
  "commit": "abc",
  "packages": {"keras": "3.15.1", "numpy": "2.4.6"},
}


def test_the_same_code_and_packages_do_not_differ():
  assert list(reproduce.differences(RECORD, RECORD)) == []


def test_what_differs_is_told():
  now = RECORD | {
    "commit": "def",
    "diff": "+a\n+b\n",
    "packages": {"keras": "3.14.0", "scipy": "1.17"},
  }
  assert list(reproduce.differences(RECORD, now)) == [
    "commit: abc then, def now",
    "changes beside the commit: none then, 2 lines now (environment.json has the run's)",
    "keras: 3.15.1 then, 3.14.0 now",
    "numpy: 2.4.6 then, absent now",
    "scipy: absent then, 1.17 now",
  ]
  bare = {key: value for key, value in RECORD.items() if key != "commit"}
  assert list(reproduce.differences(bare, bare)) == [
    "The run has recorded nothing of its code: an earlier Octet wrote it, outside of git."
  ]
  own = bare | {"modules": {"net.py": "0123", "gone.py": "4567", "same.py": "89ab"}}
  changed = bare | {"modules": {"net.py": "cdef", "same.py": "89ab"}}
  assert list(reproduce.differences(own, own)) == []
  assert list(reproduce.differences(own, changed)) == [
    "net.py: other code now",
    "gone.py: absent now",
  ]
  earlier = {key: value for key, value in RECORD.items() if key not in ("commit", "packages")}
  assert next(reproduce.differences(earlier, now)).startswith("The run has recorded neither")


@pytest.mark.parametrize(
  "line, words",
  [
    (
      "python -m trainer.main --gin_file=a.gin --model_dir=out/a --seed=3 '--gin_bindings=x = 1'",
      "python -m trainer.main --gin_file=out/a/config.gin --model_dir=out/b --seed=3",
    ),
    (
      "python -m trainer.main --gin_file a.gin --device cpu --model_dir out/a",
      "python -m trainer.main --gin_file=out/a/config.gin --model_dir=out/b --device cpu",
    ),
    ("python mine.py --model_dir=out/a --lr=1", "python mine.py --lr=1 --model_dir=out/b"),
  ],
)
def test_the_command_is_repeated_in_another_folder(line, words):
  assert reproduce.repeated(line, "out/a", "out/b") == shlex.split(words)


def test_a_program_that_chooses_its_folder_is_not_repeated():
  with pytest.raises(errors.SettingError, match="has no --model_dir"):
    reproduce.repeated("python mine.py", "out/a", "out/b")


def command(*words, folder):
  return subprocess.run(
    [sys.executable, "-m", *words],
    cwd=folder,
    capture_output=True,
    text=True,
    check=False,
    timeout=240,
    env={"PYTHONPATH": str(sources.ROOT), "PATH": "/usr/bin:/bin", "TF_CPP_MIN_LOG_LEVEL": "2"},
  )


@pytest.mark.long
def test_the_printed_command_repeats_a_run_to_the_bit(tmp_path):
  shown = ["--gin_bindings=run.train_steps = 20", "--gin_bindings=run.exporters = []"]
  gin_file = f"--gin_file={sources.ROOT}/gin_configs/digits.gin"
  trained = command("trainer.main", gin_file, "--model_dir=out/a", *shown, folder=tmp_path)
  assert trained.returncode == 0, trained.stderr
  told = command("trainer.reproduce", "out/a", folder=tmp_path)
  assert told.returncode == 0, told.stdout + told.stderr
  assert (
    "Octet's version, the run's own modules, packages and machine equal the run's." in told.stdout
  )
  words = shlex.split(told.stdout.splitlines()[-1])
  assert words[:4] == ["python", "-m", "trainer.main", "--gin_file=out/a/config.gin"]
  again = command(*words[2:], folder=tmp_path)
  assert again.returncode == 0, again.stderr
  first, second = (
    (tmp_path / "out" / name / "model.ckpt-20.data-00000-of-00001").read_bytes()
    for name in ("a", "a-again")
  )
  assert first == second
