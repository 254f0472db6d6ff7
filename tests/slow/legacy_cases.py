"""The published programs for legacy_programs.py: small data for them, and their arguments.

The data have 16 examples and batches have 16, so each step sees the same examples. Dropout is off
by the programs' own settings where they have one.
"""

import collections
import dataclasses
import json
import pathlib
from collections.abc import Callable

import numpy as np

STEPS = 20
_BATCH = 16
_WORDS = 64
_LENGTH = 32
_BERT = dict(
  hidden_size=32,
  num_hidden_layers=2,
  num_attention_heads=2,
  intermediate_size=64,
  hidden_dropout_prob=0.0,
  attention_probs_dropout_prob=0.0,
  max_position_embeddings=_LENGTH,
)


@dataclasses.dataclass(frozen=True)
class Case:
  """A program.

  Attributes:
    flag: the flag for the folder of its checkout.
    program: its file, from the checkout.
    make_data: function of a folder that writes data there.
    arguments: function of (the data's folder, model_dir, "train", "evaluate" or "export", an
      initial checkpoint or None) that returns the command line.
    model_dir: function from the given model_dir to the folder with the checkpoints.
    losses_are_sums: whether a loss is a sum over the batch: N cores then report an N-th of it.
    begins_in_model_dir: whether to put an initial checkpoint into the model_dir.
    predicts: whether it calls Estimator.predict, to compare with an export's outputs.
    root: the folder on the path, from the checkout.
  """

  flag: str
  program: str
  make_data: Callable
  arguments: Callable
  model_dir: Callable = lambda folder: folder
  losses_are_sums: bool = False
  begins_in_model_dir: bool = True
  predicts: bool = True
  root: str = "."


def _vocabulary(folder):
  words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<unk>"]
  words += [f"w{i}" for i in range(_WORDS - len(words))]
  (folder / "vocab.txt").write_text("\n".join(words) + "\n")
  return words


def _sentence(random, words, length=10):
  return " ".join(random.choice(words[6:], length))


def _write_records(path, rows):
  import tensorflow as tf

  def feature(value):
    if isinstance(value, bytes):
      return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value))

  path.parent.mkdir(parents=True, exist_ok=True)
  with tf.io.TFRecordWriter(str(path)) as out:
    for row in rows:
      features = tf.train.Features(feature={name: feature(value) for name, value in row.items()})
      out.write(tf.train.Example(features=features).SerializeToString())


def _mrpc(folder):
  """Pairs of sentences, half of them equal, in the form of GLUE's MRPC."""
  random = np.random.RandomState(1)
  words = _vocabulary(folder)
  for split in ("train", "dev", "test"):
    rows = ["label\tid1\tid2\ta\tb"]
    for index in range(_BATCH):
      first = _sentence(random, words)
      second = first if index % 2 else _sentence(random, words)
      rows.append(f"{index % 2}\t{index}\t{index}\t{first}\t{second}")
    path = folder / "MRPC" / f"{split}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n")


# ------------------------------------------------------------------ ELECTRA


def _electra_data(folder):
  random = np.random.RandomState(0)
  _vocabulary(folder)
  halves = [0] * (_LENGTH // 2) + [1] * (_LENGTH // 2)
  rows = [
    {
      "input_ids": [2, *random.randint(6, _WORDS, _LENGTH - 2), 3],
      "input_mask": [1] * _LENGTH,
      "segment_ids": halves,
    }
    for _ in range(_BATCH)
  ]
  _write_records(folder / "pretrain_tfrecords" / "pretrain_data.tfrecord-0-of-1", rows)
  _mrpc(folder)
  (folder / "finetuning_data").mkdir(exist_ok=True)
  (folder / "MRPC").rename(folder / "finetuning_data" / "mrpc")


def _electra(data, hparams):
  hparams |= dict(
    vocab_size=_WORDS,
    embedding_size=32,
    max_seq_length=_LENGTH,
    train_batch_size=_BATCH,
    eval_batch_size=_BATCH,
    iterations_per_loop=1,
    learning_rate=1e-3,
    model_hparam_overrides=_BERT,
  )
  return [f"--data-dir={data}", "--model-name=small", f"--hparams={json.dumps(hparams)}"]


def _pretraining(data, model_dir, phase, checkpoint):
  del checkpoint
  return _electra(
    data,
    dict(
      model_dir=str(model_dir),
      num_train_steps=STEPS,
      num_warmup_steps=5,
      num_eval_steps=2,
      save_checkpoints_steps=1000,
      do_train=phase == "train",
      do_eval=phase == "evaluate",
    ),
  )


def _finetuning(data, model_dir, phase, checkpoint):
  return _electra(
    data,
    dict(
      model_dir=str(model_dir / "mrpc"),
      preprocessed_data_dir=str(model_dir / "records"),
      results_txt=str(model_dir / "results" / "results.txt"),
      results_pkl=str(model_dir / "results" / "results.pkl"),
      init_checkpoint=checkpoint,
      task_names=["mrpc"],
      double_unordered=False,
      num_train_epochs=float(STEPS),
      predict_batch_size=_BATCH,
      do_train=phase == "train",
      do_eval=True,
    ),
  )


# ------------------------------------------------------------------ ALBERT


def _albert_data(folder):
  _mrpc(folder)
  config = _BERT | dict(
    attention_probs_dropout_prob=0,
    hidden_act="gelu",
    embedding_size=16,
    initializer_range=0.02,
    num_hidden_groups=1,
    net_structure_type=0,
    gap_size=0,
    num_memory_blocks=0,
    inner_group_num=1,
    down_scale_factor=1,
    type_vocab_size=2,
    vocab_size=_WORDS,
  )
  (folder / "config.json").write_text(json.dumps(config))


def _albert(data, model_dir, phase, checkpoint):
  del checkpoint
  return [
    "--task_name=MRPC",
    f"--data_dir={data}",
    f"--output_dir={model_dir}",
    f"--cached_dir={model_dir}",
    "--spm_model_file=",
    f"--vocab_file={data}/vocab.txt",
    f"--albert_config_file={data}/config.json",
    f"--max_seq_length={_LENGTH}",
    f"--train_step={STEPS}",
    "--warmup_step=5",
    "--learning_rate=0.001",
    "--save_checkpoints_steps=1000",
    "--iterations_per_loop=1",
    f"--train_batch_size={_BATCH}",
    f"--eval_batch_size={_BATCH}",
    f"--predict_batch_size={_BATCH}",
    "--do_train" if phase == "train" else "--do_eval",
    *(["--do_predict"] if phase != "train" else []),
    *([f"--export_dir={model_dir}/exported"] if phase == "export" else []),
  ]


# ------------------------------------------------------------------ XLNet


def _xlnet_data(folder):
  import sentencepiece

  _mrpc(folder)
  random = np.random.RandomState(2)
  words = (folder / "vocab.txt").read_text().split()
  text = folder / "text.txt"
  text.write_text("\n".join(_sentence(random, words) for _ in range(300)) + "\n")
  sentencepiece.SentencePieceTrainer.train(
    f"--input={text} --model_prefix={folder}/spiece --vocab_size=60 --hard_vocab_limit=false "
    "--user_defined_symbols=<cls>,<sep>,<pad>,<mask>,<eod>,<eop> --minloglevel=2"
  )
  for split in ("train", "test"):
    for label in ("neg", "pos"):
      path = folder / "imdb" / split / label
      path.mkdir(parents=True)
      for index in range(_BATCH // 2):
        own = words[6:30] if label == "neg" else words[30:]
        (path / f"{index}.txt").write_text(" ".join(random.choice(own, 12)))
  config = dict(
    d_head=16, d_inner=64, d_model=32, ff_activation="gelu", n_head=2, n_layer=2, n_token=100,
    untie_r=True,
  )  # fmt: skip
  (folder / "config.json").write_text(json.dumps(config))


def _xlnet(data, model_dir, phase, checkpoint):
  del checkpoint
  return [
    "--task_name=imdb",
    f"--data_dir={data}/imdb",
    f"--output_dir={model_dir}/records",
    f"--model_dir={model_dir}",
    f"--spiece_model_file={data}/spiece.model",
    f"--model_config_path={data}/config.json",
    f"--predict_dir={model_dir}/predicted",
    f"--max_seq_length={_LENGTH}",
    f"--train_steps={STEPS}",
    "--warmup_steps=5",
    "--learning_rate=0.001",
    "--save_steps=1000",
    "--iterations=1",
    "--num_core_per_host=1",
    "--dropout=0.0",
    "--dropatt=0.0",
    f"--train_batch_size={_BATCH}",
    f"--eval_batch_size={_BATCH}",
    f"--predict_batch_size={_BATCH}",
    *(["--do_train"] if phase == "train" else ["--do_predict"]),
    *(["--do_eval"] if phase == "evaluate" else []),
  ]


# ------------------------------------------------------------------ EfficientNet


_IMAGES = 32  # in a batch


def _images(folder):
  import tensorflow as tf

  random = np.random.RandomState(3)
  four = []
  for label in (1, 2, 3, 4):
    pixels = np.kron(random.randint(0, 255, (4, 4, 3)), np.ones((12, 12, 1))).astype(np.uint8)
    encoded = tf.io.encode_jpeg(pixels, quality=95).numpy()
    four.append({"image/encoded": encoded, "image/class/label": [label]})
  # Each core's share has the same four images, because batch norm takes the moments of a core's own
  # share. With two images of 32 pixels, the moments have two values where the network has one pixel
  # left: 2.15 then has other losses with TF_ENABLE_ONEDNN_OPTS=0 than without, by the fourth step
  # 2.0 for 6.5.
  rows = four * (_IMAGES // 4)
  for split in ("train", "validation"):
    _write_records(folder / f"{split}-00000-of-00001", rows)


def _efficientnet(data, model_dir, phase, checkpoint):
  del checkpoint
  return [
    f"--data_dir={data}",
    f"--model_dir={model_dir}",
    "--model_name=efficientnet-b0",
    "--input_image_size=64",
    "--width_coefficient=0.25",
    "--depth_coefficient=0.3",
    "--dropout_rate=0.0",
    "--survival_prob=1.0",
    "--num_label_classes=4",
    "--use_tpu=false",
    "--use_bfloat16=false",
    "--transpose_input=false",
    f"--train_batch_size={_IMAGES}",
    f"--eval_batch_size={_IMAGES}",
    f"--num_train_images={_IMAGES}",
    f"--num_eval_images={_IMAGES}",
    f"--train_steps={STEPS}",
    f"--steps_per_eval={STEPS}",
    "--base_learning_rate=0.01",
    "--iterations_per_loop=1",
    "--archive_ckpt=false",
    *(["--mode=train"] if phase == "train" else ["--mode=eval"]),
    *([f"--export_dir={model_dir}/exported"] if phase == "train" else []),
  ]


CASES = collections.OrderedDict(
  {
    "ELECTRA, pretraining": Case(
      "electra", "run_pretraining.py", _electra_data, _pretraining, predicts=False
    ),
    "ELECTRA, finetuning": Case(
      "electra",
      "run_finetuning.py",
      _electra_data,
      _finetuning,
      model_dir=lambda folder: folder / "mrpc_1",
      losses_are_sums=True,
      begins_in_model_dir=False,
    ),
    "ALBERT": Case("albert", "run_classifier.py", _albert_data, _albert, root=".."),
    "XLNet": Case("xlnet", "run_classifier.py", _xlnet_data, _xlnet),
    "EfficientNet": Case("efficientnet", "main.py", _images, _efficientnet, predicts=False),
  }
)


def newest(model_dir: pathlib.Path) -> str | None:
  """Returns the newest checkpoint's name, from its files."""
  steps = [int(path.suffix and path.stem.split("-")[-1]) for path in model_dir.glob("*.index")]
  return f"{model_dir}/model.ckpt-{max(steps)}" if steps else None
