"""jax is required in the versions that were tried."""

import importlib.metadata

import pytest

from tests import declared
from trainer import errors
from trainer.pjrt import installed


def test_the_versions_are_those_of_setup():
  for extra in ("pjrt", "preflight", "tpu"):
    found = declared.requirements(extra)
    for name in ("jax", "jaxlib"):
      ends = {each.operator: each.version for each in found[name].specifier}
      assert ends == {">=": installed.OLDEST, "<=": installed.NEWEST}


@pytest.mark.parametrize("version", [installed.OLDEST, "0.9.0", installed.NEWEST])
def test_a_version_that_was_tried(version):
  assert installed.require(version_of=lambda name: version) == {"jax": version, "jaxlib": version}


@pytest.mark.parametrize("version", ["0.8.0", "0.11.3", "0.12.0"])
def test_another_version_is_told(version):
  with pytest.raises(errors.VersionError) as caught:
    installed.require(version_of=lambda name: version)
  message = str(caught.value)
  assert message.startswith(f"jax {version} does not fit: Octet runs programs with 0.8.1 to 0.11.2")
  assert "[pjrt]" in message


def test_no_jax_is_told():
  def absent(name):
    raise importlib.metadata.PackageNotFoundError(name)

  with pytest.raises(errors.VersionError) as caught:
    installed.require(version_of=absent)
  message = str(caught.value)
  assert message.startswith("jax is missing, and programs for XLA devices need it: pip ")
  assert "[pjrt]" in message
