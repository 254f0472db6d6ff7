"""Writes predictions as JSON lines, and shows some in a table and on a contact sheet.

    <model_dir>/predictions-<step>.jsonl      {"class": 3, "class_name": "cat", "probabilities":
                                              [0.01, ...]}
    <model_dir>/predictions-<step>.png        see `trainer.outputs.contact_sheet`

The JSON lines are in the order of the examples. A classifier's predictions have a "class", an
integer for each example, and perhaps "probabilities" of all classes. The table and the sheet use
the class names. Their examples come from the whole set, or are the worst.
"""

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from trainer import errors
from trainer.io import files
from trainer.outputs import contact_sheet, samples

SHOWN = ("spread", "worst")  # Values of run.contact_sheet.

_ROWS = 10  # Examples in the table.
_NUMBERS = 3  # Most values of an array in a cell of the table.


def save(
  path: str,
  pairs: Iterable[tuple[Any, tuple]],
  class_names: Sequence[str] | None = None,
  images: int = 24,
  shown: str = "spread",
  seed: int = 1,
) -> int:
  """Writes all predictions; shows some in a table and, for images, on a contact sheet.

  Args:
    path: path of the files, without their endings.
    pairs: (prediction, example) pairs of nests of numpy arrays. An example is (features,) or
      (features, labels).
    class_names: the names of the classes in the order of their numbers, or None.
    images: number of images on the contact sheet; 0 for no contact sheet.
    shown: "spread" to show examples of the whole set, "worst" to show wrong ones first, and among
      them the least probable labels.
    seed: of the choice of examples.

  Returns:
    The number of predictions.

  Raises:
    SettingError: class_names or shown do not fit the predictions. It wrote no file.
    OutputError: it cannot write a file.
  """
  # All predictions together may not fit into memory: they pass through one by one.
  most = max(_ROWS, images)
  sample = samples.worst(most, _badness) if shown == "worst" else samples.spread(most, seed)
  pairs = sample.watch(_checked(pairs, class_names, shown))
  count = write(f"{path}.jsonl", (_with_names(prediction, class_names) for prediction, _ in pairs))
  if count:
    rows = sample.fewer(_ROWS)
    _print_table(rows, class_names, sample.title.format(shown=len(rows), all=f"{count:,}"))
  logging.info("Wrote %d predictions to %s.jsonl", count, path)
  if count and images:
    _write_sheet(f"{path}.png", [pair for _, pair in sample.fewer(images)], class_names)
  return count


def write(path: str, predictions: Iterable[Any]) -> int:
  """Writes predictions as JSON lines; returns their number.

  Args:
    path: the file.
    predictions: a numpy array, or a nest of arrays, for each example.

  Raises:
    OutputError: it cannot write the file.
  """
  count = 0
  try:
    with files.write_atomically(path) as file:
      for prediction in predictions:
        value = tf.nest.map_structure(to_json, prediction)
        file.write(
          json.dumps(value if isinstance(value, dict) else {"output": value}, ensure_ascii=False)
          + "\n"
        )
        count += 1
  except (tf.errors.OpError, OSError) as error:
    raise errors.OutputError(
      f"Cannot write the predictions to {path} (--model_dir): {error}"
    ) from error
  return count


def _checked(pairs, class_names, shown):
  """Yields the pairs; checks the first one before it hands it on."""
  pairs = iter(pairs)
  for prediction, example in itertools.islice(pairs, 1):
    if class_names is not None:
      _check_names(prediction, class_names)
    if shown == "worst" and not (_is_classified(prediction) and _label(example) is not None):
      raise errors.SettingError(
        'run.contact_sheet = "worst" needs predictions of a "class" and an integer label for each '
        'example: take it out, or set it to "spread".'
      )
    yield prediction, example
  yield from pairs


def _badness(pair):
  """How bad a prediction is: wrong ones before right ones, then by the probability of the label."""
  prediction, example = pair
  label = _label(example)
  is_wrong = float(prediction["class"] != label)
  shares = prediction.get("probabilities", ())
  return is_wrong + (1 - float(shares[label]) if 0 <= label < len(shares) else 0)


def _check_names(prediction, class_names):
  # Several labels have a "present", and names in the model card and in `classify`.
  if (
    not isinstance(prediction, dict)
    or np.asarray(prediction.get("class", prediction.get("present", ""))).dtype.kind not in "iu"
  ):
    raise errors.SettingError(
      'run.class_names needs a predicted "class", an integer, or "present", and the model_fn '
      "predicts neither: take the names out or predict one."
    )
  count = np.shape(prediction.get("probabilities", class_names))[-1]
  if count != len(class_names):
    raise errors.SettingError(
      f"run.class_names has {len(class_names)} names, and the model_fn predicts the probabilities "
      f"of {count} classes."
    )


def _name(number, class_names):
  if class_names is None:
    return str(number)
  if not 0 <= number < len(class_names):
    raise errors.SettingError(
      f"A prediction or label is the class {number}, and run.class_names has {len(class_names)} "
      "names."
    )
  return class_names[number]


def _with_names(prediction, class_names):
  """Adds "class_name" after "class"."""
  if class_names is None:
    return prediction
  named = {}
  for key, value in prediction.items():
    named[key] = value
    if key == "class":
      numbers = np.asarray(value)
      named["class_name"] = np.array(
        [_name(number, class_names) for number in numbers.ravel()], object
      ).reshape(numbers.shape)
  return named


def _is_classified(prediction):
  return (
    isinstance(prediction, dict)
    and "class" in prediction
    and np.ndim(prediction["class"]) == 0
    and (np.ndim(prediction.get("probabilities", [0])) == 1)
  )


def _label(example):
  """Returns the label of an example if it is a single integer, otherwise None."""
  label = (
    np.asarray(example[1])
    if len(example) == 2 and not isinstance(example[1], dict | list | tuple)
    else None
  )
  return int(label) if label is not None and label.ndim == 0 and label.dtype.kind in "iu" else None


def percent(share: float) -> str:
  """Returns a share as a person reads it: "97.3 %"."""
  return f"{100 * float(share):.1f} %"


def _print_table(rows, class_names, title):
  """Prints a table of (number in the set, (prediction, example)) rows."""
  from rich import console, table

  is_classified = _is_classified(rows[0][1][0])
  cells_of = _cells_of_class if is_classified else _cells_of_values
  cells = [{"": str(number), **cells_of(*pair, class_names)} for number, pair in rows]
  shown = table.Table()
  for name in cells[0]:
    is_number = is_classified and name in ("", "probability")
    shown.add_column(name, justify="right" if is_number else "left")
  for row in cells:
    shown.add_row(*row.values())
  # rich would wrap a title of the table itself at the table's width.
  console.Console().print(f"{title}:", shown, sep="\n", highlight=False)


def _cells_of_class(prediction, example, class_names):
  """Returns column → text: class, probability, second likeliest class, label.

  The label is green if the prediction is right, red if it is wrong.
  """
  from rich import text

  predicted = int(prediction["class"])
  cells = {"predicted": text.Text(_name(predicted, class_names))}
  if "probabilities" in prediction:
    shares = np.asarray(prediction["probabilities"])
    others = [other for other in np.argsort(-shares) if other != predicted]
    second = [f"{_name(other, class_names)} {percent(shares[other])}" for other in others[:1]]
    cells["probability"] = text.Text(percent(shares[predicted]))
    cells["next"] = text.Text("".join(second))
  label = _label(example)
  if label is not None:
    colour = "green" if label == predicted else "red"
    cells["label"] = text.Text(_name(label, class_names), colour)
  return cells


def _cells_of_values(prediction, example, class_names):
  """Returns column → text: each prediction, each label."""
  from rich import text

  del class_names
  labels = _named(example[1], "") if len(example) == 2 else {}
  named = _named(prediction, "output") | {
    f"label {name}".strip(): value for name, value in labels.items()
  }
  return {name: text.Text(_cell(value)) for name, value in named.items()}


def _named(values, name):
  return values if isinstance(values, dict) else {name: values}


def _cell(value):
  """Formats a scalar in full, a vector by its first values, anything else by its shape."""
  if np.ndim(value) > 1:
    return f"{np.asarray(value).dtype.name}{list(np.shape(value))}"
  shown = tf.nest.map_structure(to_json, value)
  if isinstance(shown, list):
    return f"[{', '.join(map(_cell, shown[:_NUMBERS]))}{', …' if len(shown) > _NUMBERS else ''}]"
  return f"{shown:.4g}" if isinstance(shown, float) else str(shown)


def _write_sheet(path, pairs, class_names):
  images = [contact_sheet.image_of(example[0]) for _, example in pairs]
  if images[0] is None or not _is_classified(pairs[0][0]):
    logging.info(
      'No contact sheet: it needs a "class" for each example and an image among the features, '
      "[height, width, 1 or 3] for an example."
    )
    return
  if contact_sheet.write(
    path,
    images,
    [_caption(prediction, _label(example), class_names) for prediction, example in pairs],
  ):
    logging.info("Drew %d of them to %s", len(images), path)


def _caption(prediction, label, class_names):
  predicted = int(prediction["class"])
  name = _name(predicted, class_names)
  if "probabilities" in prediction:
    name += f" {percent(prediction['probabilities'][predicted])}"
  if label is None:
    return contact_sheet.Caption([name])
  right = label == predicted
  return contact_sheet.Caption(
    [name] if right else [name, f"is {_name(label, class_names)}"], right
  )


def to_json(array: Any) -> Any:
  """Converts an array for JSON.

  Args:
    array: a numpy array, or a value for np.asarray.

  Returns:
    A number, a string, or nested lists of numbers or strings. NaN and infinities become None.
  """
  array = np.asarray(array)
  # numpy reports bfloat16 as kind "V".
  convert = {"S": _text, "O": _text, "f": _number, "V": _number}.get(array.dtype.kind)
  if convert is None:
    return array.tolist()
  values = array.astype(np.float64) if convert is _number else array
  return (
    np.array([convert(value) for value in values.ravel()], object).reshape(array.shape).tolist()
  )


def _text(value):
  return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _number(value):
  """Rounds to seven digits, the precision of float32; None for NaN and infinities."""
  return float(f"{value:.7g}") if np.isfinite(value) else None
