"""Evaluation and prediction of a whole set, beside Keras `evaluate` and `predict` as they are called by default.

    python -m benchmarks.run inference

A slice is one call, with all that belongs to it: ours looks for the newest checkpoint, makes the input and computes accuracy and loss.
"""

import tempfile

from benchmarks import cases, results, sides


def measure(names=tuple(cases.CASES), rounds=10):
  """Rows of the cases of these names."""
  rows = []
  for name in names:
    case = cases.CASES[name]
    examples = len(case.data()[1])
    for kind, octets in (("evaluate", {"octet": {}}), ("predict", {"octet": {"single": False}, "octet, example by example": {"single": True}})):
      slices = sides.alternate(
          {ours: sides.Side(octet, {"case": case, "kind": kind, **more}) for ours, more in octets.items()}
          | {"keras": sides.Side(keras, {"case": case, "kind": kind})}, rounds)
      for ours in octets:
        rows.append(results.Row(
            kind, f"{case.title}, float32" + ours.removeprefix("octet"), f"Keras {kind}", sides.ratios(slices, "keras", ours), at_least=1.3,
            note=sides.note(slices, examples, "keras", ours)))
  return rows


def octet(turns, case, kind, single=False):
  """Estimator.evaluate; or Estimator.predict, a batch at a time or an example."""
  import trainer

  def input_fn(params):
    return cases.dataset(case, case.batch_size, training=False)

  with tempfile.TemporaryDirectory() as folder:
    estimator = trainer.Estimator(
        cases.model_fn(case), folder, trainer.RunConfig(device="cpu"), train_batch_size=case.batch_size, eval_batch_size=case.batch_size)
    estimator.train(lambda params: cases.dataset(case, case.batch_size, training=True), max_steps=1)
    while turns.take():
      if kind == "evaluate":
        estimator.evaluate(input_fn)
      else:
        for _ in estimator.predict(input_fn, yield_single_examples=single):
          pass


def keras(turns, case, kind):
  """Model.evaluate or Model.predict of arrays."""
  import keras

  model = cases.keras_model(case)
  model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
  images, labels = case.data()
  images = images.astype("float32") / case.white
  while turns.take():
    if kind == "evaluate":
      model.evaluate(images, labels, batch_size=case.batch_size, verbose=0)
    else:
      model.predict(images, batch_size=case.batch_size, verbose=0)
