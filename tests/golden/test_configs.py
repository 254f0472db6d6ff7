"""config.gin and operative_config.gin of each gin file that an earlier version shipped.

Their selectors, parameters and the modules that they import are names that people have in their
own files: each stays what it is.
"""

import pytest

from tests import golden
from trainer import config


def files(part):
  return [
    pytest.param(path, id=f"{version.name}-{path.stem}")
    for version in golden.VERSIONS
    for path in sorted((version / part).glob("*.gin"))
  ]


@pytest.mark.parametrize("path", files("configs"))
def test_every_binding_is_known_and_used(path):
  config.load([str(path)])
  # model_fns call the last
  assert config.dead_bindings(("trainer.run", "trainer.RunConfig", "trainer.minimize")) == []


@pytest.mark.parametrize("path", files("operative"))
def test_every_recorded_default_is_still_a_parameter(path):
  config.load([str(path)])
  written = [line for line in path.read_text().splitlines() if " = " in line]
  assert len(written) > 30


def test_each_version_has_what_it_shipped():
  for part in ("configs", "operative"):
    assert len(files(part)) >= 13 * len(golden.VERSIONS)
