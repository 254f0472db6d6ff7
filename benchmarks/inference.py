"""Evaluation and prediction of a whole set, compared with Keras's default `evaluate` and `predict`.

    python -m benchmarks.run inference

A slice is one complete call: Octet's finds the newest checkpoint, makes the input and computes
accuracy and loss.
"""

import itertools
import tempfile

from benchmarks import cases, results, sides


def measure(names=tuple(cases.CASES), rounds=10):
  """Returns rows for the named cases."""
  rows = []
  for name, precision in itertools.product(names, ("float32", "bfloat16")):
    case = cases.CASES[name]
    for kind, octets in (
      ("evaluate", {"octet": {}}),
      ("predict", {"octet": {"single": False}, "octet, example by example": {"single": True}}),
    ):
      same = {"case": case, "kind": kind, "precision": precision}
      slices = sides.alternate(
        {ours: sides.Side(octet, same | more) for ours, more in octets.items()}
        | {"keras": sides.Side(keras, same)},
        rounds,
      )
      for ours in octets:
        rows.append(
          results.Row(
            kind,
            f"{case.title}, {precision}" + ours.removeprefix("octet"),
            f"Keras {kind}",
            sides.ratios(slices, "keras", ours),
            at_least=1.3,
            note=sides.note(slices, len(case.data()[1]), "keras", ours),
          )
        )
  return rows


def octet(turns, case, kind, precision, single=False):
  """Estimator.evaluate; or Estimator.predict, a batch at a time or an example."""
  import trainer

  def input_fn(params):
    return cases.dataset(case, case.batch_size, training=False)

  with tempfile.TemporaryDirectory() as folder:
    estimator = trainer.Estimator(
      cases.model_fn(case),
      folder,
      trainer.RunConfig(device="cpu", precision=precision),
      train_batch_size=case.batch_size,
      eval_batch_size=case.batch_size,
    )
    estimator.train(lambda params: cases.dataset(case, case.batch_size, training=True), max_steps=1)
    while turns.take():
      if kind == "evaluate":
        estimator.evaluate(input_fn)
      else:
        for _ in estimator.predict(input_fn, yield_single_examples=single):
          pass


def keras(turns, case, kind, precision):
  """Model.evaluate or Model.predict of arrays."""
  import keras

  keras.mixed_precision.set_global_policy(cases.policy(precision))
  model = cases.keras_model(case)
  model.compile(
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"]
  )
  images, labels = case.data()
  images = images.astype("float32") / case.white
  while turns.take():
    if kind == "evaluate":
      model.evaluate(images, labels, batch_size=case.batch_size, verbose=0)
    else:
      model.predict(images, batch_size=case.batch_size, verbose=0)
