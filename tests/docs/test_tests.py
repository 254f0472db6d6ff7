"""The lists of modules without tests, and of tests with long names."""

from docs.tools import tests


def write(root, *paths):
  for folder in ("tests", "trainer", "models", "input_pipelines"):
    (root / folder).mkdir(exist_ok=True)
  for path, text in paths:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_modules_without_a_test_file_of_their_name_are_listed(tmp_path):
  write(
    tmp_path,
    ("trainer/loop/rollback.py", "def f():\n  pass\n"),
    ("trainer/loop/watchdog.py", "class Watchdog:\n  pass\n"),
    ("trainer/loop/__init__.py", "def f():\n  pass\n"),
    ("trainer/compat/names/table.py", "def f():\n  pass\n"),
    ("trainer/sweep/watchdog.py", "class Other:\n  pass\n"),  # another one of this name
    ("trainer/serve.py", "from trainer import main\n\nmain.run()\n"),  # defines nothing
    ("tests/trainer/loop/test_watchdog.py", ""),
  )
  assert tests.modules_without_tests(tmp_path) == [
    "trainer/loop/rollback.py",
    "trainer/sweep/watchdog.py",
  ]


def test_names_are_listed_that_are_too_long(tmp_path):
  just, over = f"test_{'a' * 55}", f"test_{'b' * 56}"
  text = f"def {just}():\n  pass\n\n\nclass TestCase:\n  def {over}(self):\n    pass\n"
  write(tmp_path, ("tests/test_a.py", text))
  assert list(tests.long_names(tmp_path)) == [f"tests/test_a.py::{over}"]


def test_no_name_of_octets_tests_is_too_long():
  assert list(tests.long_names()) == []
