"""The Transformer learns, does not see what was padded, and knows the size of its vocabulary."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import trainer
from models import multi_label, transformer_classifier
from tests.models import small_runs
from trainer import errors

LABELS = (np.arange(small_runs.EXAMPLES) % 2).astype(np.int32)
RANDOM = np.random.RandomState(0)
TOKENS = RANDOM.randint(3, 20, (small_runs.EXAMPLES, 7)).astype(np.int32)
TOKENS[:, 2] = np.where(LABELS, 1, 2)  # which says the label
TOKENS[:, 5:] = 0

small = functools.partial(
  transformer_classifier.model_fn,
  vocabulary_size=20,
  layers=1,
  units=8,
  heads=2,
  mlp_units=16,
  dropout=0.0,
  optimizer=functools.partial(keras.optimizers.Adam, 0.02),
)


@pytest.mark.long
def test_learns_and_serves(tmp_path):
  _, results = small_runs.check(small, {"tokens": TOKENS}, LABELS, tmp_path, steps=40)
  assert results["accuracy"] == 1.0


@pytest.mark.long
def test_dropout_and_bfloat16(tmp_path):
  small_runs.check(
    functools.partial(small, dropout=0.2),
    {"tokens": TOKENS},
    LABELS,
    tmp_path,
    precision="bfloat16",
    falls=False,
  )


def test_padding_changes_nothing():
  """The same text, padded to another length; positions and all else being the same."""
  keras.utils.set_random_seed(0)
  logits = _two_lengths(TOKENS, np.pad(TOKENS, [(0, 0), (0, 3)]))
  np.testing.assert_allclose(logits[0], logits[1], rtol=1e-4, atol=1e-5)


def test_a_token_in_place_of_padding_changes_the_result():
  keras.utils.set_random_seed(0)
  logits = _two_lengths(TOKENS, np.pad(TOKENS, [(0, 0), (0, 3)], constant_values=4))
  assert np.abs(logits[0] - logits[1]).max() > 1e-3


def test_a_text_without_a_token_is_finite():
  keras.utils.set_random_seed(0)
  assert np.isfinite(_two_lengths(np.zeros_like(TOKENS))[0]).all()


def test_the_size_of_the_vocabulary_comes_from_its_file(tmp_path):
  """18 words, the padding and the unknown word."""
  path = tmp_path / "vocabulary.txt"
  path.write_text("\n".join(f"word{i}" for i in range(18)) + "\n")
  model_fn = functools.partial(small, vocabulary_size=None, vocabulary_file=str(path))
  estimator = small_runs.trained(model_fn, {"tokens": TOKENS}, LABELS, tmp_path / "run", steps=0)
  assert estimator.variables["tokens/embeddings"].shape == (20, 8)


@pytest.mark.parametrize(
  "settings, message",
  [
    (dict(vocabulary_size=None), "set one of vocabulary_file"),
    (dict(vocabulary_file="x"), "set one of vocabulary_file"),
    (
      dict(vocabulary_size=None, vocabulary_file="/nowhere/v.txt"),
      "no vocabulary file '/nowhere/v.txt'",
    ),
    (dict(units=9), r"units \(9\) must be a multiple of heads \(2\)"),
  ],
)
def test_mistakes_are_named(settings, message):
  with pytest.raises(errors.SettingError, match=message):
    small({"tokens": tf.constant(TOKENS)}, None, trainer.ModeKeys.PREDICT, {}, **settings)


def _two_lengths(*batches):
  """Logits of batches of tokens under the same values; the embedding of positions is cut to
  each one's length.
  """
  values = []
  results = []
  for tokens in sorted(batches, key=lambda tokens: -tokens.shape[1]):
    made = iter(list(values))

    def creator(next_creator, made=made, **kwargs):
      kwargs = dict(kwargs)
      if values and (known := next(made, None)) is not None:
        kwargs["initial_value"] = (
          known[: tokens.shape[1]]
          if kwargs["name"] == "embeddings" and known.shape[0] != 20
          else known
        )
      variable = next_creator(**kwargs)
      created.append(variable.numpy())
      return variable

    created = []
    with tf.variable_creator_scope(creator):
      results.append(
        transformer_classifier.network(tf.constant(tokens), False, 2, 20, 1, 8, 2, 16, 0.0).numpy()
      )
    values = values or created
  return results


def test_another_task_has_labels_of_its_own():
  tags = np.stack([LABELS, 1 - LABELS, LABELS], 1)
  task = functools.partial(small, classes=3, task=multi_label.spec)
  found = task({"tokens": TOKENS}, tf.constant(tags), trainer.ModeKeys.EVAL, {})
  assert found.loss.shape == ()
  predictions = task({"tokens": TOKENS}, None, trainer.ModeKeys.PREDICT, {}).predictions
  assert predictions["present"].shape == tags.shape
