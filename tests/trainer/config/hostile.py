"""Hostile gin files: each attack × the nesting of its value × the setting that is given the value.

The values are descriptions of which Keras would make an object. What runs leaves a file OWNED in
the working directory.
"""

import itertools
from collections.abc import Iterator

_FUNCTION = '{"class_name": "function", "config": %r, "module": %r, "registered_name": %r}'
_CLASS = '{"class_name": %r, "config": %s, "module": %r, "registered_name": None}'

# A functional model whose only layer is a function: making the model calls it.
_CALL = """{"class_name": "Functional", "module": "keras.src.models.functional",
  "registered_name": "Functional", "config": {"name": "f", "trainable": True, "layers": [
    {"class_name": "function", "config": "%s", "module": "%s", "registered_name": "%s",
     "build_config": {}, "name": "x", "inbound_nodes": [{"args": %s, "kwargs": %s}]}],
  "input_layers": [["x", 0, 0]], "output_layers": [["x", 0, 0]]}}"""


def _function(module, name):
  return _FUNCTION % (name, module, name)


def _call(module, name, args, kwargs="{}"):
  return _CALL % (name, module, name, args, kwargs)


# What Keras would be told to make.
DESCRIPTIONS = {
  "a command": _call("subprocess", "Popen", '["touch OWNED"]', '{"bufsize": -1, "shell": True}'),
  "a shell": _call("os", "system", '["touch OWNED"]'),
  "a file": _call("builtins", "open", '["OWNED", "w"]'),
  "code": _call("builtins", "exec", """["open('OWNED', 'w')"]"""),
  "a download": _call(
    "keras.utils", "get_file", '["OWNED", "file:///etc/hostname"]', '{"cache_dir": "."}'
  ),
  "a download by its module": _call(
    "keras.src.utils.file_utils", "get_file", '["OWNED", "file:///etc/hostname"]'
  ),
  "unsafe mode": _call("keras.config", "enable_unsafe_deserialization", "[]"),
  "a model": _call("keras.saving", "load_model", '["stranger.keras"]'),
  "an image": _call("keras.utils", "save_img", '["OWNED", [[[1.0]]]]'),
  "a function": _function("subprocess", "Popen"),
  "a pickle": _function("pickle", "load"),
  "a SavedModel": _CLASS % ("TFSMLayer", '{"filepath": "stranger"}', "keras.layers"),
  "a torch module": _CLASS % ("TorchModuleWrapper", '{"module": b"x"}', "keras.layers"),
  "a jax function": _CLASS % ("JaxLayer", '{"call_fn": "f"}', "keras.layers"),
  "a vocabulary": _CLASS % ("StringLookup", '{"vocabulary": "/etc/passwd"}', "keras.layers"),
  "marshalled code": '{"class_name": "__lambda__", "config": {"value": ["x", None, None]}}',
  "a type": '{"class_name": "__typespec__", "spec_name": "Popen", "module": "subprocess", '
  '"registered_name": None, "config": ["touch OWNED"]}',
  "a layer of Keras's": _CLASS % ("Dense", '{"units": 2}', "keras.layers"),
  "an old description": '{"class_name": "Lambda", "config": {"function": ["x", None, None]}}',
}

# How it is nested in the value that is bound.
NESTINGS = {
  "as it is": "%s",
  "in a list": "[%s]",
  "in a tuple": "(1, (%s,))",
  "in a dict": '{"a": %s}',
  "deep": '[{"a": [({"b": [%s]},)]}]',
  "in another": '{"class_name": "Sequential", "module": "keras", "config": {"layers": [%s]}}',
  "in what is none": '{"class_name": "a column", "other": %s}',
}

# Where the value is given; VALUE stands for it.
SETTINGS = {
  "an initializer": "keras.layers.Dense.kernel_initializer = VALUE\n"
  "keras.layers.Dense.units = 2\nX = @keras.layers.Dense()",
  "a layer in a layer": "keras.layers.Bidirectional.layer = VALUE\n"
  "X = @keras.layers.Bidirectional()",
  "an activation": "keras.layers.Activation.activation = VALUE\nX = @keras.layers.Activation()",
  "a learning rate": "keras.optimizers.Adam.learning_rate = VALUE\nX = @keras.optimizers.Adam()",
  "a scope": "a/keras.layers.Dense.activation = VALUE\n"
  "keras.layers.Dense.units = 2\nX = @a/keras.layers.Dense()",
  "a function of Octet's": "trainer.estimator.keras_model.model_fn_from_keras.loss = VALUE\n"
  "trainer.estimator.keras_model.model_fn_from_keras.build_model = @keras.layers.Dense\n"
  "X = @trainer.estimator.keras_model.model_fn_from_keras()",
  "a macro": "M = VALUE\nX = %M",
  "a macro of a macro": "M = [VALUE]\nN = {'a': %M}\nX = %N",
  "a singleton": "s/gin.singleton.constructor = @keras.layers.Dense\n"
  "keras.layers.Dense.dtype = VALUE\nkeras.layers.Dense.units = 2\nX = @s/gin.singleton()",
}

DYNAMIC = (
  "from __gin__ import dynamic_registration\nimport keras\nimport trainer.estimator.keras_model\n"
)

# Values of other forms, whole files but for DYNAMIC.
OTHERS = {
  "keys by macros": 'C = "class_name"\nX = {%C: "function", "config": "system", "module": "os"}',
  "keys by macros of macros": 'C = "class_name"\nE = %C\n'
  'X = {%E: "function", "config": "system", "module": "os"}',
  "keys by gin's macro": 'c/gin.macro.value = "class_name"\n'
  'X = {@c/gin.macro(): "function", "config": "system", "module": "os"}',
  "keys by a macro without a name": 'gin.macro.value = "class_name"\n'
  'X = {@gin.macro(): "function", "config": "system", "module": "os"}',
  "keys by a call": "X = {@s/gin.singleton(): 1}\n"
  "s/gin.singleton.constructor = @keras.layers.Dense",
  "values by macros": 'M = "os"\nN = "system"\n'
  'X = {"class_name": "function", "config": %N, "module": %M, "registered_name": %N}',
  "registered by a library": 'X = @keras.layers.Activation()\n'
  'keras.layers.Activation.activation = "strangers>touch"',
}  # fmt: skip

LAYERS = (
  "FlaxLayer", "IntegerLookup", "JaxLayer", "Lambda", "StringLookup", "TFSMLayer",
  "TextVectorization", "TorchModuleWrapper",
)  # fmt: skip


def files() -> Iterator[tuple[str, str]]:
  """Yields (name, text) of each hostile file."""
  for (what, value), (how, form), (where, setting) in itertools.product(
    DESCRIPTIONS.items(), NESTINGS.items(), SETTINGS.items()
  ):
    text = setting.replace("VALUE", (form % value).replace("\n", " "), 1)
    yield f"{what}, {how}, {where}", DYNAMIC + text
  for name, text in OTHERS.items():
    yield name, DYNAMIC + text
  for layer, use in itertools.product(LAYERS, ("@keras.layers.{}()", "[@a/keras.layers.{}]")):
    yield f"{use.format(layer)}", f"{DYNAMIC}X = {use.format(layer)}"
