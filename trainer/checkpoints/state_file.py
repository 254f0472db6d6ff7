"""The file `checkpoint` of a folder, without TensorFlow.

The file names the checkpoints, the newest first, in TensorFlow's form:

    model_checkpoint_path: "model.ckpt-1200"
    all_model_checkpoint_paths: "model.ckpt-1000"
    all_model_checkpoint_paths: "model.ckpt-1200"
    # Octet moves later checkpoints to set_aside-1     only while it does so, see `going_back`
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
_ASIDE = "# Octet moves later checkpoints to "
_DIGEST = "# Octet wrote the lines above: "


@dataclasses.dataclass(frozen=True)
class State:
  """The content of the file.

  Attributes:
    newest: the path of the checkpoint to resume from; "" if the file names none, or several.
    listed: the paths of all checkpoints.
    aside: the name of the folder that Octet is moving later checkpoints to, or "".
    is_own: whether Octet wrote this text.
  """

  newest: str
  listed: tuple[str, ...]
  aside: str
  is_own: bool

  @property
  def may_go_back(self) -> bool:
    """Whether the file may ask to go back: another program wrote it, or Octet's move goes on."""
    return not self.is_own or bool(self.aside)

  def listed_steps(self) -> set[int]:
    """Returns the steps of the listed checkpoints with Octet's names."""
    return {step for step in map(file_names.step_of, self.listed) if step is not None}


def compose(names: Sequence[str], aside: str = "") -> str:
  """Returns the text of the file.

  Args:
    names: of the checkpoints, oldest first.
    aside: see State.
  """
  text = f'model_checkpoint_path: "{names[-1]}"\n'
  text += "".join(f'all_model_checkpoint_paths: "{name}"\n' for name in names)
  if aside:
    text += f"{_ASIDE}{aside}\n"
  return f"{text}{_DIGEST}{_digest(text)}\n"


def parse(text: str) -> State:
  """Parses the text of the file, whoever wrote it."""
  body, _, digest = text.rpartition(_DIGEST)
  found = _PATH.findall(_COMMENT.sub("", text))
  newest = [path for key, _, path in found if key == "model_checkpoint_path"]
  aside = re.search(f"^{_ASIDE}(\\S+)$", text, re.MULTILINE)
  return State(
    newest[0] if len(newest) == 1 else "",
    tuple(path for key, _, path in found if key != "model_checkpoint_path"),
    aside[1] if aside else "",
    bool(body) and digest.strip() == _digest(body),
  )


def _digest(text):
  return hashlib.sha256(text.encode()).hexdigest()[:32]
