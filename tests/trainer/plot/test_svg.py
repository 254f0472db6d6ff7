"""Pictures as <svg> elements of a page."""

import re
import xml.etree.ElementTree

import pytest

from trainer import errors
from trainer.plot import svg


def picture(title="loss by step", text_color=svg.TEXT_COLOR, label="loss", values=(1, 3, 2)):
  with svg.figure_class(text_color) as figure_class:
    figure = figure_class(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot(range(len(values)), values, label=label)
    axes.set_xlabel(label)
    axes.legend()
    return svg.element(figure, title)


def test_an_element_takes_size_and_colors_of_the_page():
  text = picture()
  root = xml.etree.ElementTree.fromstring(text)
  assert root.tag.endswith("svg")
  assert {"viewBox", "role"} <= root.attrib.keys()
  assert not {"width", "height"} & root.attrib.keys()
  assert "currentColor" in text
  assert svg.TEXT_COLOR not in text


def test_letters_are_text_that_nobody_reads_as_a_formula():
  text = picture(label="$cost$ <50 % & x_1")
  root = xml.etree.ElementTree.fromstring(text)
  found = [element.text for element in root.iter() if element.tag.endswith("text")]
  assert found.count("$cost$ <50 % & x_1") == 2


def test_a_title_is_an_attribute_whatever_it_has():
  title = "\"a\" < 'b' & <svg"
  text = picture(title)
  assert xml.etree.ElementTree.fromstring(text).attrib["aria-label"] == title


def test_two_pictures_of_a_page_share_only_equal_definitions():
  found = {}
  for text in (picture(), picture(label="accuracy", values=(5, 6, 9, 1))):
    for identity, rest in re.findall(r'<(?:path|clipPath) id="([^"]+)"(.*?)</', text, re.DOTALL):
      assert found.setdefault(identity, rest) == rest
    assert '<g id="' not in text
  assert found


def test_equal_curves_give_equal_elements():
  assert picture() == picture()


def test_the_settings_end_with_the_block():
  import matplotlib

  matplotlib.rcParams["font.size"] = 23
  try:
    with svg.figure_class():
      assert matplotlib.rcParams["font.size"] == 10
    assert matplotlib.rcParams["font.size"] == 23
  finally:
    matplotlib.rcParams["font.size"] = matplotlib.rcParamsDefault["font.size"]


def test_a_missing_matplotlib_is_told_with_its_installation(monkeypatch):
  monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
  with pytest.raises(errors.SettingError, match="Pictures need matplotlib: .*plot"):
    with svg.figure_class():
      pass
