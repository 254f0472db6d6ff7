"""Pages: what a template gets, and what the written file has."""

import re

import jinja2
import pytest

from trainer import errors
from trainer.plot import html_page

TEXT = '{% extends "plot/frame.html" %}{% block body %}{{ text }}{% endblock %}'


def filled(template=TEXT, **values):
  return html_page._environment().from_string(template).render(title="A page", **values)


def test_text_is_escaped_and_never_markup():
  page = filled(text="<script>alert('a & b')</script>")
  assert "&lt;script&gt;alert(&#39;a &amp; b&#39;)&lt;/script&gt;" in page


def test_a_template_without_its_value_is_an_error():
  with pytest.raises(jinja2.UndefinedError, match="text"):
    filled()


def test_templates_of_every_room_are_found():
  environment = html_page._environment()
  rooms = {name.partition("/")[0] for name in environment.list_templates()}
  assert {"plot", "serving", "sweep"} <= rooms


def test_no_page_needs_a_network():
  environment = html_page._environment()
  for name in environment.list_templates():
    source, _, _ = environment.loader.get_source(environment, name)
    # Links to click are no needs.
    assert not re.search(r'(src=|<link[^>]*href=|url\()"?https?:|@import', source), name


def test_a_page_is_in_utf_8_as_it_says(tmp_path):
  page = filled(text="Größe → 数")
  html_page.save(str(tmp_path / "a.html"), page)
  assert (tmp_path / "a.html").read_bytes().decode("utf-8") == page
  assert 'charset="utf-8"' in page.lower() or "charset=utf-8" in page.lower()


def test_a_file_name_that_utf_8_lacks_does_not_stop_the_page(tmp_path):
  run = b"run-\xff".decode(errors="surrogateescape")  # as os.listdir gives it
  html_page.save(str(tmp_path / "a.html"), filled(text=run))
  assert "run-?" in (tmp_path / "a.html").read_text()


def test_a_folder_that_is_missing_is_named(tmp_path):
  with pytest.raises(errors.OutputError, match=r"none/a\.html \(--html\)"):
    html_page.save(str(tmp_path / "none" / "a.html"), "text")


def test_an_address_that_no_page_can_have_is_refused():
  with pytest.raises(errors.SettingError, match="expected a local path"):
    html_page.save("hdfs://host/a.html", "text")
