"""Saves training programs, each with an input and a CPU's results, for machines without TensorFlow.

    python -m tests.slow.saved_programs --out=out/programs
    for program in out/programs/*; do python -m trainer.pjrt "$program" --platform=gpu; done

The first command trains each experiment for one program, on one XLA device of the CPU. The second
runs the same programs on a GPU or a TPU, and compares all variables and results with the CPU's.
With --full_precision it multiplies with all bits of float32, as a CPU does.
"""

import argparse
import multiprocessing
import pathlib
import runpy
import sys
import tempfile

from tests import test_gin_configs

_SMALL_IMAGES = test_gin_configs.made_up((32, 32, 3), 10)
_CNN = [*_SMALL_IMAGES, "run.train_batch_size = 8", "cifar10_cnn.model_fn.units = 128"]

# Sizes that a CPU computes in seconds, and a saved program of some megabytes has.
# name → (gin file, bindings, flags, steps in the program)
_CASES = {
  "digits": ("digits.gin", [], [], 100),
  "digits_without_dropout": ("digits.gin", ["digits_mlp.model_fn.dropout = 0.0"], [], 100),
  "cifar10_cnn": ("cifar10_cnn.gin", _CNN, [], 4),
  "cifar10_cnn_bfloat16": ("cifar10_cnn.gin", _CNN, ["--precision=bfloat16"], 4),
  "digit_segments": ("digit_segments.gin", ["run.train_batch_size = 8"], [], 4),
  "lstm": ("paradnn_lstm.gin", ["paradnn.model_fn.units = 128"], [], 4),
  "transformer": ("transformer_classifier.gin", ["run.train_batch_size = 16"], [], 4),
}


def save(name, out):
  """Trains an experiment for one program, and saves the program in the folder out/name."""
  # Imported here: the parent process, which only starts children, needs neither jax nor TensorFlow.
  from trainer.pjrt import device_values, execution, program, saved_program

  file, bindings, more, steps = _CASES[name]
  run = execution.Executable.run

  def run_and_save(executable, values, inputs, scalars):
    # The first program of a training has one step.
    if scalars[program.COUNT] < 2 or (out / name).exists():
      return run(executable, values, inputs, scalars)
    before = values.read(each.name for each in executable.program.variables)
    results = run(executable, values, inputs, scalars)
    saved_program.write(
      out / name,
      executable.program,
      values=before | dict(scalars),
      inputs={each: device_values.read_each(array) for each, array in inputs.items()},
      expected=values.read(before) | results.read(),
    )
    return results

  execution.Executable.run = run_and_save
  with tempfile.TemporaryDirectory() as folder:
    if file == "transformer_classifier.gin":
      bindings = [*bindings, *_texts(pathlib.Path(folder))]
    bindings = [
      *bindings,
      f"run.train_steps = {2 * steps}",
      f"TPUConfig.steps_per_program = {steps}",
      f"RunConfig.log_step_count_steps = {steps}",
    ]
    sys.argv = [
      "trainer.main",
      f"--gin_file=gin_configs/{file}",
      f"--model_dir={folder}/run",
      "--mode=train",
      "--device=xla:1",
      "--compiled=",
      *more,
      *(f"--gin_bindings={binding}" for binding in bindings),
    ]
    runpy.run_module("trainer.main", run_name="__main__")


def _texts(folder):
  """Writes texts and a vocabulary; returns the bindings that name them."""
  words = ["good", "bad", "film", "book", "the", "a", "was", "not"]
  lines = [f"{words[number % 8]} {words[number % 3]}\t{number % 2}" for number in range(64)]
  (folder / "texts.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
  (folder / "words.txt").write_text("\n".join(words) + "\n")
  return [
    *(f'{name} = "{folder}/texts.tsv"' for name in ("TRAIN_FILE", "TEST_FILE")),
    f'VOCABULARY_FILE = "{folder}/words.txt"',
  ]


def main():
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--out", default="out/programs", help="the folder of the programs")
  parser.add_argument("--cases", default=",".join(_CASES), help="names, with commas between them")
  arguments = parser.parse_args()
  out = pathlib.Path(arguments.out).absolute()
  for name in arguments.cases.split(","):
    child = multiprocessing.get_context("spawn").Process(target=save, args=(name, out))
    child.start()
    child.join()
    print(f"{'saved' if (out / name).exists() else 'FAILED'}  {name}", flush=True)
  if not all((out / name).exists() for name in arguments.cases.split(",")):
    sys.exit(1)


if __name__ == "__main__":
  main()
