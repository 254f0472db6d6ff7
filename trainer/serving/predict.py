"""The story of a prediction: export → examples → batches → a file."""

import math
import time
from collections.abc import Callable, Sequence

from absl import logging
from rich import console as rich_console
from rich import progress

from trainer import errors
from trainer.serving import examples as examples_lib
from trainer.serving import features, predictor, raw_values, results

_SHOWN = 10  # errors in the log


def predict(
  export: str | None,
  inputs: Sequence[str],
  output: str = "-",
  *,
  batch_size: int = 128,
  engine: str = "auto",
  precision: str = "float32",
  keep_going: bool = False,
  clock: Callable = time.monotonic,
) -> int:
  """Predicts for all examples of files, in order.

  Args:
    export: see `predictor.newest_export`.
    inputs: see `examples.read`.
    output: see `results`.
    batch_size: examples of a call.
    engine: see `outputs.engines`.
    precision: see `outputs.engines`.
    keep_going: whether to return 0 although examples fail.
    clock: returns the time in seconds.

  Returns:
    The exit status: 1 if an example fails and keep_going is false, otherwise 0.

  Raises:
    errors.OctetError: a setting cannot work, or there is no input. The function has written no
    file.
  """
  if not export:
    raise errors.SettingError(
      "No --export. Try: python -m trainer.predict --export=out/digits/export --input='*.png'"
    )
  if not inputs:
    raise errors.SettingError(
      "No --input: give images, a folder, TFRecords, .csv or .jsonl files, or - for standard input."
    )
  model = predictor.Predictor(export, engine, batch_sizes=(batch_size,), precision=precision).loaded
  results.check_path(output, model)  # Before the predictions, which may take hours.
  examples, total = examples_lib.read(inputs, model, output)

  unknown = raw_values.Unknown(model.raw)
  start, done, failed = clock(), 0, 0
  batches = features.prepare_batches(unknown.watch(examples), model, batch_size)
  with results.writer(output, model) as add:
    for batch in _shown(batches, total and math.ceil(total / batch_size)):
      outputs = model.engine.predict_batch(batch.features) if batch.features else {}
      entries = results.entries(batch.names, batch.errors, outputs, model.class_names)
      add(list(entries))
      for place, error in batch.errors.items():
        failed += 1
        if failed <= _SHOWN:
          logging.error("%s: %s", batch.names[place], error)
      done += len(batch.names)
    if not done:
      raise errors.InputError(f"There is no example in {', '.join(inputs)} (--input).")
  seconds = max(clock() - start, 1e-9)
  logging.info(
    "Predicted %d examples in %.1f s, %.0f a second%s",
    done - failed,
    seconds,
    (done - failed) / seconds,
    "" if output == "-" else f", to {output}",
  )
  if unknown.counts:
    shares = ", ".join(f"{name} {count / done:.1%}" for name, count in unknown.counts.items())
    logging.warning("Values that the training set does not have: %s.", shares)
  if failed:
    logging.log(
      logging.WARNING if keep_going else logging.ERROR,
      "%d of %d examples failed; each has an entry with its error.%s",
      failed,
      done,
      "" if keep_going else " --keep_going accepts that.",
    )
  return 1 if failed and not keep_going else 0


def _shown(batches, total):
  """Yields batches, with a bar on a terminal."""
  console = rich_console.Console(stderr=True)
  return progress.track(
    batches, "predict", total, console=console, transient=True, disable=not console.is_terminal
  )
