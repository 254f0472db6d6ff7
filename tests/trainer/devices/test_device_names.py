"""The kind of a device and the number in its name."""

import pytest

from trainer.devices import device_names


@pytest.mark.parametrize(
  ("name", "expected"),
  [
    ("auto", ("auto", None)),
    ("cpu", ("cpu", None)),
    ("cpu:8", ("cpu", 8)),
    ("xla:16", ("xla", 16)),
    ("xla:gpu", ("xla:gpu", None)),
    ("xla:gpu:2", ("xla:gpu", 2)),
  ],
)
def test_a_name_has_a_kind_and_perhaps_a_number(name, expected):
  assert device_names.split(name) == expected
