"""docs/tools/readability.py finds sentences, their faults, messages and comments."""

import ast

import pytest

from docs.tools import readability


def test_sentences_leave_out_code_links_and_tables():
  text = (
    "# The short title\n\nOctet reads `a.py` first. Then [it writes](b.md) a file.\n\n"
    "```python\nthis is no sentence = 1\n```\n\n| the first cell | another cell here |\n|---|---|\n"
  )
  assert list(readability.sentences_of(text)) == [
    "The short title",
    "Octet reads CODE first.",
    "Then it writes a file.",
    "the first cell",
    "another cell here",
  ]


@pytest.mark.parametrize(
  ("sentence", "faults"),
  [
    ("Octet writes the checkpoint before the evaluation.", []),
    ("The checkpoint is already written.", ["passive"]),
    ("A file which nobody reads is an error.", ["relative clause"]),
    ("It compares the mean with that of another run.", ["dangling pronoun"]),
    ("The argument stands for the batch.", ["dropped phrase"]),
  ],
)
def test_faults_are_found(sentence, faults):
  (found,) = readability.sentences_of(sentence)
  assert readability.Sentence(found, "page.md").faults == faults


CODE = '''"""Reads the whole file.

Args:
  path: the file to read.
"""

# The first line
# of a comment.
raise ValueError(f"No file {path} is here.")  # noqa: F821
x = 1  # one comment more
print("Octet read the file.")
'''


def test_parts_of_a_module():
  tree = ast.parse(CODE)
  assert list(readability.messages(tree)) == ["No file X is here.", "Octet read the file."]
  (docstring,) = readability.docstrings(tree)
  assert list(readability.sentences_of(docstring)) == ["Reads the whole file.", "the file to read."]
  assert [line for line, _ in readability.comments(CODE)] == [7, 8, 10]
  assert readability.lines_of_code(CODE) == 3
