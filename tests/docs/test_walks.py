"""docs/architecture.md tells its walks as a run goes: the calls of a real run are recorded."""

import re

import pytest

from docs.tools import architecture, draw, walks

# Finds which files of trainer/ are entered, one after the other.
FILES = """
found = []
def record(frame, event, argument):
  path = frame.f_code.co_filename
  if event == "call" and path.startswith(root) and frame.f_code.co_name != "<module>":
    file = path.removeprefix(root)
    if found[-1:] != [file]:
      found.append(file)
"""

WALKS = {
  title: walk
  for title, walk in architecture.walks(architecture.PAGE.read_text()).items()
  if not title.startswith("An export")  # which tests/trainer/outputs records
}


@pytest.fixture(scope="module")
def entered():
  """The files of trainer/ in the order in which a training with an evaluation enters them."""
  return walks.record(draw.ROOT, FILES)


def missed_step(walk, entered):
  """The first file of a walk that is not entered after those before it; None if all are."""
  rest = iter(entered)
  return next((file for file in walk if file not in rest), None)


@pytest.mark.long
@pytest.mark.parametrize("title", WALKS)
def test_a_run_enters_the_files_of_a_walk_in_their_order(title, entered):
  assert missed_step(WALKS[title], entered) is None


def test_a_step_that_is_missed_is_named():
  assert missed_step(["a", "b", "c"], ["a", "x", "b", "a", "c"]) is None
  assert missed_step(["a", "c", "b"], ["a", "b", "c"]) == "b"


SOURCE = '''
def entered(values):
  """Has a docstring.

  Args:
    values: some.
  """
  # A comment.

  def inner():
    return 1

  return [inner() for _ in values]


def other():
  return 2
'''


def test_lines_of_code_are_those_of_entered_functions():
  assert walks.code_lines(SOURCE, [2]) == 4
  assert walks.code_lines(SOURCE, [10]) == 2
  assert walks.code_lines(SOURCE, [2, 10, 16]) == 6
  assert walks.code_lines(SOURCE, []) == 0


@pytest.mark.long
def test_the_page_tells_how_much_there_is_to_read():
  page = architecture.PAGE.read_text()
  for walk, (files, lines) in walks.count(draw.ROOT).items():
    row = re.search(rf"\| an? {walk}\b.*\| (\d+) \| ([\d,]+) \|", page)
    assert row, walk
    assert abs(int(row[1]) - files) <= 5
    assert int(row[2].replace(",", "")) == pytest.approx(lines, rel=0.1)
