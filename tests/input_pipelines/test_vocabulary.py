"""The vocabulary of texts: the words that text_lines knows, the most frequent first."""

import pytest

from input_pipelines import text_lines, vocabulary
from trainer import errors


@pytest.fixture
def texts(tmp_path):
  (tmp_path / "a.tsv").write_text("label\ttext\n1\tGood film, good!\n", encoding="utf-8")
  (tmp_path / "b.jsonl").write_text('{"text": "Été, a film"}\n', encoding="utf-8")
  return [str(tmp_path / "*.tsv"), str(tmp_path / "b.jsonl")]


def test_the_most_frequent_first(texts, tmp_path):
  counted = vocabulary.count_words(texts)
  words = vocabulary.most_frequent(counted, 10)
  assert words == (",", "film", "good", "!", "a", "été")
  assert vocabulary.most_frequent(counted, 2) == (",", "film")
  assert vocabulary.most_frequent(counted, 10, min_count=2) == (",", "film", "good")

  path = str(tmp_path / "vocabulary.txt")
  vocabulary.write(path, words)
  assert text_lines.load_vocabulary(path) == words
  assert text_lines.Tokenizer(words, 4)(["A good FILM"]).numpy().tolist() == [[5, 3, 2, 0]]


def test_what_cannot_be_read_or_written(texts, tmp_path):
  with pytest.raises(errors.InputError, match=r"b\.jsonl, line 1 has no 'review'"):
    vocabulary.count_words(texts[1:], "review")
  with pytest.raises(errors.InputError, match="There is no file"):
    vocabulary.count_words([str(tmp_path / "none.tsv")])
  with pytest.raises(errors.OutputError, match="Cannot write the vocabulary"):
    vocabulary.write(str(tmp_path / "none" / "vocabulary.txt"), ["a"])
