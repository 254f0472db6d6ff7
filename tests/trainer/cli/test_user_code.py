"""Whose code a file is."""

import json
import os

import numpy as np
import pytest

import trainer
from trainer.cli import user_code
from trainer.programs import step


@pytest.mark.parametrize("module", [json, np, step], ids=["Python", "installed", "Octet"])
def test_what_others_wrote_is_not_the_users(module):
  assert not user_code.is_users(module.__file__)


def test_program_beside_octet_or_relative_is_user_code(tmp_path):
  assert user_code.is_users(str(tmp_path / "train.py"))
  assert user_code.is_users(os.path.dirname(trainer.__file__) + "_of_mine/train.py")
  assert user_code.is_users("train.py")


@pytest.mark.parametrize(
  "folder", ["/home/me/.local/lib/python3.11/site-packages", "/usr/lib/python3/dist-packages"]
)
def test_user_and_system_packages_are_not_user_code(folder):
  assert not user_code.is_users(f"{folder}/tensorflow/python/framework/ops.py")
