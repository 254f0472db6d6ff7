"""What a configuration must set is asked for before anything is called."""

import pytest

from tests.trainer import configurables
from trainer import config, errors

START = f"import {configurables.__name__}\nstart.model_fn = @line.model_fn\n"


def load(text, root=configurables.ROOT):
  config.load([], [START + text], root=root)


def assert_refused(text, message):
  with pytest.raises(errors.SettingError, match=message):
    load(text)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    (
      "STEP = 1\nstart.steps = %STEPS",
      r"%STEPS has no value: add `STEPS = \.\.\.`\. Did you mean "
      r"STEP\?",
    ),
    ("start.params = {'a': [%STEPS]}", r"%STEPS has no value"),
    ("A = %B\nB = [%A]", r"The macro A contains itself: %A → %B → %A\."),
    (
      "start.steps = %gin.REQUIRED",
      r"start\.steps set to `%gin.REQUIRED` but not subsequently overridden",
    ),
    ("line.model_fn.optimizer = @Momentum()", r"optimize\.Momentum\.rate needs a value"),
    (
      "start.input_fn = @needy_fn",
      r"needy\.needy_fn\.classes needs a value: add "
      r"`needy\.needy_fn\.classes = \.\.\.`",
    ),
  ],
)
def test_what_is_not_set_is_told_with_the_binding_to_add(text, message):
  assert_refused(text, message)


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("start/steps = 3", r"^--gin_bindings: no binding uses the macro start/steps\. Did you mean "
     r"start\.steps\?$"),
    ("steps = 3", r"the macro steps\. Did you mean run\.steps\?$"),
    ("STEP = 3\nSTEPS = 3\nstart.steps = %STEPS", r"the macro STEP\. Did you mean STEPS\?$"),
    ("A = 1\nB = %A", r"the macro B\.$"),
  ],
)  # fmt: skip
def test_a_macro_that_nobody_uses(text, message):
  assert_refused(text, message)


def test_a_file_may_offer_macros_that_are_not_needed(tmp_path):
  (tmp_path / "a.gin").write_text(f"{START}WIDTH = 3\na/b = 4\nstart.steps = %a/b\n")
  config.load([tmp_path / "a.gin"], root=configurables.ROOT)
  (tmp_path / "b.gin").write_text(f"{START}start/steps = 3\n")
  with pytest.raises(errors.SettingError, match=r"b\.gin:3: no binding uses the macro start/steps"):
    config.load([tmp_path / "b.gin"], root=configurables.ROOT)


@pytest.mark.parametrize(
  "text",
  [
    "start.steps = %gin.REQUIRED\nstart.steps = 1",
    "line.model_fn.optimizer = @Momentum()\nMomentum.rate = 1",
    "line.model_fn.optimizer = @fast/Momentum()\nfast/Momentum.rate = 1",
    "line.model_fn.optimizer = @Momentum",  # whoever calls it may give the rate
    "line.model_fn.clip = @needy_fn",  # as here the classes
    "start.input_fn = @needy_fn\nneedy_fn.classes = 1",
  ],
)
def test_what_is_set_in_any_way_is_accepted(text):
  load(text)


def test_the_roots_own_arguments_are_required():
  with pytest.raises(errors.SettingError, match=r"^program\.start\.model_fn needs a value"):
    config.load([], ["start.steps = 1"], root=configurables.ROOT)
  config.load([], ["start.steps = 1"], root=None)


def test_the_root_is_given_by_the_program_what_gin_may_not_set():
  with pytest.raises(errors.SettingError, match=r"^program\.start_in\.steps needs a value"):
    config.load([], [], root=f"{configurables.__name__}.start_in")
  config.load([], ["start_in.steps = 1"], root=f"{configurables.__name__}.start_in")


def test_a_call_in_another_scope_makes_an_argument_of_this_one():
  load(
    "line.model_fn.optimizer = @a/Momentum()\na/Momentum.rate = @b/Momentum()\nb/Momentum.rate = 1"
  )
