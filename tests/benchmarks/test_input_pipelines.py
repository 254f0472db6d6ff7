"""The comparison of input pipelines: a row for each case whose data is there."""

from benchmarks import input_pipelines


def test_rows_and_what_is_left_out(tmp_path, capsys):
  (row,) = input_pipelines.measure(
    tfds=str(tmp_path), pairs=2, seconds=0.01, only=["cifar10_jpeg", "digits"]
  )
  assert (row.question, row.case, row.at_least) == ("input", "digits in memory, batch 32", 0.95)
  assert len(row.ratios) == 2
  assert all(ratio > 0 for ratio in row.ratios)
  assert "Left out CIFAR-10 JPEG TFRecords: cifar10 is not in" in capsys.readouterr().out
