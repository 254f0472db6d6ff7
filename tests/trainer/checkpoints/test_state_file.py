"""The file `checkpoint`: what TensorFlow reads in it, and what tells an edit."""

import pytest
import tensorflow as tf

from trainer.checkpoints import state_file

OWN = state_file.compose(["model.ckpt-3", "model.ckpt-5"])


def test_tensorflow_reads_what_octet_writes(tmp_path):
  (tmp_path / "checkpoint").write_text(OWN)
  found = tf.train.get_checkpoint_state(str(tmp_path))
  assert found.model_checkpoint_path == str(tmp_path / "model.ckpt-5")
  assert len(found.all_model_checkpoint_paths) == 2


def test_own_text_is_known_again():
  assert state_file.parse(OWN) == state_file.State("model.ckpt-5", frozenset({3, 5}), True)


@pytest.mark.parametrize(
  "text, newest",
  [
    (OWN.replace('path: "model.ckpt-5', 'path: "model.ckpt-3'), "model.ckpt-3"),
    ("model_checkpoint_path: 'model.ckpt-3'", "model.ckpt-3"),
    ("# model_checkpoint_path: 'a'\n  model_checkpoint_path :\"b\" ", "b"),
    ('model_checkpoint_path: "a"\nmodel_checkpoint_path: "b"', ""),
    ('all_model_checkpoint_paths: "a"', ""),
    ("nonsense", ""),
    ("", ""),
    (OWN.replace("# Octet wrote", "# Octet had written"), "model.ckpt-5"),
    (OWN.partition("# Octet")[0], "model.ckpt-5"),
  ],
)
def test_other_texts_are_not_octets_own(text, newest):
  state = state_file.parse(text)
  assert (state.newest, state.is_own) == (newest, False)
