"""tf.contrib.slim.model_analyzer: the sizes of a network's variables and operations."""

from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def tensor_description(var: Any) -> str:
  """Returns the dtype and shape of a tensor or variable: `(float32 3x4)`."""
  return f"({var.dtype.name} {'x'.join(map(str, var.shape))})"


def analyze_ops(graph: tf.Graph, print_info: bool = False) -> int:
  """Returns the number of entries in all tensors of a graph whose sizes it knows.

  Args:
    print_info: whether to print a line for each operation.
  """
  _print_title("Operations: name -> (type shapes) [size]", print_info)
  total = 0
  for operation in graph.get_operations():
    size = sum(output.shape.num_elements() or 0 for output in operation.outputs)
    if print_info:
      shown = ", ".join(tensor_description(one) for one in operation.outputs if one.shape)
      print(operation.name, "\t->", shown, f"[{size}]")
    total += size
  return total


def analyze_vars(variables: Iterable[Any], print_info: bool = False) -> tuple[int, int]:
  """Returns (the number of entries in all variables, their bytes).

  Args:
    print_info: whether to print a line for each variable, and the totals.
  """
  _print_title("Variables: name (type shape) [size]", print_info)
  entries, total = 0, 0
  for variable in variables:
    size = variable.shape.num_elements() or 0
    in_bytes = size * variable.dtype.size
    if print_info:
      print(variable.name, tensor_description(variable), f"[{size}, bytes: {in_bytes}]")
    entries, total = entries + size, total + in_bytes
  if print_info:
    print(f"Total size of variables: {entries}\nTotal bytes of variables: {total}")
  return entries, total


def _print_title(title: str, is_wanted: bool) -> None:
  if is_wanted:
    print("---------", title, "---------", sep="\n")
