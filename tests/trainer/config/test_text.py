"""A configuration that was written gives the same one when it is read."""

import gin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainer import configurables
from trainer import config
from trainer.config import gin_internals
from trainer.config import text as config_text

FILE = f"""
import {configurables.__name__}
import collections
RATE = 0.1
start:
  model_fn = @line.model_fn
  input_fn = @train/points.input_fn
  params = {{'b': (1,), 'a': [%RATE, @line.layer], 'long': {list(range(60))}}}
train/points.input_fn.split = 'a "quoted" \\n string'
line.model_fn.optimizer = @Momentum()
Momentum.rate = %RATE
"""

literals = st.recursive(
  st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
  lambda inner: (
    st.lists(inner, max_size=4)
    | st.lists(inner, max_size=4).map(tuple)
    | st.dictionaries(st.text() | st.integers(), inner, max_size=4)
  ),
  max_leaves=8,
)


@pytest.fixture
def read_again(tmp_path):
  def read(text):
    path = tmp_path / "config.gin"
    path.write_text(text)
    config.load([path], root=configurables.ROOT, modules=None)
    return written_bindings()

  return read


def written_bindings():
  return {key: config_text.value_text(value) for key, value in gin_internals.each_binding()}


def test_parsed_text_gives_the_same_bindings_imports_and_text(read_again):
  config.load(
    [], [FILE, "start.steps = 3", "start.steps = 4"], root=configurables.ROOT, modules=None
  )
  text, bindings = config.parsed_text(), written_bindings()
  assert "\nimport collections\n" in text
  assert "start.steps = 4\n" in text
  assert read_again(text) == bindings
  assert config.parsed_text() == text


def test_operative_text_gives_the_same_run(read_again):
  config.load(
    [],
    [FILE, "unused/points.input_fn.split = 1", "points.input_fn.training = True"],
    root=configurables.ROOT,
    modules=None,
  )
  result = configurables.start()
  text = config.operative_text()
  assert "unused" not in text
  assert "line.layer.units = 1\n" in text  # a default that took effect
  read_again(text)
  again = configurables.start()
  assert again["input"] == result["input"] == ('a "quoted" \n string', True)
  assert again["model"][1].rate == result["model"][1].rate == 0.1
  assert config.operative_text() == text


def test_the_order_of_a_dict_is_kept():
  config.load([], [FILE], root=configurables.ROOT, modules=None)
  assert (
    "params = {\n    'b': (1,),\n    'a': [%RATE, @line.layer],\n    'long': [0, 1"
    in config.parsed_text()
  )


def test_dynamic_registration_is_kept(read_again, tmp_path, monkeypatch):
  (tmp_path / "Upper.py").write_text("")
  monkeypatch.syspath_prepend(tmp_path)
  file = (
    "from __gin__ import dynamic_registration\nimport Upper\nimport fractions\nfrom "
    f"{configurables.__package__} import configurables\n"
    "configurables.start.model_fn = @configurables.model_fn\nconfigurables.start.params = "
    "@fractions.Fraction()\n"
    "fractions.Fraction.numerator = 3\n"
  )
  config.load([], [file], root=configurables.ROOT, modules=None)
  text = config.parsed_text()
  read_again(text)
  assert configurables.start()["params"] == 3


def test_what_gin_has_no_literal_for_is_reported(caplog):
  gin.bind_parameter("start.params", {"when": object})
  gin.bind_parameter("start.steps", float("nan"))
  gin.bind_parameter("line.layer.units", float("-inf"))
  text = config.parsed_text()
  assert "# Not written: program.start.params = {'when': <class 'object'>}\n" in text
  assert "# Not written: program.start.steps = nan\n" in text
  assert "line.layer.units = -1e999\n" in text
  assert "program.start.params" in caplog.text


def test_names_are_as_long_as_it_takes():
  gin.external_configurable(lambda x: x, "fn", module="models.twin_of_test")
  gin.bind_parameter("twin_of_test.fn.x", 1)
  assert "\ntwin_of_test.fn.x = 1\n" in config.parsed_text()
  gin.external_configurable(lambda x: x, "fn", module="other.twin_of_test")
  assert "\nmodels.twin_of_test.fn.x = 1\n" in config.parsed_text()


@given(literals)
def test_every_literal_is_read_as_it_was(value):
  assert gin.config.parse_value(config_text.value_text(value)) == value


def test_a_constant_is_written_by_its_value():
  constants = {"text_of_test.SIZES": [3, "a"], "text_of_test.KIND": object()}
  for name, value in constants.items():
    if name not in gin_internals.constants():
      gin.constant(name, value)
  given = "start.params = {'sizes': %text_of_test.SIZES, 'kind': %text_of_test.KIND}"
  config.load([], [given], root=None, modules=None)
  assert "start.params = {'sizes': [3, 'a'], 'kind': %text_of_test.KIND}\n" in config.parsed_text()
