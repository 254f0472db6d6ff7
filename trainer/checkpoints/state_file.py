"""The file `checkpoint` of a folder, without TensorFlow.

The file names the checkpoints, the newest first, in TensorFlow's form:

    model_checkpoint_path: "model.ckpt-1200"
    all_model_checkpoint_paths: "model.ckpt-1000"
    all_model_checkpoint_paths: "model.ckpt-1200"
    # Octet wrote the lines above: 5f0c1a...           their digest; TensorFlow passes over comments

To go back to an earlier checkpoint, a person edits the first line. The digest tells such an edit
from Octet's own text, now or earlier: a process that dies between a checkpoint and this file leaves
an old file with a digest that fits.
"""

import dataclasses
import hashlib
import re
from collections.abc import Sequence

from trainer.checkpoints import file_names

_PATH = re.compile(r"""\b(model_checkpoint_path|all_model_checkpoint_paths)\s*:\s*(["'])(.*?)\2""")
_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_DIGEST = "# Octet wrote the lines above: "


@dataclasses.dataclass(frozen=True)
class State:
  """The content of the file.

  Attributes:
    newest: the path of the checkpoint to resume from; "" if the file names none, or several.
    steps: the steps of all its checkpoints with Octet's names.
    is_own: whether Octet wrote this text.
  """

  newest: str
  steps: frozenset[int]
  is_own: bool


def compose(names: Sequence[str]) -> str:
  """Returns the text of the file for the names of checkpoints, oldest first."""
  text = f'model_checkpoint_path: "{names[-1]}"\n'
  text += "".join(f'all_model_checkpoint_paths: "{name}"\n' for name in names)
  return f"{text}{_DIGEST}{_digest(text)}\n"


def parse(text: str) -> State:
  """Parses the text of the file, whoever wrote it."""
  body, _, digest = text.rpartition(_DIGEST)
  found = _PATH.findall(_COMMENT.sub("", text))
  newest = [path for key, _, path in found if key == "model_checkpoint_path"]
  steps = [file_names.step_of(path) for key, _, path in found if key != "model_checkpoint_path"]
  return State(
    newest[0] if len(newest) == 1 else "",
    frozenset(step for step in steps if step is not None),
    bool(body) and digest.strip() == _digest(body),
  )


def _digest(text):
  return hashlib.sha256(text.encode()).hexdigest()[:32]
