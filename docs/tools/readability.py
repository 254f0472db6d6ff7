"""Counts how readable the project's English is, part by part.

    python -m docs.tools.readability                 # a table: README, documents, docstrings, ...
    python -m docs.tools.readability --sample=40     # sentences at random, by --seed
    python -m docs.tools.readability --worst=200     # the sentences with the most faults
    python -m docs.tools.readability --comments      # comments per line of code, room by room
    python -m docs.tools.readability --tree=FOLDER   # the same for another checkout

Regular expressions find the faults, so a share is an estimate. Compare two trees by the same
expressions; a share alone proves little.
"""

import argparse
import ast
import collections
import dataclasses
import io
import pathlib
import random
import re
import statistics
import tokenize
from collections.abc import Iterable, Iterator

from docs.tools import draw

_IRREGULAR = (
  "begun|bound|built|cast|chosen|cut|done|drawn|fed|found|given|gone|had|held|kept|known|laid|left|"
  "lost|made|meant|met|put|read|run|said|seen|sent|set|shown|split|spread|taken|told|thrown|"
  "understood|won|written"
)
_BETWEEN = r"(?:\s+(?:\w+ly|not|also|then|already|still|often|never|always|again|both|only|each))?"

FAULTS = {
  "passive": re.compile(
    rf"\b(?:is|are|was|were|be|been|being){_BETWEEN}\s+(?:\w+ed|{_IRREGULAR})\b", re.I
  ),
  "relative clause": re.compile(
    r"\b(?:which|who|whose|whom)\b|\bthat (?:is|are|was|were|has|have|had|can|may|will|does|do)\b"
    r"|(?<!^)\bwhat\b",
    re.I,
  ),
  "dangling pronoun": re.compile(
    r"^(?:It|They|Those|Others|Both|None|One|Such)\b(?! of the)"
    r"|^(?:This|That|These) (?:is|are|was|were|has|have|can|may|does|do|will|must|needs?|means?)\b"
    r"|\b(?:that|those) of\b|\b(?:those|ones?) (?:that|which|who|whose)\b"
    r"|\bof (?:it|them|those|these)\b|\bthe (?:latter|former|others)\b"
  ),
  "dropped phrase": re.compile(
    r"\bthat is said\b|\bit is said\b|\bis said to\b|\bstands? for\b|\bof those\b|\bbut for\b"
    r"|\b(?:said|told|shown|known|refused) else\b|\bin place of\b|\bmade-up\b|\bbeside others\b"
    r"|\bsave that\b|\bwhat is (?:there|had|left)\b|\bas it is\b|\bas they are\b|\bis at hand\b",
    re.I,
  ),
}
_CALLS = re.compile(
  r"^(?:print|warn|warning|info|log|error|say|fail|exit|DEFINE_\w+|add_argument)$"
)


@dataclasses.dataclass(frozen=True)
class Sentence:
  """A sentence, and its file."""

  text: str
  path: pathlib.Path

  @property
  def words(self) -> int:
    """The number of words."""
    return len(self.text.split())

  @property
  def faults(self) -> list[str]:
    """The names of the faults in the sentence."""
    return [name for name, pattern in FAULTS.items() if pattern.search(self.text)]


def sentences_of(text: str) -> Iterator[str]:
  """Yields the sentences of three words or more in Markdown or a docstring, without its code."""
  text = re.sub(r"^ *```.*?^ *```$", "\n\n", text, flags=re.M | re.S)
  text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
  text = re.sub(r"``?[^`]+``?", "CODE", text)
  text = re.sub(r"^ {4,}\S.*$", "\n", text, flags=re.M) if "\n\n    " in text else text
  text = re.sub(r"^\s*(?:[-*#>|:]+|\d+\.)\s+|^\s*\|[-|]+$", "\n\n", text, flags=re.M)
  for paragraph in re.split(r"\n\s*\n|\s\|\s?|\|$", text, flags=re.M):
    for sentence in re.split(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*A-Z`])", " ".join(paragraph.split())):
      if len(re.findall(r"[A-Za-z]{2,}", sentence)) >= 3:
        yield sentence.strip("* |")


def docstrings(tree: ast.AST) -> Iterator[str]:
  """Yields the docstrings of a module; the items of `Args:` begin after their names."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
      text = ast.get_docstring(node) or ""
      text = re.sub(r"^(?:Args|Returns|Raises|Yields|Attributes|Example):$", "", text, flags=re.M)
      yield re.sub(r"^  (?=\w[\w*, ]*: )[^:]+: ", "\n\n", text, flags=re.M)


def messages(tree: ast.AST) -> Iterator[str]:
  """Yields the texts that the code prints, logs and raises, and the help of its flags."""
  for node in ast.walk(tree):
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
      yield from _texts(node.exc)
    elif isinstance(node, ast.Call):
      name = getattr(node.func, "attr", getattr(node.func, "id", ""))
      if _CALLS.match(name):
        yield from _texts(node)


def _texts(call: ast.Call) -> Iterator[str]:
  for value in [*call.args, *(keyword.value for keyword in call.keywords)]:
    if isinstance(value, ast.JoinedStr):
      yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in value.values)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
      yield value.value


def comments(code: str) -> list[tuple[int, str]]:
  """Returns (line, text) of each comment for a reader; `noqa` and the like are for tools."""
  found = [
    (token.start[0], token.string.lstrip("#: "))
    for token in tokenize.generate_tokens(io.StringIO(code).readline)
    if token.type == tokenize.COMMENT
  ]
  return [each for each in found if not re.match(r"(noqa|type: |pragma|pylint|!)", each[1])]


def lines_of_code(code: str) -> int:
  """Returns how many lines are neither empty nor a docstring nor a comment alone."""
  return len(numbers_of_code(code))


def numbers_of_code(code: str) -> set[int]:
  """Returns the numbers of these lines."""
  lines = {number for number, line in enumerate(code.splitlines(), 1) if line.strip(" #")}
  lines -= {n for n, line in enumerate(code.splitlines(), 1) if line.lstrip().startswith("#")}
  for node in ast.walk(ast.parse(code)):
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
      lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
  return lines


def _comment_texts(code: str) -> Iterator[str]:
  """Yields comments, where comments of lines that follow each other are one text."""
  last, text = -1, ""
  for line, comment in comments(code):
    if line != last + 1:
      yield text
      text = ""
    last, text = line, f"{text} {comment}"
  yield text


def parts(tree: pathlib.Path) -> dict[str, list[Sentence]]:
  """Returns the sentences of a checkout by part."""
  found = collections.defaultdict(list)

  def add(part: str, path: pathlib.Path, texts: Iterable[str]) -> None:
    for text in texts:
      found[part] += (Sentence(each, path.relative_to(tree)) for each in sentences_of(text))

  add("README", tree / "README.md", [(tree / "README.md").read_text()])
  others = [tree / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY")]
  for path in [*sorted((tree / "docs").rglob("*.md")), *others]:
    add("documents", path, [path.read_text()])
  for path in sorted((tree / "trainer").rglob("*.py")):
    code = path.read_text()
    module = ast.parse(code)
    add("docstrings", path, docstrings(module))
    add("messages", path, messages(module))
    add("comments", path, _comment_texts(code))
  return found


def table(found: dict[str, list[Sentence]]) -> str:
  """Returns the counts by part in Markdown."""
  rows = [f"| part | sentences | words, mean | words, 90th percentile | {' | '.join(FAULTS)} |"]
  rows.append("|---|---|---|---|" + "---|" * len(FAULTS))
  for part, sentences in found.items():
    words = [each.words for each in sentences]
    tenth = statistics.quantiles(words, n=10)[-1]
    counts = collections.Counter(fault for each in sentences for fault in each.faults)
    shares = " | ".join(f"{counts[name] / len(words):.1%}" for name in FAULTS)
    rows.append(
      f"| {part} | {len(words)} | {statistics.mean(words):.1f} | {tenth:.0f} | {shares} |"
    )
  return "\n".join(rows)


def comments_by_room(tree: pathlib.Path) -> str:
  """Returns for each room its lines of code and its lines with a comment, in Markdown."""
  code, commented = collections.Counter[str](), collections.Counter[str]()
  for path in sorted((tree / "trainer").rglob("*.py")):
    room = path.relative_to(tree / "trainer").parts[0]
    code[room] += lines_of_code(path.read_text())
    commented[room] += len({line for line, _ in comments(path.read_text())})
  rows = [
    f"| {room} | {code[room]} | {commented[room]} | {commented[room] / max(code[room], 1):.1%} |"
    for room in [*code]
  ]
  share = commented.total() / code.total()
  rows.append(f"| all | {code.total()} | {commented.total()} | {share:.1%} |")
  return "\n".join(
    ["| room | lines of code | with a comment | share |", "|---|---|---|---|", *rows]
  )


def main() -> None:
  """Runs the command."""
  parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
  parser.add_argument("--tree", type=pathlib.Path, default=draw.ROOT, help="the checkout to count")
  parser.add_argument("--sample", type=int, help="print so many sentences at random")
  parser.add_argument("--worst", type=int, help="print so many sentences with the most faults")
  parser.add_argument("--part", help="print sentences of this part alone")
  parser.add_argument("--seed", type=int, default=7)
  parser.add_argument("--comments", action="store_true", help="count comments, room by room")
  flags = parser.parse_args()
  if flags.comments:
    print(comments_by_room(flags.tree))
    return
  found = parts(flags.tree)
  sentences = [s for part, each in found.items() for s in each if flags.part in (None, part)]
  if flags.sample:
    sentences = random.Random(flags.seed).sample(sentences, flags.sample)
  elif flags.worst:
    key = lambda each: (len(each.faults), each.words)
    sentences = sorted(sentences, key=key, reverse=True)[: flags.worst]
  else:
    print(table(found))
    return
  for each in sentences:
    print(f"{each.path}: {each.text}")


if __name__ == "__main__":
  main()
