"""Rows for the tests of what reads them."""

from trainer.compare import prices, published, results, summary

LAPTOP = {"host": "laptop", "processor": "a CPU"}
BOX = {"host": "box", "processor": "another CPU"}


def row(seconds=0.5, device="cpu", *, machine=LAPTOP, **more):
  """A measured row of 10 steps an epoch and 2 epochs, with quartiles at ±20 %."""
  processor = machine.get("processor", "")
  hardware = {"cpu": processor, "xla": processor, "gpu": "Tesla P100-PCIE-16GB", "tpu": "TPU v3-8"}
  fields = dict(
    kind=results.MEASURED,
    workload="net",
    mode="train",
    batch_size=10,
    device=device,
    hardware=hardware[device.partition(":")[0]],
    cores=1,
    status=results.OK,
    unit="run",
    precision="float32",
    settings={"gin_file": "net.gin", "bindings": []},
    machine=machine,
    time="2026-01-01T00:00:00+00:00",
    epoch_examples=100,
    epochs=2,
    start_seconds=0.5,
    input_wait=0.01,
    memory_bytes=2**30,
  )
  fields.update(more)
  size = fields.get("examples") or fields["batch_size"]
  measured = {}
  if seconds is not None:
    spread = dict(low=0.8 * seconds, high=1.2 * seconds, slices=5)
    measured = dict(seconds=seconds, examples_per_second=size / seconds, **spread)
  return results.Row(**{**measured, **fields})


def estimate(low, high, **more):
  """An estimate for a TPU v3-8."""
  range_ = dict(low=low, high=high, start_seconds=None, source="a roofline")
  return row(None, "tpu", kind=results.ESTIMATED, machine={}, **{**range_, **more})


def failed(device="gpu", status=results.OUT_OF_MEMORY, **more):
  """A row without figures."""
  return row(None, device, status=status, problem="no room", **more)


ROWS = [
  row(1.0),
  row(0.25, "gpu"),
  estimate(0.02, 0.05),
  row(2.0, batch_size=20),
  row(0.5, mode="predict", examples=4),
  failed("tpu"),
]
ARTICLE = published.Figure(
  "net", "train", 10, "tpu", "TPU v2", "run", 3.0, "", True, "three seconds", "an article"
)
RATIO = published.Figure(
  "net", "train", None, "tpu", "TPU v2", "speed-up", 100.0, "cpu", True, "100 ×", "an article"
)
PRICES = [prices.Price("P100", 1.44, "USD", "2026-01-01", "a page")]
FOUND = summary.Summary(ROWS, PRICES, [ARTICLE, RATIO])
