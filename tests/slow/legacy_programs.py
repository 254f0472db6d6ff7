"""Runs published Estimator programs with changed imports, and compares them with TensorFlow 2.15.

The programs run on one core and on eight.

Give the folders of the checkouts; nothing writes into them. The command copies them, changes the
copies' imports with `python -m trainer.compat --write`, and makes small data. Each program trains
for 20 steps and evaluates, in its own processes:

    python -m tests.slow.legacy_programs --electra=PATH --albert=PATH --xlnet=PATH \
        --efficientnet=PATH/models/official/efficientnet --tf215=tf215/bin/python

--tf215 is a Python with tensorflow-cpu==2.15.*, tf_slim, tensorflow-hub<0.16, sentencepiece, scipy
and scikit-learn; there the program runs as published, and all sides begin with its checkpoint of
step 0. 2.15 also evaluates the last checkpoint from here. Without the flag, the command compares
only one core with eight. At the end the command exports the trained model: a process with
TensorFlow alone serves the SavedModel the examples of Estimator.predict, and the command compares
the outputs.

Random masks, dropout without a setting and the order of the data are fixed, see legacy_driver.py:
otherwise no two sides would see the same numbers.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys

from absl import app, flags

from tests.slow import legacy_cases

_FLAGS = {
  name: flags.DEFINE_string(name, "", f"The folder of a checkout of {name}; empty: left out.")
  for name in dict.fromkeys(case.flag for case in legacy_cases.CASES.values())
}
_TF215 = flags.DEFINE_string("tf215", "", "A Python that has TensorFlow 2.15; empty: left out.")
_OUT = flags.DEFINE_string("out", "/tmp/octet_legacy_programs", "Where everything is written.")
_CORES = flags.DEFINE_integer("cores", 8, "How many cores one is compared with.")
_ONLY = flags.DEFINE_string("only", "", "A part of a program's name; empty: all.")

_TOLERANCE = 1e-4
_SERVED_TOLERANCE = 1e-5
_DRIVER = pathlib.Path(__file__).with_name("legacy_driver.py")
_SERVED = pathlib.Path(__file__).with_name("legacy_served.py")


@dataclasses.dataclass(frozen=True)
class Side:
  """A way to run a program.

  Attributes:
    name: "2.15" or "octet".
    python: the interpreter.
    device: OCTET_DEVICE.
  """

  name: str
  python: str
  device: str = "cpu"

  @property
  def title(self) -> str:
    return self.name if self.name == "2.15" else f"octet {self.device}"


class Program:
  """A case, with its copies and data.

  Args:
    name: the case's.
    checkout: where the program is.
    out: a folder for everything.
  """

  def __init__(self, name: str, checkout: pathlib.Path, out: pathlib.Path):
    self.case = legacy_cases.CASES[name]
    self.name = name
    self._out = out / name.replace(", ", "_").lower()
    shutil.rmtree(self._out, ignore_errors=True)
    self._data = self._out / "data"
    self._data.mkdir(parents=True)
    self.case.make_data(self._data)
    # As deep as the checkout and with its name, because some programs import themselves by it.
    self._copies = {side: self._out / side / checkout.name for side in ("2.15", "octet")}
    for copy in self._copies.values():
      shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(".git"))
    change = [sys.executable, "-m", "trainer.compat", "--write", str(self._copies["octet"])]
    with open(self._out / "changes.txt", "w") as told:
      subprocess.run(change, stdout=told, stderr=subprocess.STDOUT, check=False)

  def model_dir(self, label: str) -> pathlib.Path:
    """Returns the folder of a run's checkpoints."""
    return self.case.model_dir(self._out / "models" / label)

  def run(self, side: Side, phase: str, label: str, checkpoint: str | None = None) -> list[dict]:
    """Returns the program's records, see legacy_driver.py."""
    copy = self._copies[side.name]
    record = self._out / f"{label}_{phase}.jsonl"
    record.unlink(missing_ok=True)
    given = self.case.arguments(self._data, self._out / "models" / label, phase, checkpoint)
    paths = [str(copy / self.case.root)]
    if side.name == "octet":
      paths += [os.getcwd(), *os.environ.get("PYTHONPATH", "").split(":")]
    environment = dict(
      os.environ,
      OCTET_DEVICE=side.device,
      PYTHONPATH=":".join(paths),
      TF_CPP_MIN_LOG_LEVEL="2",
      CUDA_VISIBLE_DEVICES="",
    )
    (self._out / "models" / label).mkdir(parents=True, exist_ok=True)
    kind = "export" if phase == "export" else side.name
    command = [side.python, str(_DRIVER), kind, str(record), str(copy / self.case.program)]
    log = record.with_suffix(".log")
    with open(log, "w") as told:
      ended = subprocess.run(
        [*command, *given], cwd=copy, env=environment, stdout=told, stderr=subprocess.STDOUT
      )
    if ended.returncode:
      raise SystemExit(f"{self.name}, {side.title}, {phase}: see {log}.")
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []

  def served(self, side: Side, label: str) -> dict:
    """Exports the trained model and opens it elsewhere; returns legacy_served.py's report."""
    noted = self.run(side, "export", label)
    saved_model = next(one["saved_model"] for one in reversed(noted) if "saved_model" in one)
    asked = self._out / f"{label}_export.jsonl.npz"
    command = [side.python, "-P", str(_SERVED), saved_model, str(asked)]
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run(command, cwd=self._out, env=bare, stdout=subprocess.PIPE, check=True)
    return json.loads(told.stdout)

  def begin_with(self, checkpoint: str | None, label: str) -> None:
    """Puts a checkpoint into the folder of a run."""
    if checkpoint is None or not self.case.begins_in_model_dir:
      return
    folder = self.model_dir(label)
    folder.mkdir(parents=True, exist_ok=True)
    name = pathlib.Path(checkpoint).name
    for path in pathlib.Path(checkpoint).parent.glob(f"{name}.*"):
      shutil.copy(path, folder)
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{name}"\n')


def losses(noted: list[dict]) -> list[float]:
  """Returns the losses of the steps, in order."""
  return [one["loss"] for one in sorted((n for n in noted if "loss" in n), key=lambda n: n["step"])]


def evaluation(noted: list[dict]) -> dict[str, float]:
  """Returns the last evaluation's result."""
  return next((one["evaluation"] for one in reversed(noted) if "evaluation" in one), {})


def largest_difference(found: list[float], expected: list[float], factor: float = 1) -> float:
  """Returns the largest relative difference of losses; their numbers must be equal."""
  return max(abs(one * factor / other - 1) for one, other in zip(found, expected, strict=True))


def compare(program: Program) -> list[str]:
  """Runs a program on all sides; returns the table's rows."""
  one, many = (Side("octet", sys.executable, device) for device in ("cpu", f"cpu:{_CORES.value}"))
  there = Side("2.15", _TF215.value) if _TF215.value else None
  rows, first, expected = [], None, None
  if there:
    expected = losses(program.run(there, "train", "2.15"))
    first = f"{program.model_dir('2.15')}/model.ckpt-0"
    if not program.case.begins_in_model_dir:  # train again, with the first run's initial values
      shutil.copytree(program.model_dir("2.15"), program.model_dir("begin"))
      first = f"{program.model_dir('begin')}/model.ckpt-0"
      expected = losses(program.run(there, "train", "2.15", first))
  found = {}
  for side in (one, many):
    label = side.device.replace(":", "_")
    program.begin_with(first, label)
    found[side] = losses(program.run(side, "train", label, first))
  factor = _CORES.value if program.case.losses_are_sums else 1
  across = largest_difference(found[many], found[one], factor)
  rows.append(f"{program.name}: {len(found[one])} steps, {many.device} and cpu: {across:.1e}")
  if expected is not None:
    beside = largest_difference(found[one], expected)
    rows.append(f"  first loss {found[one][0]:.6f}, 2.15 {expected[0]:.6f}")
    rows.append(f"  largest difference of {len(expected)} losses to 2.15: {beside:.1e}")
  results = {}
  last = legacy_cases.newest(program.model_dir("cpu"))
  if program.case.begins_in_model_dir:  # the model from one core, evaluated on each side
    for side in filter(None, (one, many, there)):
      label = f"{side.title.replace(' ', '_').replace(':', '_')}_evaluates"
      program.begin_with(last, label)
      results[side] = evaluation(program.run(side, "evaluate", label))
  for name in results.get(one, ()):
    told = ", ".join(f"{side.title} {result[name]:.6g}" for side, result in results.items()
                     if name in result)  # fmt: skip
    rows.append(f"  {name}: {told}")
  if program.case.predicts:
    rows += served(program, one)
  if across > _TOLERANCE:
    rows.append(f"  MORE THAN {_TOLERANCE}")
  return rows


def served(program: Program, side: Side) -> list[str]:
  """Returns rows that compare the SavedModel's outputs with the predictions."""
  told = program.served(side, side.device)
  rows = [f"  served {told['examples']} examples, largest differences to predict:"]
  rows += [f"    {name}: {difference:.1e}" for name, difference in told["differences"].items()]
  if not max(told["differences"].values()) <= _SERVED_TOLERANCE:
    rows.append(f"  MORE THAN {_SERVED_TOLERANCE}")
  return rows


def main(_: list[str]) -> None:
  tables = []
  for name, case in legacy_cases.CASES.items():
    checkout = _FLAGS[case.flag].value
    if checkout and _ONLY.value.lower() in name.lower():
      out = pathlib.Path(_OUT.value).absolute()
      program = Program(name, pathlib.Path(checkout).absolute(), out)
      tables.append("\n".join(compare(program)))
      print(tables[-1], flush=True)
  if not tables:
    raise app.UsageError("Give the folder of one checkout at least.")
  if any("MORE THAN" in table for table in tables):
    sys.exit(1)


if __name__ == "__main__":
  app.run(main)
