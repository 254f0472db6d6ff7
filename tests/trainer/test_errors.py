"""What an error says in one line."""

import pytest
import tensorflow as tf

from trainer import errors


@pytest.mark.parametrize(
  "error, line",
  [
    (
      tf.errors.DataLossError(None, None, "{{node save/Restore}} Checksum differs\nmore"),
      "Checksum differs",
    ),
    (ValueError("It is full. [Op:WriteFile]"), "It is full"),
    (ValueError(), "ValueError"),
  ],
)
def test_the_first_line_comes_without_the_operation(error, line):
  assert errors.first_line(error) == line
