"""The input of a training from a tf.data service; tests/slow/data_service.py has real processes."""

import socket

import pytest
import tensorflow as tf

from tests.trainer import programs
from tests.trainer.inputs import devices
from trainer import errors, run_config
from trainer.inputs import data_service, feeder
from trainer.settings.kinds import Kind


@pytest.fixture(scope="module")
def service():
  """The address of a dispatcher with two workers, in this process."""
  library = tf.data.experimental.service
  dispatcher = library.DispatchServer()
  address = dispatcher.target.split("://")[1]
  workers = [library.WorkerServer(library.WorkerConfig(address)) for _ in range(2)]
  yield dispatcher.target
  del workers, dispatcher


def feeder_of(service, **device):
  return feeder.Feeder(
    devices.Device(**device),
    lambda kind: 4,
    run_config.RunConfig(
      train_input_service=service, cluster_timeout_secs=0.0, static_shapes=False
    ),
    {},
  )


def seen(dataset):
  return sorted(
    float(value) for features, _ in dataset.as_numpy_iterator() for value in features["x"][:, 0]
  )


def test_each_example_of_an_epoch_is_seen_once(service, caplog):
  x, _ = programs.arrays(37)
  with caplog.at_level("INFO", logger="absl"):
    dataset, _ = feeder_of(service).batches(Kind.TRAIN, programs.examples(37), start=8)
  assert seen(dataset) == sorted(x[:, 0].tolist())  # from the beginning, whatever the start
  assert "once an epoch, in no certain order" in caplog.text
  assert "A restarted training begins a new epoch" in caplog.text


def test_the_hosts_of_a_training_share_an_epoch(service):
  """Two hosts read in turn: what one has got, the other does not get."""
  x, _ = programs.arrays(37)
  hosts = [
    iter(
      feeder_of(service, hosts=2, host=host, job="shared")
      .batches(Kind.TRAIN, programs.examples(37))[0]
      .prefetch(1)
    )
    for host in range(2)
  ]
  found = []
  while hosts:
    for host in list(hosts):
      element = next(host, None)
      if element is None:
        hosts.remove(host)
      else:
        found += element[0]["x"].numpy()[:, 0].tolist()
  assert sorted(found) == sorted(x[:, 0].tolist())


def test_an_endless_input_stays_endless_and_its_shapes_known(service):
  dataset, _ = feeder_of(service).batches(Kind.TRAIN, programs.train_input)
  assert dataset.cardinality().numpy() == tf.data.INFINITE_CARDINALITY
  assert dataset.element_spec[0]["x"].shape == (4, programs.WIDTH)


def test_evaluation_reads_by_itself():
  dataset, _ = feeder_of("grpc://localhost:1").batches(Kind.EVAL, programs.examples(37))
  assert len(seen(dataset)) == 37


@pytest.mark.parametrize("address", ["localhost:5000", "grpc://", "grpc://host", "http://h:1", 5])
def test_what_is_no_address(address):
  with pytest.raises(errors.SettingError, match=r"run.train_input_service is .*; expected grpc://"):
    data_service.check(address)


def test_nobody_answers(service):
  with socket.socket() as found:
    found.bind(("localhost", 0))
    port = found.getsockname()[1]
  with pytest.raises(
    errors.WorkerLostError, match=f"answers at localhost:{port} within 0 s"
  ) as why:
    feeder_of(f"grpc://localhost:{port}").batches(Kind.TRAIN, programs.examples(37))
  assert f"python -m trainer.data_service dispatcher --port={port}" in str(why.value)
