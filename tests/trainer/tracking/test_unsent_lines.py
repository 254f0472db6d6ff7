"""What a tracker still lacks, whoever was killed, and whoever went back."""

from trainer.reporting import metrics_file
from trainer.tracking import unsent_lines


def append(folder, *steps, kind="train", loss=1.0):
  for step in steps:
    metrics_file.append(str(folder), kind, step, {"loss": loss})


def found(lines):
  return [(line["kind"], line["step"], line["loss"]) for line in lines.read()]


def test_a_line_is_read_until_it_is_sent(tmp_path):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20)
  lines = unsent_lines.UnsentLines(str(tmp_path), {}, begun_at=0)
  assert found(lines) == found(lines) == [("train", 10, 1.0), ("train", 20, 1.0)]
  lines.mark_sent(lines.read()[:1])
  append(tmp_path, 20, kind="eval")
  assert found(lines) == [("train", 20, 1.0), ("eval", 20, 1.0)]


def test_a_line_that_is_half_written_waits(tmp_path):
  lines = unsent_lines.UnsentLines(str(tmp_path), {})
  with open(tmp_path / metrics_file.NAME, "w") as file:
    file.write('{"step": 10, "time": 1.0, "kind": "train", "lo')
    file.flush()
    assert found(lines) == []
    file.write('ss": 0.5}\n')
  assert found(lines) == [("train", 10, 0.5)]


def test_repeated_steps_after_a_kill_are_not_sent_again(tmp_path):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20, 30)
  metrics_file.begin(str(tmp_path), 10)
  append(tmp_path, 20, loss=2.0)
  lines = unsent_lines.UnsentLines(str(tmp_path), {"train": {10, 20, 30}}, begun_at=10, saved=10)
  append(tmp_path, 30, 40, loss=2.0)
  assert found(lines) == [("train", 40, 2.0)]


def test_unsent_lines_of_an_earlier_process_are_sent_as_valid(tmp_path):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20, 30)
  metrics_file.begin(str(tmp_path), 10)
  append(tmp_path, 20, loss=2.0)
  lines = unsent_lines.UnsentLines(str(tmp_path), {}, begun_at=10)
  assert found(lines) == [("train", 10, 1.0), ("train", 20, 2.0)]


def test_a_rollback_sends_its_steps_again(tmp_path):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20, 30)
  lines = unsent_lines.UnsentLines(str(tmp_path), {}, begun_at=0)
  lines.mark_sent(lines.read())
  metrics_file.begin(str(tmp_path), 10)
  append(tmp_path, 20, loss=2.0)
  assert found(lines) == [("train", 20, 2.0)]


def test_a_rollback_drops_what_waits_to_be_sent(tmp_path):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20, 30)
  lines = unsent_lines.UnsentLines(str(tmp_path), {}, begun_at=0)
  metrics_file.begin(str(tmp_path), 10)
  append(tmp_path, 20, loss=2.0)
  assert found(lines) == [("train", 10, 1.0), ("train", 20, 2.0)]


def test_who_begins_below_the_newest_checkpoint_was_sent_back(tmp_path):
  metrics_file.begin(str(tmp_path), 0)
  append(tmp_path, 10, 20, 30)
  metrics_file.begin(str(tmp_path), 10)
  append(tmp_path, 20, loss=2.0)
  sent = {"train": {10, 20, 30}}
  assert found(unsent_lines.UnsentLines(str(tmp_path), sent, begun_at=10, saved=20)) == [
    ("train", 20, 2.0)
  ]
