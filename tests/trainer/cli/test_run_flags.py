"""A flag that commands share belongs to the command that defines it."""

from absl import flags

from tests.trainer import mains

NAME = "trainer.cli.run_flags"


def test_a_flag_is_one_of_the_command_that_defines_it():
  with mains.loaded(NAME) as found:
    assert set(flags.FLAGS.get_key_flags_for_module(found)) == set()
    holder = found.define_device()
    here = {flag.name for flag in flags.FLAGS.get_key_flags_for_module(__name__)}
    assert (holder.value, "device" in here) == ("auto", True)
    # Commands without the flag refuse it.
    assert "precision" not in flags.FLAGS


def test_a_seed_of_zero_is_a_seed():
  with mains.loaded(NAME) as found:
    holder = found.define_seed()
    assert holder.value is None
    flags.FLAGS(["command", "--seed=0"])
    assert holder.value == 0
