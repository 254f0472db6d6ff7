"""What a trial's bindings say is what the sweep meant, whatever quotes it holds."""

import shlex

import hypothesis
import pytest
from hypothesis import strategies as st

from trainer import errors
from trainer.config import files
from trainer.config import text as config_text
from trainer.sweep import gin_text, trial

_LEAVES = st.one_of(
  st.none(),
  st.booleans(),
  st.integers(),
  st.floats(allow_nan=False),
  st.text(),
  st.binary(),
  st.sampled_from(
    [
      "'",
      '"',
      "'''",
      '"""',
      "\\",
      "\\'",
      'it\'s "so"',
      "#",
      "@a",
      "%b",
      "\n",
      "\r\n",
      "\x00",
      "\u2028",
      "\ud800",
      "{x}",
      "a = b",
    ]
  ),
)
_KEYS = st.one_of(st.text(), st.integers(), st.booleans())
VALUES = st.recursive(
  _LEAVES,
  lambda inner: st.one_of(
    st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(_KEYS, inner)
  ),
  max_leaves=8,
)
REFERENCES = st.sampled_from(["@keras.optimizers.Adam", "@a/b.c()", "%BATCH", "%a/B", "@x/y/z"])


def parsed(line):
  (statement,) = files.parse(line).statements
  return statement


def as_read(value):
  """The value with references as config_files has them."""
  if isinstance(value, config_text.Verbatim):
    if value.text.startswith("%"):
      return files.Macro(value.text[1:])
    return files.Reference(value.text[1:].removesuffix("()"), value.text.endswith("()"))
  if isinstance(value, dict):
    return {as_read(key): as_read(item) for key, item in value.items()}
  return type(value)(map(as_read, value)) if isinstance(value, list | tuple) else value


def same(one, other):
  """Equality that tells 1 from True and 0.0 from -0.0."""
  return repr(one) == repr(other)


@hypothesis.given(VALUES)
@hypothesis.settings(deadline=None)
def test_a_value_is_read_back_as_it_was(value):
  assert same(parsed(gin_text.binding("a/b.c", gin_text.text(value))).value, value)


@hypothesis.given(
  st.recursive(
    st.one_of(_LEAVES, REFERENCES.map(config_text.Verbatim)),
    lambda inner: st.one_of(
      st.lists(inner), st.lists(inner).map(tuple), st.dictionaries(st.text(), inner)
    ),
    max_leaves=6,
  )
)
@hypothesis.settings(deadline=None)
def test_references_and_macros_stay_what_they_are(value):
  assert same(parsed(gin_text.binding("a.b", gin_text.text(value))).value, as_read(value))


@hypothesis.given(st.text())
@hypothesis.settings(deadline=None)
def test_a_printed_command_gives_a_shell_the_same_binding(value):
  binding = gin_text.binding("a.b", gin_text.text(value))
  *_, given_by_shell = shlex.split(trial.command(trial.as_flags([binding])))
  assert given_by_shell == f"--gin_bindings={binding}"


def test_infinity():
  assert parsed(f"a.b = {gin_text.text([float('inf'), float('-inf')])}").value == [
    float("inf"),
    float("-inf"),
  ]


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object(), [len]])
def test_what_gin_has_no_literal_for(value):
  with pytest.raises(errors.SettingError, match="no literal"):
    gin_text.text(value)


@pytest.mark.parametrize("key", ["run.train_steps", "a/b/run.train_steps", "BATCH", "scope/BATCH"])
def test_keys(key):
  assert gin_text.binding(key, "1") == f"{key} = 1"


@pytest.mark.parametrize(
  "key",
  [
    "",
    "a b",
    "a.b = 1\nc.d",
    "import x\na.b",
    "include 'a.gin'",
    "@a.b",
    "a.b.",
    "# a.b",
    "run.x:",
  ],
)
def test_what_is_no_key(key):
  with pytest.raises(errors.SettingError, match="is not the name of a gin parameter"):
    gin_text.binding(key, "1")
