"""Damages the folder of a run in many ways.

No command may print a traceback, and nothing may be lost.

    python -m tests.slow.faults --count=200 --seed=0

Each case copies a run of 20 steps, damages the copy in one way, and runs a command on it. A seed
decides everything:

    full disk    a disk of its own with some room beside the run
    read-only    a disk that may not be written
    wrong JSON   a file of the run is cut, or has values of other kinds in it
    litter       what killed processes leave: half-written files and folders, leases, notes, locks

Then the case undoes the damage as the message advises, and the training resumes to step 40. In
every case:

- the command ends with 0, or with 2 and a last line that begins with "error: ";
- everything from before still exists: the newest checkpoint, the evaluations, the lines of
  metrics.jsonl, the exporters' newest SavedModels;
- the training ends with the same variables as an undisturbed one, to the bit, and leaves nothing of
  killed processes.

The disks are tmpfs in a mount namespace (unshare); Linux needs no privileges for it with user
namespaces. The commands are forks of a process that has imported TensorFlow without using it, which
saves the import.
"""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

# ruff: noqa: E402
_INSIDE = "OCTET_FAULTS_INSIDE"

if __name__ == "__main__" and _INSIDE not in os.environ:
  # The program restarts where it may mount its own disks, before the slow imports.
  os.environ[_INSIDE] = "1"
  _own = [sys.executable, "-m", "tests.slow.faults", *sys.argv[1:]]
  os.execvp("unshare", ["unshare", "--map-root-user", "--mount", *_own])

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import sklearn.datasets  # noqa: F401  imported once, for all forks

import models.digits_mlp  # noqa: F401
import trainer.main
from trainer import errors, experiment  # noqa: F401
from trainer.cli import command
from trainer.outputs import exported_records

_SECONDS = 300  # a longer command counts as hanging

_ARGUMENTS = (
  "--gin_file=gin_configs/digits.gin",
  "--device=cpu",
  *(
    f"--gin_bindings={binding}"
    for binding in (
      "digits_mlp.model_fn.hidden_units = (16,)",
      "run.eval_throttle_secs = 0",
      "run.exporters = [@BestExporter(), @FinalExporter()]",
      "run.export_options = @ExportOptions()",
      "ExportOptions.verify = False",
      "ExportOptions.warm_up_batches = ()",
      "RunConfig.save_checkpoints_steps = 10",
      "RunConfig.retention = @Retention()",
      "Retention.newest = 2",
      "Retention.best = 1",
    )
  ),
)
_MODES = ("train_and_evaluate", "evaluate", "predict", "export")
_JSON = (
  "evaluations.json",
  "metrics.jsonl",
  "environment.json",
  "training.lock",
  "export/best/exported.json",
  "export/final/exported.json",
)
_RECORD = '{"folder": "1", "metrics": {"global_step": 1}}'
_VALUES = (None, True, 3, -1.5, "text", "", [], [3], {}, {"x": 1}, {"": {}})

_CHECKPOINT = (".index", ".data-00000-of-00001")

# ------------------------------------------------------------------- commands


def run(model_dir, mode, steps):
  """Runs a command of Octet in a fork; returns (exit code or "hangs", its output)."""
  with tempfile.TemporaryFile("w+") as log:
    process = os.fork()
    if not process:
      _run_in_fork(log, model_dir, mode, steps)
    code = _wait(process)
    log.seek(0)
    return code, log.read()


def _run_in_fork(log, model_dir, mode, steps):
  code = 1
  try:
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    length = f"--gin_bindings=run.train_steps = {steps}"
    sys.argv = ["trainer.main", *_ARGUMENTS, f"--model_dir={model_dir}", f"--mode={mode}", length]
    command.run(trainer.main.main)
  except SystemExit as end:
    code = end.code or 0
  except BaseException:
    sys.excepthook(*sys.exc_info())
  finally:
    with contextlib.suppress(OSError):
      sys.stdout.flush()
      sys.stderr.flush()
    os._exit(code)


def _wait(process):
  end = time.monotonic() + _SECONDS
  while time.monotonic() < end:
    found, status = os.waitpid(process, os.WNOHANG)
    if found:
      return os.waitstatus_to_exitcode(status)
    time.sleep(0.02)
  os.kill(process, 9)
  os.waitpid(process, 0)
  return "hangs"


# ---------------------------------------------------------------------- damage


def _mount(folder, *options):
  subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", folder], check=True)


def _fill(folder, room):
  """Fills a disk except for a number of bytes."""
  stat = os.statvfs(folder)
  with open(folder / "filler", "wb") as file:
    file.write(bytes(max(0, stat.f_bavail * stat.f_bsize - room)))


@contextlib.contextmanager
def full_disk(whole, place, randomness):
  """The run on a disk with a given room, from nothing to more than a checkpoint."""
  room = randomness.choice([0, 1, 2, 4, 8, 16, 32, 64]) * 4096
  _mount(place, "size=16m")
  try:
    model_dir = place / "run"
    shutil.copytree(whole, model_dir)
    _fill(place, room)
    yield model_dir, f"{room} bytes of room"
  finally:
    subprocess.run(["umount", place], check=True)


@contextlib.contextmanager
def read_only(whole, place, randomness):
  """The run on a read-only disk."""
  _mount(place, "size=64m")
  try:
    shutil.copytree(whole, place / "run")
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)
    yield place / "run", ""
  finally:
    subprocess.run(["umount", place], check=True)


@contextlib.contextmanager
def wrong_json(whole, place, randomness):
  """The run with wrong content in a file."""
  model_dir = place / "run"
  shutil.copytree(whole, model_dir)
  name = randomness.choice(_JSON)
  path = model_dir / name
  text = path.read_text() if path.exists() else _RECORD
  damaged = _damage(text, name.endswith(".jsonl"), randomness)
  path.write_bytes(damaged)
  yield model_dir, f"{name}: {damaged[:60]!r}"
  shutil.rmtree(model_dir)


def _damage(text, is_lines, randomness):
  """Cuts a text, puts bytes into it, or changes values in its JSON."""
  kind = randomness.choice(["cut", "bytes", "other", "nested", "leaf", "leaf", "leaf"])
  if kind == "cut":
    return text[: randomness.randrange(len(text))].encode()
  if kind == "bytes":
    at = randomness.randrange(len(text))
    return text[:at].encode() + randomness.randbytes(3) + text[at:].encode()
  if kind == "other":
    return json.dumps(randomness.choice(_VALUES)).encode()
  if kind == "nested":
    return b"[" * 100_000
  lines = text.splitlines() if is_lines else [text]
  number = randomness.randrange(len(lines))
  lines[number] = json.dumps(_changed(json.loads(lines[number]), randomness))
  return "\n".join(lines).encode()


def _changed(value, randomness):
  """Replaces a part of a JSON value, or removes it."""
  if not isinstance(value, dict | list) or not value or randomness.random() < 0.15:
    return randomness.choice(_VALUES)
  key = randomness.choice(list(value) if isinstance(value, dict) else range(len(value)))
  if randomness.random() < 0.2:
    del value[key]
  else:
    value[key] = _changed(value[key], randomness)
  return value


@contextlib.contextmanager
def litter(whole, place, randomness):
  """The run with leftovers of killed processes."""
  model_dir = place / "run"
  shutil.copytree(whole, model_dir)
  ended = subprocess.Popen(["true"])
  ended.wait()
  dead = f"{socket.gethostname()}-{ended.pid}-{ended.pid}"
  kinds = randomness.sample(sorted(_LITTER), randomness.randint(1, 4))
  for kind in kinds:
    _LITTER[kind](model_dir, dead, ended.pid, randomness)
  yield model_dir, ", ".join(kinds)
  shutil.rmtree(model_dir)


def _half_export(model_dir, dead, pid, randomness):
  folder = model_dir / "export" / randomness.choice(["best", "final"])
  aside = folder / f".writing-1700000000-{dead}"
  (aside / "variables").mkdir(parents=True)
  (aside / "variables" / "variables.index").write_bytes(randomness.randbytes(100))


def _half_file(model_dir, dead, pid, randomness):
  name = randomness.choice(["evaluations.json", "environment.json", "config.gin", "checkpoint"])
  (model_dir / f"{name}.writing-{dead}").write_bytes(randomness.randbytes(50))


def _lease(model_dir, dead, pid, randomness):
  step, text = randomness.choice([10, 20, 999]), randomness.choice(["", dead])
  (model_dir / f"model.ckpt-{step}.lease-0-{dead}").write_text(text)


def _half_checkpoint(model_dir, dead, pid, randomness):
  aside = model_dir / ".writing-model.ckpt-30"
  aside.mkdir()
  size = randomness.randrange(5000)
  (aside / "model.ckpt-30.data-00000-of-00001").write_bytes(randomness.randbytes(size))
  if randomness.random() < 0.5:
    (aside / "model.ckpt-30.index").write_bytes(randomness.randbytes(randomness.randrange(500)))


def _data_alone(model_dir, dead, pid, randomness):
  (model_dir / "model.ckpt-30.data-00000-of-00001").write_bytes(randomness.randbytes(100))


def _lock(model_dir, dead, pid, randomness):
  (model_dir / "training.lock").write_text(
    json.dumps({"host": socket.gethostname(), "pid": pid, "started": "2026-01-01T00:00:00+00:00"})
  )


def _owed(model_dir, dead, pid, randomness):
  (model_dir / f"model.ckpt-{randomness.choice([20, 30])}.owed-").write_text(f"{pid}\n")


def _half_line(model_dir, dead, pid, randomness):
  with open(model_dir / "metrics.jsonl", "a") as file:
    file.write('{"step": 21, "time": 17')


_LITTER = {
  "half an export": _half_export,
  "half a file": _half_file,
  "a lease": _lease,
  "half a checkpoint": _half_checkpoint,
  "a checkpoint's data": _data_alone,
  "a lock": _lock,
  "an owed evaluation": _owed,
  "half a line": _half_line,
}
_KINDS = {
  "full disk": full_disk,
  "read-only": read_only,
  "wrong JSON": wrong_json,
  "litter": litter,
}

# --------------------------------------------------------------- requirements


def _digest(model_dir, step):
  """Returns one number for all values in a checkpoint, "" without a complete checkpoint."""
  paths = [pathlib.Path(model_dir) / f"model.ckpt-{step}{ending}" for ending in _CHECKPOINT]
  if not all(path.exists() for path in paths):
    return ""
  return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def _state(model_dir):
  """Returns the parts of a run that must not get lost."""
  indices = pathlib.Path(model_dir).glob("model.ckpt-*.index")
  steps = sorted(int(path.stem.rpartition("-")[2]) for path in indices)
  exported = {}
  for folder in pathlib.Path(model_dir).glob("export/*"):
    with contextlib.suppress(errors.FileDamagedError):
      if record := exported_records.read(str(folder)):
        exported[folder.name] = (folder / record["folder"] / "saved_model.pb").exists()
  return {
    "newest": max((step for step in steps if _digest(model_dir, step)), default=None),
    "checkpoints": {step: _digest(model_dir, step) for step in steps},
    "evaluations": _read(model_dir, "evaluations.json"),
    "lines": _read(model_dir, "metrics.jsonl"),
    "exported": exported,
  }


def _read(model_dir, name):
  path = pathlib.Path(model_dir) / name
  return path.read_text(errors="replace") if path.exists() else ""


def _losses(before, after, name_of_damaged):
  """Returns a command's losses as phrases."""
  lost = [
    f"the values of checkpoint {step}"
    for step, digest in before["checkpoints"].items()
    if digest and after["checkpoints"].get(step, digest) != digest
  ]
  if after["newest"] is None or after["newest"] < before["newest"]:
    lost.append(f"checkpoint {before['newest']} (now {after['newest']})")
  if not after["lines"].startswith(before["lines"]):
    lost.append("lines of metrics.jsonl")
  if name_of_damaged != "evaluations.json":
    noted = json.loads(after["evaluations"] or "{}").get("", {})
    if not json.loads(before["evaluations"])[""].keys() <= noted.keys():
      lost.append("evaluations")
  elif after["evaluations"] != before["evaluations"] and before["evaluations"]:
    with contextlib.suppress(ValueError, AttributeError, RecursionError):
      known = json.loads(before["evaluations"]).get("", {})
      if not known.keys() <= json.loads(after["evaluations"]).get("", {}).keys():
        lost.append("evaluations")
  lost += [f"the export {name}" for name, there in after["exported"].items() if not there]
  return lost


def _problems(code, said):
  """Returns the faults in a command's end, as phrases."""
  found = []
  if "Traceback" in said:
    found.append("traceback")
  if code not in (0, 2):
    found.append(f"exit code {code}")
  if code == 2 and not any(line.startswith("error: ") for line in said.splitlines()):
    found.append("no error line")
  return found


def _leftovers(model_dir):
  return [
    str(path.relative_to(model_dir))
    for path in pathlib.Path(model_dir).rglob("*")
    if ".writing-" in path.name or ".lease-" in path.name or ".owed-" in path.name
  ]


def check(kind, seed, whole, expected, folder):
  """Damages a run, runs a command, undoes the damage, resumes; returns (damage, problems)."""
  randomness = random.Random(f"{kind} {seed}")
  mode = randomness.choice(_MODES)
  place = folder / "place"
  place.mkdir()
  mended = folder / "mended"
  with _KINDS[kind](whole, place, randomness) as (model_dir, what):
    damaged = what.partition(":")[0] if kind == "wrong JSON" else ""
    before = _state(model_dir)
    code, said = run(model_dir, mode, 40)
    problems = _problems(code, said)
    problems += [f"lost: {one}" for one in _losses(before, _state(model_dir), damaged)]
    shutil.copytree(model_dir, mended)
  shutil.rmtree(place)
  # The message, of the first command or of the training, says to remove the damaged file.
  if code == 2 and damaged:
    (mended / damaged).unlink()
  again, said_again = run(mended, "train_and_evaluate", 40)
  problems += _problems(again, said_again)
  if again == 2 and damaged and f"{damaged} is damaged" in said_again:
    (mended / damaged).unlink()
    again, said_again = run(mended, "train_and_evaluate", 40)
  if again != 0:
    problems += [f"the training does not go on ({again})"]
  elif _digest(mended, 40) != expected:
    problems.append("other variables at the end")
  problems += [f"left: {name}" for name in _leftovers(mended)] if again == 0 else []
  shutil.rmtree(mended)
  if problems:
    print(said[-3000:], "\n----- again -----\n", said_again[-3000:])
  return f"{mode}, {what}" if what else mode, code, problems


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--count", type=int, default=200)
  parser.add_argument("--seed", type=int, default=0)
  parser.add_argument("--first", type=int, default=0, help="the number of the first case")
  parser.add_argument("--kind", choices=list(_KINDS), help="this kind alone")
  arguments = parser.parse_args()
  codes, bad = collections.Counter(), 0
  with tempfile.TemporaryDirectory() as temporary:
    folder = pathlib.Path(temporary)
    for name, steps in (("whole", 20), ("alone", 20), ("alone", 40)):
      code, said = run(folder / name, "train_and_evaluate", steps)
      assert code == 0, said
    expected = _digest(folder / "alone", 40)
    assert expected
    kinds = [arguments.kind] if arguments.kind else list(_KINDS)
    for number in range(arguments.first, arguments.first + arguments.count):
      kind, seed = kinds[number % len(kinds)], arguments.seed * 1_000_000 + number
      what, code, problems = check(kind, seed, folder / "whole", expected, folder)
      codes[kind, code] += 1
      bad += bool(problems)
      shown = "; ".join(problems) or "nothing"
      print(f"{number:>4}  {kind:<11} {code}  lost or wrong: {shown:<8} {what}", flush=True)
  print(f"{arguments.count} cases: {dict(codes)}; {bad} with something lost or wrong.")
  raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
  main()
