"""Sizes and tables as text."""

import numpy as np
import pytest

from trainer.cli import formatting


@pytest.mark.parametrize(
  "count, text",
  [(0, "0 B"), (12, "12 B"), (3450, "3.45 kB"), (6.71e6, "6.71 MB"), (1.5e9, "1.5 GB")],
)
def test_a_size_on_a_disk(count, text):
  assert formatting.size(count) == text


@pytest.mark.parametrize(
  "count, text", [(102, "0.1 KiB"), (5.25 * 2**20, "5.25 MiB"), (15.48 * 2**30, "15.48 GiB")]
)
def test_a_size_in_memory(count, text):
  assert formatting.memory_size(count) == text


@pytest.mark.parametrize(
  "value, text",
  [(0.12345, "0.123"), (4.5, "4.5"), (99.94, "99.9"), (99.96, "100"), (6789.4, "6,789")],
)
def test_a_number_with_three_digits(value, text):
  assert formatting.three_digits(value) == text


@pytest.mark.parametrize(
  ("value", "text"),
  [
    (0.687875, "0.68788"),
    (12345.678, "12346"),
    (1.0, "1"),
    (np.inf, "inf"),
    (1e-9 / 3, "3.3333e-10"),
  ],
)
def test_five_digits_are_the_same_in_both_precisions(value, text):
  assert formatting.five_digits(value) == text
  assert formatting.five_digits(float(np.float32(value))) == text


def test_fields_of_the_highest_rank_go_first_until_line_fits():
  fields = formatting.Fields([(0, "step 1"), (1, "loss 2"), (2, "lr 3"), (0, "ETA 4")])
  assert str(fields) == "step 1  loss 2  lr 3  ETA 4"
  assert [fields.fit(width) for width in (27, 26, 20, 1)] == [
    "step 1  loss 2  lr 3  ETA 4",
    "step 1  loss 2  ETA 4",
    "step 1  ETA 4",
    "step 1  ETA 4",
  ]


def test_prose_is_folded_and_what_is_copied_is_not():
  path, command = "/a/long/path", "    a command with arguments"
  text = f"Some words and {path}\n{command}"
  assert formatting.fold(text, 10, indent=2).split("\n") == [
    "Some words",
    "  and",
    f"  {path}",
    command,
  ]


def test_a_table_with_numbers_to_the_right():
  text = formatting.table(["name", "count"], [["a", 5], ["longer", 1234]], right=[1])
  assert text.splitlines() == ["name    count", "a           5", "longer   1234"]


def test_a_table_without_titles():
  assert formatting.table(None, [["a", 1], ["bb", 2]]).splitlines() == ["a   1", "bb  2"]


def test_markup_in_a_cell_is_text_and_long_cells_are_not_wrapped():
  cell = "[bold]x[/bold]" + "y" * 500
  assert formatting.table([cell], [[cell]]).splitlines() == [cell, cell]


def test_a_wide_letter_takes_two_columns():
  assert formatting.table(None, [["日本", 1], ["abcd", 2]]).splitlines() == ["日本  1", "abcd  2"]


def test_short_names():
  assert formatting.short_names(["a.b.c", "x.c", "d", "s/e.f"]) == ["b.c", "x.c", "d", "f"]
