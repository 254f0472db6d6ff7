"""No code of Octet's reads a pickle, runs text, unpacks an archive or starts a shell; no file of
weights leads to other files.
"""

import ast
import os

import h5py
import numpy as np
import pytest

from tests import sources
from trainer import errors
from trainer.checkpoints import keras_weights

# Modules that read pickles, or what is as bad.
MODULES = {
  "cloudpickle", "dill", "joblib", "marshal", "multiprocessing", "pickle", "shelve", "torch", "yaml"
}  # fmt: skip
BUILTINS = {"compile", "eval", "exec", "__import__"}
ATTRIBUTES = {
  "enable_unsafe_deserialization", "extract", "extractall", "load_model",
  "read_pickle", "popen", "unpack_archive",
}  # fmt: skip


def dangers(tree):
  """What a file does of the above, as "line: what"."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Import | ast.ImportFrom):
      names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
      names += [alias.name for alias in node.names]
      yield from (f"{node.lineno}: {name}" for name in names if name.split(".")[0] in MODULES)
    elif isinstance(node, ast.Call):
      name = getattr(node.func, "id", None)
      attribute = getattr(node.func, "attr", None)
      keywords = {keyword.arg: keyword.value for keyword in node.keywords}
      of_os = getattr(getattr(node.func, "value", None), "id", None) == "os"
      if name in BUILTINS or attribute in ATTRIBUTES or (attribute == "system" and of_os):
        yield f"{node.lineno}: {name or attribute}"
      for key in ("allow_pickle", "shell"):
        if key in keywords and getattr(keywords[key], "value", True) is not False:
          yield f"{node.lineno}: {key}"
      if keywords.get("safe_mode") is not None:
        yield f"{node.lineno}: safe_mode"


def test_no_pickle_no_shell_no_archive():
  paths = sources.files("trainer", "models", "input_pipelines")
  assert sources.breaches(paths, lambda path: dangers(sources.tree(path))) == {}


@pytest.mark.parametrize(
  "source",
  [
    "import pickle",
    "from multiprocessing import connection",
    "import torch.utils",
    "eval('1')",
    "np.load(path, allow_pickle=True)",
    "np.load(path, allow_pickle=given)",
    "subprocess.run('ls', shell=True)",
    "os.system('ls')",
    "zipfile.ZipFile(path).extractall()",
    "keras.models.load_model(path)",
    "keras.saving.deserialize_keras_object(x, safe_mode=False)",
  ],
)
def test_dangers_are_found(source):
  assert list(dangers(ast.parse(source)))
  harmless = "import picklejar\nnp.load(path)\nsubprocess.run(['ls'], shell=False)"
  assert list(dangers(ast.parse(harmless))) == []


@pytest.fixture
def secret(tmp_path):
  """A file of the machine that a file of weights shall not show."""
  path = tmp_path / "secret"
  path.write_bytes(bytes(range(64)))
  with h5py.File(tmp_path / "other.h5", "w") as file:
    file["v"] = np.arange(4.0)
  return path


def refers_outside(group, how, secret):
  if how == "external bytes":
    group.create_dataset("0", (16,), "f4", external=[(str(secret), 0, 64)])
  elif how == "link":
    group["0"] = h5py.ExternalLink(str(secret.parent / "other.h5"), "/v")
  else:
    layout = h5py.VirtualLayout((4,), "f8")
    layout[:] = h5py.VirtualSource(str(secret.parent / "other.h5"), "v", (4,))
    group.create_virtual_dataset("0", layout)


@pytest.mark.parametrize("keras", [2, 3])
@pytest.mark.parametrize("how", ["external bytes", "link", "virtual"])
def test_a_file_of_weights_does_not_lead_to_others(how, keras, secret, tmp_path):
  path = os.fspath(tmp_path / "theirs.weights.h5")
  with h5py.File(path, "w") as file:
    if keras == 3:
      refers_outside(file.create_group("layers/dense/vars"), how, secret)
    else:
      file.attrs["layer_names"] = ["dense"]
      file.create_group("dense").attrs["weight_names"] = ["0"]
      refers_outside(file["dense"], how, secret)
  with pytest.raises(errors.CheckpointDamagedError):
    keras_weights.read(path)
