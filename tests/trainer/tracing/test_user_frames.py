"""The user's own line among the frames of a stack trace."""

import os
import sysconfig

import keras

from trainer.tracing import user_frames, variable_store

HERE = os.path.abspath(__file__)
STDLIB = os.path.join(sysconfig.get_path("stdlib"), "threading.py")


def test_frames_of_python_packages_and_octet_are_skipped():
  frames = [
    (STDLIB, 1),
    (HERE, 7),
    (variable_store.__file__, 2),
    (keras.__file__, 3),
    ("<frozen importlib>", 4),
  ]
  assert user_frames.innermost(frames) == (HERE, 7)
  assert user_frames.where(frames) == f" ({HERE}:7)"


def test_the_innermost_of_several_counts():
  assert user_frames.innermost([(HERE, 1), (HERE, 2), (STDLIB, 3)]) == (HERE, 2)


def test_nothing_is_said_where_no_line_is_the_users():
  assert user_frames.innermost([(STDLIB, 1)]) == ("", 0)
  assert user_frames.where([]) == ""


def test_paths_without_their_first_slash_are_recognized():
  assert user_frames.innermost([(HERE.lstrip(os.sep), 9)]) == (HERE, 9)


def test_autographs_own_files_are_not_the_users():
  frames = [(HERE, 5), ("/tmp/__autograph_generated_file3k2.py", 6)]
  assert user_frames.innermost(frames) == (HERE, 5)
