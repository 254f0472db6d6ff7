"""Adds pages made from the code to MkDocs' files, and translates the guides' marks.

`tests/docs/guide.py` defines the marks of code blocks.
"""

import json
import pathlib
import re
import sys
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from docs.tools import references  # noqa: E402  of this repository, whose root is on the path now

_NOTEBOOKS = "notebooks"

# Pages whose files are in the repository's root.
_COPIES = {"index.md": "README.md", "changelog.md": "CHANGELOG.md", "security.md": "SECURITY.md"}


def on_files(files: Files, config: Any) -> Files:
  """Adds the references, the notebooks, and the pages with files in the repository's root."""
  for page, source in _COPIES.items():
    text = (ROOT / source).read_text().replace("](docs/", "](")
    files.append(File.generated(config, page, content=text))
  for page, make in references.PAGES.items():
    files.append(File.generated(config, page, content=make()))
  for path in sorted((ROOT / _NOTEBOOKS).glob("*.ipynb")):
    name = f"{_NOTEBOOKS}/{path.name}"
    files.append(File.generated(config, name, abs_src_path=str(path)))
    page = File.generated(config, _page_of(name), content=notebook(path))
    files.append(page)
  return files


def notebook(path: pathlib.Path) -> str:
  """Returns a notebook as a page in Markdown, with a link to the file itself."""
  cells = json.loads(path.read_text())["cells"]
  shown = [_cell(cell["cell_type"], "".join(cell["source"])) for cell in cells]
  # After the title, the beginning of the first cell.
  title, _, rest = shown[0].partition("\n")
  link = f'The notebook itself: <a href="{path.name}" download>{path.name}</a>.'
  return "\n\n".join([title, link, rest, *shown[1:]])


def _cell(kind: str, source: str) -> str:
  return source if kind == "markdown" else f"```python\n{source}\n```"


def _page_of(name: str) -> str:
  return name.removesuffix(".ipynb") + ".md"


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
  """Puts the drawings into the page: only there do they get its light or dark colours."""

  def drawing(match: re.Match[str]) -> str:
    return (ROOT / "docs" / "drawings" / match[1]).read_text()

  return re.sub(r'<img [^>]*src="(?:\.\./)*drawings/(\w+\.svg)"[^>]*>', drawing, html)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
  """Returns a page with its code blocks' marks as titles, and links that lead to pages."""
  markdown = re.sub(r"^```(\w+) +(\S+)$", _fence, markdown, flags=re.M)
  depth = page.file.src_uri.count("/")
  return re.sub(r"(!?)\[([^\]]*)\]\(([^)#:]+)(#[^)]*)?\)", _link_in(depth, files), markdown)


def _fence(match: re.Match[str]) -> str:
  language, mark = match.groups()
  language = "python" if language == "gin" else language  # the most similar language
  if mark == "run":
    return f"```{language}"
  return f'```{language} title="{"prints" if mark == "output" else mark}"'


def _link_in(depth: int, files: Files) -> Any:
  """Returns a function from a link to a file to a link to the file's page, or its name."""

  def link(match: re.Match[str]) -> str:
    picture, text, target, anchor = match.groups()
    name = target.removeprefix("../")
    page = next((page for page, source in _COPIES.items() if source == name), None)
    if name.startswith(f"{_NOTEBOOKS}/") and name.endswith(".ipynb"):
      page = _page_of(name)
    if page:
      return f"{picture}[{text}]({'../' * depth}{page}{anchor or ''})"
    if not picture and (ROOT / name).exists() and not files.get_file_from_path(target):
      return f"{text} (`{name}`)" if text.strip("`") != name else f"`{name}`"
    return match[0]

  return link
