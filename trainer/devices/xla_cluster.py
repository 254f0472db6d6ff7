"""Joins the workers of a cluster that drive XLA devices: one process a host.

    connected, link = connect("cpu", 2, cluster, facts, timeout=600)

Octet's own rendezvous comes first, so that nobody waits inside of jax before all are there. Then
jax's coordinator listens at the chief's address of the cluster.
"""

import atexit
import os
import sys
from collections.abc import Mapping

from trainer import errors
from trainer.devices import cluster as cluster_lib
from trainer.devices import link as link_lib
from trainer.devices import rendezvous
from trainer.pjrt import devices as pjrt_devices
from trainer.pjrt import hosts, installed


def connect(
  platform: str,
  count: int | None,
  cluster: cluster_lib.Cluster,
  facts: Mapping[str, str],
  timeout: float,
) -> tuple[pjrt_devices.Devices, link_lib.Link]:
  """Returns the devices of all workers, and the link to the workers.

  Args:
    platform: see `pjrt_devices.connect`.
    count: the number of devices of each worker; None for all.
    cluster: of several workers.
    facts: see `rendezvous.gather`.
    timeout: seconds to wait for the other workers.

  Raises:
    WorkerLostError: workers were missing after the timeout.
    SettingError: the facts differ, or a device is missing.
    VersionError: see `pjrt_devices.connect`.
  """
  versions = installed.require(platform)
  devices = f"{count or 'all'} of {platform}"
  facts = {**facts, "the XLA devices": devices, "the version of jax": versions["jax"]}
  link = rendezvous.gather(cluster, facts, timeout)
  atexit.register(_end_at_once_if_lost, link)
  joined = hosts.Hosts(
    cluster.addresses[0], len(cluster.addresses), cluster.number, timeout, link.exchange
  )
  try:
    connected = pjrt_devices.connect(platform, count, joined)
  except errors.OctetError as error:
    link.leave(f"it could not connect: {errors.first_line(error)}")
    raise
  if len(connected.local) * joined.count != connected.count:
    raise errors.SettingError(
      f"{cluster.source}: this worker has {len(connected.local)} of the {connected.count} devices "
      f"of {joined.count} workers: all workers need equally many devices."
    )
  return connected, link


def _end_at_once_if_lost(link):
  """Ends a process that has lost another: its devices would wait forever."""
  if link.lost():
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(errors.TRY_AGAIN)
