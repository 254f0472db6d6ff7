"""Measures one case, or looks for devices, in a process of its own.

`runner` starts it by `processes.ask`. A process of its own gives each case memory, thread pools and
devices that nothing else has touched, and dies alone.
"""

import traceback
from typing import Any

from trainer import errors
from trainer.cli import command, processes
from trainer.compare import results


def answer(request: dict[str, Any]) -> dict[str, Any]:
  """Returns the devices that there are, or fields of a results.Row."""
  import tensorflow as tf

  from trainer.compare import machine, measure

  if request["mode"] == "devices":
    return machine.devices()
  try:
    return measure.measure(request)
  # Every failure is a row of the table; the other cases go on.
  except Exception as error:
    traceback.print_exc()  # for the log
    memory = any(
      isinstance(each, tf.errors.ResourceExhaustedError | MemoryError)
      for each in errors.causes(error)
    )
    known = isinstance(error, errors.OctetError)
    text = command.message(error) if known else f"{type(error).__name__}: {error}"
    return {
      "status": results.OUT_OF_MEMORY if memory else results.FAILED,
      "problem": " ".join(text.split())[:500],
      "machine": machine.describe(),
    }


if __name__ == "__main__":
  processes.answer(answer)
