"""Measures one case, or looks for devices, in a process of its own.

`runner` starts it by `processes.ask`. In a process of its own, each case has memory, thread pools
and devices that no other case has touched, and dies alone.
"""

import traceback
from typing import Any

from trainer import errors
from trainer.cli import command, processes
from trainer.compare import results


def answer(request: dict[str, Any]) -> dict[str, Any]:
  """Returns the devices of the machine, or fields of a results.Row."""
  from trainer.compare import machine, measure

  if request["mode"] == "devices":
    return machine.devices()
  try:
    return measure.measure(request)
  # Every failure is a row of the table; the other cases go on.
  except Exception as error:
    return failure(error) | {"machine": machine.describe()}


def failure(error: Exception) -> dict[str, Any]:
  """Returns the status and the problem of a results.Row for an error, and prints its traceback."""
  import tensorflow as tf

  traceback.print_exception(error)  # for the log
  memory = any(
    isinstance(each, tf.errors.ResourceExhaustedError | MemoryError)
    for each in errors.causes(error)
  )
  known = isinstance(error, errors.OctetError)
  text = command.message(error) if known else f"{type(error).__name__}: {error}"
  return {
    "status": results.OUT_OF_MEMORY if memory else results.FAILED,
    "problem": " ".join(text.split())[:500],
  }


if __name__ == "__main__":
  processes.answer(answer)
