"""The HTML page of a model, on which one tries it with an image, a text or a row; and the list."""

from collections.abc import Sequence

from trainer.plot import html_page


def html(name: str) -> str:
  """Returns the page for a model of this name. It asks the server what the model takes."""
  return html_page.render("serving/page.html", title=f"Octet: {name}", name=name)


def index(names: Sequence[str]) -> str:
  """Returns a page with a link to the page of each model."""
  return html_page.render("serving/index.html", title="Octet", names=names)
