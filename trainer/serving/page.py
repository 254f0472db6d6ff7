"""The HTML page to try a model with an image, a text or a row; and the list of models."""

from collections.abc import Sequence
from typing import Any

from trainer.outputs.preprocessing import FROM_BYTES
from trainer.plot import html_page
from trainer.serving.loaded_model import LoadedModel

_ABOUT = ("model", "global_step", "exported", "class_names", "metrics", "decodes", "versions")


def html(name: str) -> str:
  """Returns the page for a model of this name. It asks the server for the model's inputs."""
  return html_page.render("serving/page.html", title=f"Octet: {name}", name=name)


def index(names: Sequence[str]) -> str:
  """Returns a page with a link to the page of each model."""
  return html_page.render("serving/index.html", title="Octet", names=names)


def about(loaded: LoadedModel) -> dict[str, Any]:
  """Returns the page's content about a model."""
  # The page can send one image, so the model must take an image and nothing else.
  takes_image = list(loaded.decoders) == list(loaded.inputs) and len(loaded.inputs) == 1
  has_bytes = FROM_BYTES in loaded.description["signatures"]
  return {
    **{key: loaded.description.get(key) for key in _ABOUT},
    "raw": {
      name: {key: value for key, value in column.items() if key != "known"}
      for name, column in loaded.raw.items()
    },
    "engine": loaded.engine.name,
    "version": loaded.version,
    "image": next(iter(loaded.inputs)) if takes_image and has_bytes else None,
  }
