"""Optuna reads all scripts of its migrations each time that it opens a database: once is enough."""

import functools

import pytest


@pytest.fixture(autouse=True, scope="session")
def _scripts_of_migrations_are_read_once():
  util = pytest.importorskip("alembic.util")
  read = util.load_python_file
  read_once = functools.cache(read)

  def load(folder, name):  # env.py runs the migrations
    return (read if name == "env.py" else read_once)(folder, name)

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(util, "load_python_file", load)
    yield
