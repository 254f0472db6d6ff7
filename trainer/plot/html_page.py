"""The frame of a page that needs nothing else: no script, no network; light or dark as the
reader has it, on a screen of any width.
"""

import html

_STYLE = """
:root { color-scheme: light dark; --text: #222; --page: #fff; --soft: #666; --line: #ddd; --box: #f5f5f5; --passed: #176317; --failed: #a31515;
  --bar: #3569a8; }
@media (prefers-color-scheme: dark) { :root { --text: #ddd; --page: #16181c; --soft: #9a9a9a; --line: #3a3d42; --box: #212429; --passed: #6cc26c;
  --failed: #f08080; --bar: #6a9ad4; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: var(--text); background: var(--page); }
h1, h2, p, li, td, summary { overflow-wrap: anywhere; }
h1 { line-height: 1.2; }
.table { overflow-x: auto; margin: .5rem 0 1rem; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .2rem 1rem .2rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; }
th, td:first-child { white-space: nowrap; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--box); padding: .6rem; }
code { font-size: .92em; }
"""


def page(title, body, style=""):
  """The text of a page.

  Args:
    title: as plain text.
    body: HTML.
    style: CSS of this page's own.
  """
  return (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
    'content="width=device-width, initial-scale=1">'
    f"<title>{html.escape(title)}</title><style>{_STYLE}{style}</style></head>\n<body>{body}</body></html>\n"
  )


def table(header, rows, numbers=()):
  """A table.

  Args:
    header: list of plain texts, or None.
    rows: list of lists of plain texts.
    numbers: indices of the columns that are aligned as numbers.
  """

  def row(cells, tag):
    return (
      "<tr>"
      + "".join(
        f"<{tag}{' class=number' if index in numbers else ''}>{html.escape(str(cell))}</{tag}>"
        for index, cell in enumerate(cells)
      )
      + "</tr>"
    )

  head = row(header, "th") if header else ""
  return (
    f'<div class="table"><table>{head}{"".join(row(cells, "td") for cells in rows)}</table></div>'
  )
