"""The command that writes a vocabulary: its flags, its sentence, and mistakes."""

import pytest

from tests.trainer import mains
from trainer import errors

NAME = "input_pipelines.make_vocabulary"


@pytest.fixture
def write(tmp_path):
  """Runs the command on two files; returns the written words."""
  (tmp_path / "a.tsv").write_text("label\tbody\n1\tGood film, good!\n", encoding="utf-8")
  (tmp_path / "b.jsonl").write_text('{"body": "Été, a film"}\n', encoding="utf-8")

  def write(*flags):
    inputs = [f"--input={tmp_path}/*.tsv", f"--input={tmp_path / 'b.jsonl'}", "--text_key=body"]
    with mains.loaded(NAME, *inputs, f"--output={tmp_path / 'v.txt'}", *flags) as main:
      main.main(["make_vocabulary"])
    return (tmp_path / "v.txt").read_text(encoding="utf-8").splitlines()

  return write


@pytest.mark.parametrize(
  ("flags", "words", "sentence"),
  [
    ((), [",", "film", "good", "!", "a", "été"], "Wrote 6 of 6 words to "),
    (("--size=2",), [",", "film"], "Wrote 2 of 6 words to "),
    (("--min_count=2",), [",", "film", "good"], "Wrote 3 of 6 words to "),
  ],
)
def test_the_words_and_their_share(write, capsys, flags, words, sentence):
  assert write(*flags) == words
  out = capsys.readouterr().out
  assert out.startswith(sentence)
  share = {6: "100.0%", 2: "44.4%", 3: "66.7%"}[len(words)]
  assert out.endswith(f": {share} of the texts.\n")


def test_too_rare_words_write_no_file(write, tmp_path):
  with pytest.raises(errors.InputError, match=r"No word is there 9 times: .*\(--min_count\)"):
    write("--min_count=9")
  assert not (tmp_path / "v.txt").exists()


def test_a_missing_file_names_the_flag(write):
  with pytest.raises(errors.InputError, match=r"There is no file none\.tsv \(--input\)"):
    write("--input=none.tsv")


def test_a_missing_flag_is_told_with_an_example():
  with mains.loaded(NAME) as main, pytest.raises(errors.SettingError, match="No --input. Try"):
    main.main(["make_vocabulary"])


def test_a_text_is_not_replaced_by_its_words(write, tmp_path):
  with pytest.raises(errors.SettingError, match=r"b\.jsonl is a file of --input"):
    write(f"--output={tmp_path / 'b.jsonl'}")
  assert (tmp_path / "b.jsonl").read_text(encoding="utf-8").startswith("{")
