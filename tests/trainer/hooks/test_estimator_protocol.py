"""The Estimator has what hooks may ask of it."""

import inspect

import pytest

import trainer
from tests.trainer import programs
from trainer.hooks import estimator_protocol

MEMBERS = {
  name: value
  for name, value in vars(estimator_protocol.Estimator).items()
  if not name.startswith("_")
}
METHODS = [name for name, value in MEMBERS.items() if not isinstance(value, property)]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_the_arguments_of_the_protocol(name):
  wanted = inspect.signature(MEMBERS[name]).parameters
  found = inspect.signature(getattr(trainer.Estimator, name)).parameters
  assert list(found)[: len(wanted)] == list(wanted)
  for argument, parameter in wanted.items():
    assert (found[argument].kind, found[argument].default) == (parameter.kind, parameter.default)
  # The Estimator may take more, and needs nothing more.
  assert all(
    found[more].default is not inspect.Parameter.empty for more in set(found) - set(wanted)
  )


def test_an_estimator_has_the_attributes_of_the_protocol(tmp_path):
  estimator = programs.estimator(tmp_path, programs.line)
  assert [name for name in MEMBERS if not hasattr(estimator, name)] == []
  assert estimator.model_dir == str(tmp_path)
  assert estimator.device.is_chief
