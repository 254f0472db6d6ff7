"""The flags of engines know the engines."""

import re

from tests.trainer import mains
from trainer.outputs import engines


def test_the_help_lists_every_engine_and_the_defaults_exist():
  with mains.loaded("trainer.serving.engine_flags") as found:
    from absl import flags

    listed = re.findall(r"\w+", flags.FLAGS["engine"].help.partition(" for ")[0])
    assert set(listed) - {"or"} == set(engines.NAMES)
    engines.check_name(found.ENGINE.value, found.PRECISION.value)
