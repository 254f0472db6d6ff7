"""What a gin file from elsewhere may not do: hostile ones are refused, with file and line, or are
harmless.
"""

import os
import re
import sys
import types

import gin
import keras
import pytest

from tests import warm
from tests.trainer import configurables
from tests.trainer.config import hostile
from trainer import config, errors
from trainer.config import files, trust

DYNAMIC = "from __gin__ import dynamic_registration\n"

DENSE = DYNAMIC + "import keras\nX = @keras.layers.Dense()\nkeras.layers.Dense.units = 2"

# A module of the working directory, which a gin file may name things of.
MINE = """
import functools
import os
import tensorflow as tf
touch = functools.partial(os.system, "touch canary")
class Model:
  def method(self):
    return self.missing
def build():
  return "built"
"""

# A library that is installed and registers what opens files, as many do.
STRANGERS = """
import gin
open("canary", "w").close()
@gin.configurable(module="strangers")
def touch(name="canary"):
  open(name, "w").close()
"""

LINE = r"hostile\.gin:%d: "

# name: (text of hostile.gin, what the message begins with; None where the file does no harm).
TRIES = {
  # Imports.
  "os": ("import os", LINE % 1 + "Octet refuses import os:"),
  "subprocess": ("\nimport subprocess", LINE % 2 + "Octet refuses import subprocess:"),
  "builtins": ("import builtins", LINE % 1 + "Octet refuses import builtins:"),
  "importlib": ("import importlib", LINE % 1 + "Octet refuses import importlib:"),
  "ctypes": ("import ctypes", LINE % 1 + "Octet refuses import ctypes:"),
  "pickle": ("import pickle", LINE % 1 + "Octet refuses import pickle:"),
  "part of a module": ("import os.path", LINE % 1 + r"Octet refuses import os\.path:"),
  "from": ("from os import path", LINE % 1 + r"Octet refuses import os\.path:"),
  "alias": ("import os as models", LINE % 1 + "Octet refuses import os:"),
  "the main module": ("import __main__", LINE % 1 + "Octet refuses import __main__:"),
  "a command": (
    "import trainer.plot.__main__",
    LINE % 1 + r"Octet refuses import trainer\.plot\.__main__:",
  ),
  "an installed library": ("import numpy", LINE % 1 + "Octet refuses import numpy:"),
  "one that acts when imported": ("import strangers", LINE % 1 + "Octet refuses import strangers:"),
  "a part of Keras": ("import keras.saving", LINE % 1 + r"Octet refuses import keras\.saving:"),
  "a part of TensorFlow": (
    "import tensorflow.io",
    LINE % 1 + r"Octet refuses import tensorflow\.io:",
  ),
  "inside TensorFlow": (
    "import tensorflow.python.platform.gfile",
    LINE % 1 + r"Octet refuses import tensorflow\.python\.platform\.gfile:",
  ),
  "gin's torch": (
    "import gin.torch.external_configurables",
    LINE % 1 + r"Octet refuses import gin\.torch\.external_configurables:",
  ),
  "letters that look alike": ("import ｏｓ", LINE % 1),
  "a module of another's": ("import models.os", LINE % 1 + r"there is no module models\.os"),
  # Includes.
  "an include": ("X = 1\ninclude 'inner.gin'", r"inner\.gin:2: Octet refuses import os:"),
  "includes in includes": ("include 'outer.gin'", r"inner\.gin:2: Octet refuses import os:"),
  "no gin file": ("include '/proc/self/environ'", LINE % 1 + ".*expected a gin file"),
  "a device": ("include '/dev/zero'", LINE % 1 + ".*expected a gin file"),
  "a circle": ("include 'hostile.gin'", LINE % 1 + "the file includes itself"),
  # Names.
  "a name": ("start.params = @os.system()", LINE % 1 + r"no configurable has the name os\.system"),
  "a bound argument": (
    "os.system.command = 'touch canary'",
    LINE % 1 + "no configurable has the name",
  ),
  "a block": (
    "subprocess.Popen:\n  args = 'touch canary'",
    LINE % 1 + "no configurable has the name",
  ),
  "a macro": ("X = @builtins.eval()\nstart.params = %X", LINE % 1 + "no configurable has the name"),
  "gin's macro": ("x/gin.macro.value = @os.system", LINE % 1 + "no configurable has the name"),
  "a singleton": (
    "start.params = @x/gin.singleton()\nx/gin.singleton.constructor = @os.getcwd",
    LINE % 2 + r"no configurable has the name os\.getcwd",
  ),
  "scopes": ("start.params = @a/b/os.system()", LINE % 1 + "no configurable has the name"),
  "in a collection": (
    "start.params = {'a': [(@os.system(),)]}",
    LINE % 1 + "no configurable has the name",
  ),
  "as a key": ("start.params = {@os.system(): 1}", LINE % 1 + "no configurable has the name"),
  "tf.io": ("start.params = @tf.io.write_file()", LINE % 1 + "no configurable has the name"),
  "Keras's loading": ("start.params = @keras.saving.load_model()", LINE % 1 + "no configurable"),
  "what a library registered": (
    "start.params = @touch()",
    LINE % 1 + "Octet refuses touch; strangers registers it",
  ),
  "an argument of it": (
    "strangers.touch.name = 'canary'",
    LINE % 1 + r"Octet refuses strangers\.touch; strangers registers it",
  ),
  "a flag's setting": ("start.model_dir = '/etc'", LINE % 1 + r"gin cannot set start\.model_dir"),
  # Dynamic registration.
  "an import then": (
    DYNAMIC + "import os\nstart.params = @os.system()",
    LINE % 2 + "Octet refuses import os:",
  ),
  "through a module": (
    DYNAMIC + "import models.digits_mlp\nx/models.digits_mlp.gin.config.os.system.command = 'true'",
    LINE % 3 + r"Octet refuses models\.digits_mlp\.gin\.config\.os\.system; it leads to gin",
  ),
  "through mine": (DYNAMIC + "import mine\nX = @mine.os.system()", LINE % 3 + ".*leads to os"),
  "a partial": (DYNAMIC + "import mine\nX = @mine.touch()", LINE % 3 + ".*leads to functools"),
  "TensorFlow through mine": (
    DYNAMIC + "import mine\nX = @mine.tf.io.write_file()",
    LINE % 3 + r"Octet refuses mine\.tf\.io\.write_file;",
  ),
  "mine's builtins": (
    DYNAMIC + "import mine\nX = @mine.__builtins__.get()",
    LINE % 3 + r"Octet refuses mine\.__builtins__\.get;",
  ),
  "globals": (
    DYNAMIC + "import mine\nX = @mine.build.__globals__.get()",
    LINE % 3 + r"Octet refuses mine\.build\.__globals__\.get;",
  ),
  "subclasses": (
    DYNAMIC + "import mine\nX = @mine.Model.__base__.__subclasses__()",
    LINE % 3 + r"Octet refuses mine\.Model\.__base__\.__subclasses__;",
  ),
  "gin's globals": (DYNAMIC + "X = @gin.macro.__globals__()", LINE % 2 + ".*refuses"),
  "what Octet writes with": (
    DYNAMIC + "import trainer.io.files\nX = @trainer.io.files.write()",
    LINE % 3 + r"Octet refuses trainer\.io\.files\.write;",
  ),
  "a file writer": (
    DYNAMIC + "import trainer.io.files\nX = @trainer.io.files.write_atomically()",
    LINE % 3 + r"Octet refuses trainer\.io\.files\.write_atomically;",
  ),
  "a process": (
    DYNAMIC + "import trainer.cli.processes\nX = @trainer.cli.processes.subprocess.run()",
    LINE % 3 + ".*refuses .*; it leads to subprocess",
  ),
  "a function that runs commands": (
    DYNAMIC + "import trainer.cli.processes\nX = @trainer.cli.processes.run_command()",
    LINE % 3 + r"Octet refuses trainer\.cli\.processes\.run_command;",
  ),
  "writes a SavedModel": (
    DYNAMIC + "import tensorflow as tf\nX = @tf.saved_model.save()",
    LINE % 3 + r"Octet refuses tf\.saved_model\.save;",
  ),
  "writes a file": (
    DYNAMIC + "import tensorflow as tf\nX = @tf.io.write_file()",
    LINE % 3 + r"Octet refuses tf\.io\.write_file;",
  ),
  "py_function": (
    DYNAMIC + "import tensorflow as tf\nX = @tf.py_function()",
    LINE % 3 + r"Octet refuses tf\.py_function;",
  ),
  "downloads": (
    DYNAMIC + "import keras\nX = @keras.utils.get_file()",
    LINE % 3 + r"Octet refuses keras\.utils\.get_file;",
  ),
  "loads a model": (
    DYNAMIC + "from tensorflow import keras\nX = @keras.models.load_model()",
    LINE % 3 + r"Octet refuses keras\.models\.load_model;",
  ),
  "a layer that loads": (
    DYNAMIC + "import keras\nX = @keras.layers.TFSMLayer()",
    LINE % 3 + r"Octet refuses keras\.layers\.TFSMLayer;",
  ),
  "a layer of a function": (
    DYNAMIC + "import keras\nimport mine\n"
    "X = @keras.layers.TimeDistributed()\nkeras.layers.TimeDistributed.layer = @mine.os.system",
    LINE % 5 + ".*leads to os",
  ),
  "a callback": (
    DYNAMIC + "import keras\nX = @keras.callbacks.CSVLogger()",
    LINE % 3 + r"Octet refuses keras\.callbacks\.CSVLogger;",
  ),
  "Keras's own modules": (
    DYNAMIC + "import keras\nX = @keras.src.utils.file_utils.os.system()",
    LINE % 3 + ".*refuses .*; it leads to os",
  ),
  # Values.
  "a call": ("X = __import__('os').system('touch canary')", LINE % 1 + ".*not a value|" + LINE % 1),
  "open": ("X = open('canary', 'w')", LINE % 1),
  "a comprehension": ("X = [open('canary', 'w') for _ in (1,)]", LINE % 1),
  "a formatted string": ("""X = f'{open("canary", "w")}'""", LINE % 1),
  "a power": ("X = 9**9**9", LINE % 1),
  "a long number": (f"X = 1{'0' * 10000}", LINE % 1),
  "many brackets": (f"X = {'[' * 100_000}", LINE % 1),
  "macros of macros": (
    "".join(f"A{i} = [{', '.join([f'%A{i + 1}'] * 10)}]\n" for i in range(30))
    + "A30 = 1\nstart.params = %A0",
    "The macro .* has .* values of macros",
  ),
  "a chain of macros": (
    "".join(f"A{i} = %A{i + 1}\n" for i in range(5000)) + "A5000 = 1",
    "The macro .* 200 deep",
  ),
  "a string for a shell": ("start.params = '$(touch canary); `touch canary`'", None),
  "bytes": (r"start.params = b'\x80\x04csystem\n.'", None),
  "what is mine": (DYNAMIC + "import mine\nX = @mine.build()", None),
  "an optimizer": ("start.params = @keras.optimizers.Adam()", None),
  "a layer": (
    DYNAMIC + "import keras\nX = @keras.layers.Dense()\nkeras.layers.Dense.units = 2",
    None,
  ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
  """The working directory of a victim, who has a library installed in it.

  There is one for all tries: gin keeps what dynamic registration has registered.
  """
  folder = tmp_path_factory.mktemp("victim")
  (folder / ".venv").mkdir()
  (folder / ".venv" / "strangers.py").write_text(STRANGERS)
  (folder / "mine.py").write_text(MINE)
  (folder / "inner.gin").write_text("\nimport os\n")
  (folder / "outer.gin").write_text("include 'inner.gin'\n")
  yield folder
  sys.modules.pop("mine", None)


@pytest.fixture
def folder(made, monkeypatch):
  monkeypatch.chdir(made)
  monkeypatch.syspath_prepend(made)
  monkeypatch.syspath_prepend(made / ".venv")
  yield made
  config.clear()


@pytest.fixture(scope="module", autouse=True)
def a_library_has_registered(tmp_path_factory):
  """The process has imported it; the gin file has not."""
  folder = tmp_path_factory.mktemp("library")
  (folder / "strangers.py").write_text(STRANGERS)
  before = os.getcwd()
  os.chdir(folder)
  sys.path.insert(0, str(folder))
  try:
    import strangers  # noqa: F401
  finally:
    sys.path.remove(str(folder))
    os.chdir(before)
  yield
  del sys.modules["strangers"]


def run(text, modules=(".",), limited=True):
  """What `start` is given by hostile.gin."""
  with open("hostile.gin", "w", encoding="utf-8") as file:
    file.write(f"{text}\n")
  # With dynamic registration, `start` would need another name in that file.
  mine = f"import {configurables.__name__}\nstart.model_fn = @line.model_fn\n"
  use = "start.params = %X" if re.search(r"^X = ", text, re.M) else ""
  allowed = [*modules, "tests.trainer"] if limited else None
  config.load(["hostile.gin"], [mine + use], root=configurables.ROOT, modules=allowed)
  return configurables.start()["params"]


@pytest.mark.parametrize("name", TRIES)
def test_a_hostile_configuration_is_refused_or_harmless(name, folder):
  text, message = TRIES[name]
  if message is None:
    run(text)
  else:
    with pytest.raises(errors.SettingError, match=f"^(?:{message})"):
      run(text)
  assert not (folder / "canary").exists()
  assert "canary" not in " ".join(map(str, folder.rglob("*")))


def test_there_are_forty_tries():
  assert len(TRIES) >= 40


def refusal(text, **settings):
  """The message with which a file is refused; None where it is not, or something else is raised."""
  try:
    run(text, **settings)
  except errors.SettingError as error:
    return str(error).splitlines()[0]  # gin adds lines to what is raised in a call
  except Exception:
    return None
  return None


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_no_file_gives_keras_what_makes_an_object(step, folder):
  keras.saving.get_custom_objects()["strangers>touch"] = sys.modules["strangers"].touch
  before = {path.name for path in folder.iterdir()} | {"hostile.gin", "__pycache__"}
  tried = list(hostile.files())[::step]
  assert len(tried) >= 200
  for name, text in tried:
    said = refusal(text)
    wanted = r"hostile\.gin:\d+: .*(refuses|has a dict with the key)"
    assert re.match(wanted, str(said)), (name, said, text)
  assert {path.name for path in folder.iterdir()} <= before


def test_result_of_a_call_is_checked_unless_from_own_code(folder):
  value = hostile.DESCRIPTIONS["a function"]
  (folder / "gives.py").write_text(f"def give():\n  return [{value}]\n")
  assert run(DYNAMIC + "import gives\nX = @gives.give()") == [eval(value)]
  relu = "import keras\nX = @keras.activations.linear()\nkeras.activations.linear.x = %mine.GIVEN"
  gin.constant("mine.GIVEN", eval(value))
  with pytest.raises(
    errors.SettingError, match=r"hostile\.gin:3: the result of @keras\.activations\.linear\(\)"
  ):
    run(DYNAMIC + relu)


def test_safe_mode_is_on_while_gin_makes_an_object(folder, monkeypatch):
  from keras.src.backend.common import global_state
  from keras.src.saving import serialization_lib

  seen = []
  make = keras.layers.Dense.__init__
  monkeypatch.setattr(
    keras.layers.Dense,
    "__init__",
    lambda self, units: seen.append(serialization_lib.in_safe_mode()) or make(self, units),
  )
  keras.config.enable_unsafe_deserialization()
  try:
    run(DENSE)
  finally:
    global_state.set_global_attribute("safe_mode_saving", None)
  assert seen == [True]


@pytest.mark.parametrize(
  "value", ['{"config": {}, "module": "os"}', '"a > b"', '{"a": [1, (2, {})]}']
)
def test_values_that_describe_no_object(value, folder):
  assert run(f"X = {value}") == eval(value)


def test_a_dict_with_class_name_is_refused(folder):
  text = "import mine\nstart.params = [{'class_name': 'label'}]"
  for modules in (["."], [".", "keras"]):
    message = refusal(text, modules=modules)
    assert re.match(r"hostile\.gin:2: .*refuses a dict with the key 'class_name'", message), message
  assert run(text, limited=False) == [{"class_name": "label"}]


def test_what_is_allowed_by_default(folder):
  assert run(DYNAMIC + "import mine\nX = @mine.build()") == "built"
  assert isinstance(run("start.params = @keras.optimizers.Adam()"), keras.optimizers.Adam)
  assert type(run("start.params = @tf.train.AdamOptimizer()")).__name__ == "AdamOptimizer"
  assert run(DENSE).units == 2
  assert run("import models.digits_mlp\nstart.params = @digits_mlp.model_fn").__name__ == "model_fn"
  assert run("import mine") is None


@pytest.mark.parametrize(
  ("modules", "text"),
  [
    (["strangers"], "import strangers\nstart.params = @strangers.touch"),
    ([".", "strangers"], "start.params = @touch"),
    (["string"], DYNAMIC + "import string\nstring.capwords.s = 'a b'\nX = @string.capwords()"),
    (["collections"], DYNAMIC + "import collections.abc\nX = @collections.Counter()"),
  ],
)
def test_a_flag_allows_more(folder, modules, text):
  with pytest.raises(errors.SettingError, match="refuses"):
    run(text)
  run(text, modules)


def test_without_the_dot_the_working_directory_is_refused(folder):
  run("import mine", ["."])
  with pytest.raises(
    errors.SettingError, match=r"refuses import mine.*trust it: --gin_modules=tests\.trainer,mine"
  ):
    run("import mine", [])


def test_none_allows_everything(folder):
  (folder / "a.gin").write_text("import strangers\nstart.model_fn = @strangers.touch")
  config.load(["a.gin"], root=configurables.ROOT, modules=None)


@pytest.mark.parametrize("name", ["no_such_module", "email.no_such", "email.mime.no.such", "a b"])
def test_a_module_that_is_not_there_cannot_be_allowed(name):
  with pytest.raises(errors.SettingError, match=f"--gin_modules: there is no module {name}, "):
    trust.Allowed([".", "email.mime", name])
  trust.Allowed([".", "", "email.mime", "sys", "tests.trainer", "os.path"])


def test_a_part_of_a_package_may_be_allowed():
  limit = trust.Allowed(["email.mime"])
  limit.check_import("email.mime.text", "a.gin:1")
  for module in ("email", "email.message", "email.mimes"):
    with pytest.raises(errors.SettingError, match=f"a.gin:1: Octet refuses import {module}:"):
      limit.check_import(module, "a.gin:1")


def test_a_package_of_ones_own_with_the_name_of_one_of_octets(tmp_path, monkeypatch):
  """It is looked for where Python finds it, not by its name."""
  spec = types.SimpleNamespace(
    submodule_search_locations=[str(tmp_path / "elsewhere" / "models")], has_location=True
  )
  monkeypatch.setattr(trust.importlib.util, "find_spec", lambda name: spec)
  with pytest.raises(errors.SettingError, match=r"refuses import models\.evil:"):
    trust.Allowed(["."]).check_import("models.evil", "a.gin:1")


def test_every_shipped_file_loads_anywhere(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for path in sorted(files.ROOT.glob("gin_configs/*.gin")):
    own = [f"{name}_FILE = 'a'" for name in ("TRAIN", "TEST", "VOCABULARY")]
    config.load([path], own if path.stem == "transformer_classifier" else [], modules=[])


def test_registered_by_a_gin_file_is_no_registration(folder):
  """What one file was allowed to register by dynamic registration, the next is not given."""
  run(DYNAMIC + "import textwrap\nX = @textwrap.dedent", ["textwrap"])
  assert gin.get_configurable("textwrap.dedent")
  with pytest.raises(errors.SettingError, match=r"refuses textwrap\.dedent; textwrap registers it"):
    run("start.params = @textwrap.dedent")


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/abs", "gs://bucket/x", 3])
def test_names_that_become_folders_stay_in_theirs(name):
  import trainer

  for make in (
    lambda: trainer.LatestExporter(name=name),
    lambda: trainer.BestExporter(name=name),
    lambda: trainer.EvalSpec(input_fn=len, name=name),
  ):
    with pytest.raises(errors.SettingError, match=r"name is .*a relative path that stays"):
      make()
  assert trainer.LatestExporter(name="a/b").name == "a/b"


def test_what_was_imported_before_octet_may_be_named():
  program = (
    "import input_pipelines.digits\n"
    "from trainer import config\n"
    "config.load(['gin_configs/digits.gin'], modules=[])\n"
  )
  run = warm.run("-c", program)
  assert run.returncode == 0, run.stderr
