"""Rows for the tests of what reads them."""

from trainer.compare import prices, results, summary

LAPTOP = {"host": "laptop", "processor": "a CPU", "cpu_cores": 2}
BOX = {"host": "box", "processor": "another CPU", "cpu_cores": 8}


def row(seconds=0.5, device="cpu", *, machine=LAPTOP, **more):
  """A row of 10 steps an epoch and 2 epochs, with quartiles at ±20 %."""
  processor = machine.get("processor", "")
  hardware = {"cpu": processor, "xla": processor, "gpu": "Tesla P100-PCIE-16GB", "tpu": "TPU v3-8"}
  fields = dict(
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


def failed(device="gpu", status=results.OUT_OF_MEMORY, **more):
  """A row without figures."""
  return row(None, device, status=status, problem="no room", **more)


ROWS = [
  row(1.0),
  row(0.25, "gpu"),
  row(2.0, batch_size=20),
  row(0.5, mode="predict", examples=4),
  failed("tpu"),
]
PRICES = [prices.Price("P100", 1.44, "USD", "2026-01-01", "a page")]
FOUND = summary.Summary(ROWS, PRICES)
