"""Training speed, compared with a bare loop, Keras `fit` and PyTorch.

    python -m benchmarks.run train
    python -m benchmarks.run train --cases=digits,cifar128 --rounds=20
    python -m benchmarks.run train --device=gpu

One run of a case has all sides: Octet in float32, in bfloat16, compiled by XLA and, on a CPU, on
eight virtual cores; in both precisions a handwritten loop on the device and a handwritten loop that
calls each step; Keras `fit` by default and with the best settings; PyTorch, eager, channels last.
"""

import tempfile

import numpy as np

from benchmarks import cases, results, sides

PRECISIONS = ("float32", "bfloat16")


def measure(names=tuple(cases.CASES), rounds=10, precisions=PRECISIONS, device="cpu"):
  """Returns rows for the named cases, all sides on one device."""
  rows = []
  for name in names:
    case = cases.CASES[name]
    slices = sides.alternate(_sides(case, precisions, device), rounds)
    rows.extend(_rows(case, precisions, slices, device))
  return rows


def _sides(case, precisions, device="cpu"):
  found = {}
  by_xla = "xla:gpu:1" if device == "gpu" else "xla:1"
  for precision in precisions:
    same = {"case": case, "precision": precision, "device": device}
    found |= {
      f"octet {precision}": sides.Side(octet, same),
      f"octet xla {precision}": sides.Side(octet, same | {"device": by_xla}),
      f"bare {precision}": sides.Side(bare, same),
      f"one call {precision}": sides.Side(bare, same | {"on_device": False}),
      f"fit tuned {precision}": sides.Side(keras_fit, same | {"tuned": True}),
      f"torch {precision}": sides.Side(torch, same),
    }
    if precision == "float32":
      found["fit float32"] = sides.Side(keras_fit, same | {"tuned": False})
      if case.network == "cifar10_cnn" and device == "cpu":
        found["octet cpu:8"] = sides.Side(octet, same | {"device": "cpu:8"})
  return found


def _rows(case, precisions, slices, device="cpu"):
  def row(ours, other, against, precision, **bound):
    if device != "cpu":  # no target there before a first measurement
      bound = {}
    return results.Row(
      "train",
      f"{case.title}, {precision}" + f", {device}" * (device != "cpu"),
      against,
      sides.ratios(slices, other, ours),
      note=sides.note(slices, case.steps * case.batch_size, other, ours),
      **bound,
    )

  rows = []
  for precision in precisions:
    ours = f"octet {precision}"
    rows.append(row(ours, f"bare {precision}", "bare loop on the device", precision, at_least=0.98))
    rows.append(
      row(
        ours,
        f"one call {precision}",
        "bare loop, a call a step",
        precision,
        at_least=3 if case.host_bound else 1.1,
      )
    )
    if precision == "float32":
      rows.append(
        row(ours, "fit float32", "Keras fit", precision, at_least=5 if case.host_bound else 1.7)
      )
    rows.append(
      row(
        ours,
        f"fit tuned {precision}",
        "Keras fit, tuned",
        precision,
        at_least=1.2 if case.host_bound else 1,
      )
    )
    rows.append(row(ours, f"torch {precision}", "PyTorch", precision, at_least=1))
    rows.append(row(f"octet xla {precision}", ours, "Octet by TensorFlow", f"{precision}, PJRT"))
  if len(precisions) == 2:
    pays = not case.host_bound and results.computes_bfloat16()
    rows.append(
      row(
        "octet bfloat16",
        "octet float32",
        "Octet in float32",
        "bfloat16",
        at_least=1.7 if pays else None,
      )
    )
  if "octet cpu:8" in slices:
    rows.append(row("octet cpu:8", "octet float32", "Octet on cpu", "cpu:8", at_least=0.5))
  return rows


# ---------------------------------------------------------------------- the sides, one process each


def _compute_on(device):
  """Makes TensorFlow compute on the CPU, or on the first GPU and share its memory with others."""
  import tensorflow as tf

  gpus = tf.config.list_physical_devices("GPU")
  if device == "gpu" and not gpus:
    raise RuntimeError("--device=gpu: TensorFlow sees no GPU; python -m trainer.devices says why")
  tf.config.set_visible_devices(gpus[:1] if device == "gpu" else [], "GPU")
  for gpu in gpus[:1] if device == "gpu" else []:
    tf.config.experimental.set_memory_growth(gpu, True)


class Slice:
  """A hook that takes a turn every `steps` steps, from a given step on."""

  reads_variables = False

  def __init__(self, turns, steps, first):
    self._turns = turns
    self._steps = steps
    self._first = first

  def begin(self, estimator):
    return self._first == 0 and not self._turns.take()

  def __call__(self, step, metrics, estimator):
    return step >= self._first and step % self._steps == 0 and not self._turns.take()


def octet(turns, case, precision, device="cpu", age=0):
  """Estimator.train with default settings except the length of the device loop.

  `age` steps come before the first turn.
  """
  import trainer
  from trainer.devices import device_names

  replicas = device_names.split(device)[1] or 1
  with tempfile.TemporaryDirectory() as folder:
    estimator = trainer.Estimator(
      cases.model_fn(case),
      folder,
      trainer.RunConfig(
        device=device,
        precision=precision,
        tpu_config=trainer.TPUConfig(iterations_per_loop=case.steps),
      ),
      train_batch_size=case.batch_size,
    )
    estimator.train(
      lambda params: cases.dataset(case, case.batch_size // replicas, training=True),
      hooks=[Slice(turns, case.steps, age)],
    )


def bare(turns, case, precision, on_device=True, device="cpu"):
  """A tf.function with a slice's steps in a loop, or with one step that Python calls."""
  import keras
  import tensorflow as tf

  _compute_on(device)
  keras.mixed_precision.set_global_policy(cases.policy(precision))
  model, optimizer = cases.keras_model(case), keras.optimizers.Adam()
  optimizer.build(model.trainable_variables)

  @tf.function(autograph=False)
  def train(iterator):
    def step(done, total):
      features, labels = next(iterator)
      with tf.GradientTape() as tape:
        logits = model(features["image"], training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
      variables = model.trainable_variables
      optimizer.apply(tape.gradient(loss, variables), variables)
      return done + 1, total + loss

    if not on_device:
      return step(0, 0.0)[1]
    return tf.while_loop(
      lambda done, _: done < case.steps, step, [tf.constant(0), tf.constant(0.0)]
    )[1]

  iterator = iter(cases.dataset(case, case.batch_size, training=True))
  while turns.take():
    for _ in range(1 if on_device else case.steps):
      loss = train(iterator)
    loss.numpy()


def keras_fit(turns, case, precision, tuned, device="cpu"):
  """`fit` with arrays and default settings.

  If `tuned`: with a dataset, without XLA, and with all steps of a slice in one execution.
  """
  import keras

  _compute_on(device)

  class Turn(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
      if not turns.take():
        self.model.stop_training = True

  keras.mixed_precision.set_global_policy(cases.policy(precision))
  model = cases.keras_model(case)
  model.compile(
    keras.optimizers.Adam(),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    **({"jit_compile": False, "steps_per_execution": case.steps} if tuned else {}),
  )
  if tuned:
    model.fit(
      cases.dataset(case, case.batch_size, training=True),
      steps_per_epoch=case.steps,
      epochs=10**6,
      callbacks=[Turn()],
      verbose=0,
    )
    return
  images, labels = case.data()
  rows = np.arange(case.steps * case.batch_size) % len(labels)
  model.fit(
    images[rows].astype("float32") / case.white,
    labels[rows],
    batch_size=case.batch_size,
    epochs=10**6,
    callbacks=[Turn()],
    verbose=0,
  )


def torch(turns, case, precision, device="cpu"):
  """Eager PyTorch on tensors in the device's memory, shuffled by torch.randperm; bfloat16 by
  autocast.
  """
  import contextlib

  import torch

  from benchmarks import torch_networks

  place = "cuda" if device == "gpu" else "cpu"
  images, labels = case.data()
  images = torch.from_numpy(images).to(place).permute(0, 3, 1, 2)
  images = images.contiguous(memory_format=torch.channels_last)
  labels = torch.from_numpy(labels).long().to(place)
  model = torch_networks.build(case).to(place)
  model(torch.zeros([2, *images.shape[1:]], device=place))  # lazy layers get their sizes
  model = model.to(memory_format=torch.channels_last).train()
  optimizer = torch.optim.Adam(model.parameters())
  autocast = (
    torch.autocast(place, torch.bfloat16) if precision == "bfloat16" else contextlib.nullcontext()
  )
  order, begin = torch.randperm(len(labels), device=place), 0
  while turns.take():
    for _ in range(case.steps):
      if begin + case.batch_size > len(labels):
        order, begin = torch.randperm(len(labels), device=place), 0
      rows = order[begin : begin + case.batch_size]
      begin += case.batch_size
      image = images[rows].float() * (1 / case.white)
      optimizer.zero_grad()
      with autocast:
        logits = model(image.contiguous(memory_format=torch.channels_last))
      loss = torch.nn.functional.cross_entropy(logits.float(), labels[rows])
      loss.backward()
      optimizer.step()
    loss.item()
