"""Rows of results: what is shown, what holds, what a second run leaves."""

from benchmarks import results


def row(case, ratios, **bound):
  return results.Row("train", case, "bare loop", tuple(ratios), **bound)


def test_the_figure_is_the_median_and_is_judged_as_it_is_shown():
  assert row("a", [0.5, 2, 0.976], at_least=0.98).median == 0.976
  assert row("a", [0.976], at_least=0.98).holds
  assert not row("a", [0.974], at_least=0.98).holds
  assert not row("a", [1.26], at_most=1.25).holds
  assert row("a", [9]).holds
  assert [
    row("a", [1], **bound).bound for bound in ({"at_least": 0.98}, {"at_most": 1.25}, {})
  ] == ["≥ 0.98", "≤ 1.25", ""]


def test_a_run_replaces_its_own_rows_and_leaves_the_others(tmp_path):
  results.add([row("a", [1, 2, 3]), row("b", [4])], tmp_path)
  results.add([row("b", [5], at_least=6)], tmp_path)
  assert results.read(tmp_path / "results.json") == [row("a", [1, 2, 3]), row("b", [5], at_least=6)]
  assert (
    "| train | a | bare loop | 2.00 | 1.50 to 2.50 |  |" in (tmp_path / "results.md").read_text()
  )


def test_a_side_that_failed_is_a_row_that_says_so(tmp_path, capsys):
  failed = results.Row(
    "train", "a", "PyTorch", (), at_least=1, note="torch: its process died of SIGABRT"
  )
  assert not failed.holds
  results.add([failed, row("b", [4])], tmp_path)
  assert results.read(tmp_path / "results.json")[0] == failed
  assert "| train | a | PyTorch | failed |  | ≥ 1 |" in (tmp_path / "results.md").read_text()
  results.show([failed])
  assert "SIGABRT" in capsys.readouterr().out


def test_the_table_marks_what_does_not_hold(capsys):
  results.show([row("a", [1], at_least=2), row("b", [3], at_least=2)])
  lines = capsys.readouterr().out.splitlines()
  assert ["✗" in line for line in lines if "bare loop" in line] == [True, False]
