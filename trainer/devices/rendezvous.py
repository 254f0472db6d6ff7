"""Waits until all workers of a cluster have arrived, and compares their plans.

    link = gather(cluster, {"gin": "...", "TensorFlow": "2.21.0"}, timeout=600)
    ...                    # the workers connect to each other and train
    link.leave()           # in the end

A missing worker would let the others wait inside TensorFlow in silence. The chief therefore listens
at its own address of the cluster, where TensorFlow's server will listen later, and the others call
there. Each sends its number and its facts. When all have called, the chief compares the facts and
tells every worker to start, or why not. The connections stay open, see `trainer.devices.link`.

The connections carry lines of JSON:

| from    | line                                                      |
|---------|-----------------------------------------------------------|
| worker  | {"octet": 1, "number": 2, "who": "...", "facts": {...}}    |
| chief   | {"octet": 1}                                              |
| chief   | {"wait": "worker 3 (d:2222)"}, every 15 s                 |
| chief   | {"late": sentence}, {"refused": sentence}, {"go": [who]}   |

Every program that reaches the port can call, as it can reach TensorFlow's own server, which is open
to all: close the cluster's network to others.
"""

import dataclasses
import difflib
import os
import platform
import selectors
import socket
import time
import uuid
from collections.abc import Callable, Mapping

from absl import logging

from trainer import errors
from trainer.cli import json_lines
from trainer.devices import cluster as cluster_lib
from trainer.devices import link as link_lib

_VERSION = 1
_ADDRESSES = "the list of workers"

# Seconds: for an answer at the chief's address, where the TensorFlow of an ending training may
# listen; between two calls; until the first message about missing workers, since most arrive
# sooner, and between two messages; and of silence, after which the chief counts as gone.
_ANSWER_SECONDS = 5.0
_AGAIN_SECONDS = 0.5
_PATIENCE_SECONDS = 3.0
_TELL_SECONDS = 15.0
_SILENCE_SECONDS = 60.0


@dataclasses.dataclass
class _Caller:
  """A worker that has called the chief."""

  connection: json_lines.Connection
  who: str
  facts: Mapping[str, str]


def gather(
  cluster: cluster_lib.Cluster,
  facts: Mapping[str, str],
  timeout: float,
  clock: Callable[[], float] = time.monotonic,
) -> link_lib.Link:
  """Waits for all workers of a cluster; returns the open connections to the others.

  Args:
    cluster: the cluster, of several workers.
    facts: name → text, the values that all workers must share.
    timeout: seconds to wait.
    clock: returns the time in seconds.

  Raises:
    WorkerLostError: workers were missing after the timeout.
    SettingError: the facts differ, or the chief's port is in use.
  """
  who = f"{platform.node()}, process {os.getpid()}"
  facts = {**facts, _ADDRESSES: ", ".join(cluster.addresses)}
  deadline = clock() + timeout
  if cluster.number == 0:
    gathered, go = _wait_for_all(cluster, who, facts, timeout, clock)
  else:
    gathered, go = _answer(cluster, who, facts, timeout, clock, deadline)
  everyone = go["go"]
  for number, each in enumerate(everyone):
    if cluster.number in (0, number):
      logging.info(
        "Host %d of %d: %s on %s.", number, len(everyone), cluster.describe(number), each
      )
  return link_lib.Link(cluster, gathered, go["token"])


def differences(facts: Mapping[int, Mapping[str, str]]) -> str | None:
  """Returns a sentence on the first difference between the chief and a worker, or None.

  Args:
    facts: worker → name → text.
  """
  for name in sorted({name for each in facts.values() for name in each}):
    first = facts[0].get(name, "")
    for number, each in facts.items():
      other = each.get(name, "")
      if other == first:
        continue
      if "\n" not in first + other:
        return f"{name} is {first or 'none'} on worker 0 and {other or 'none'} on worker {number}"
      lines = [
        f"    worker {0 if line[0] == '-' else number}: {line[1:].strip()}"
        for line in difflib.unified_diff(first.splitlines(), other.splitlines(), n=0, lineterm="")
        if line[0] in "+-" and line[:3] not in ("+++", "---") and line[1:].strip()
      ]
      return (
        f"{name} differs between worker 0 and worker {number}:\n" + "\n".join(lines[:6]) + "\n "
      )
  return None


def _wait_for_all(cluster, who, facts, timeout, clock):
  """The chief's side: ({number: connection}, the message to go)."""
  deadline = clock() + timeout
  count = len(cluster.addresses)
  callers: dict[int, _Caller] = {}
  with _listen(cluster, deadline, clock) as listener, selectors.DefaultSelector() as selector:
    selector.register(listener, selectors.EVENT_READ)
    told = clock() - _TELL_SECONDS + _PATIENCE_SECONDS
    while len(callers) < count - 1:
      for key, _ in selector.select(0.2):
        if key.fileobj is listener:
          selector.register(link_lib.open_to(listener.accept()[0]), selectors.EVENT_READ)
        else:
          _hear(key.fileobj, callers, count, selector)
      missing = ", ".join(
        cluster.describe(number) for number in range(1, count) if number not in callers
      )
      if clock() > deadline:
        sentence = f"{missing} did not come within {timeout:g} s (RunConfig.cluster_timeout_secs)."
        _tell_all(callers, {"late": sentence})
        raise errors.WorkerLostError(f"{sentence} Start all workers again.")
      if missing and clock() - told > _TELL_SECONDS:
        told = clock()
        logging.info("Waiting for %s.", missing)
        _tell_all(callers, {"wait": missing})
    for connection in [key.fileobj for key in selector.get_map().values()]:
      if connection is not listener and all(
        connection is not caller.connection for caller in callers.values()
      ):
        connection.close()
  told_by = {0: facts, **{number: each.facts for number, each in callers.items()}}
  if different := differences(told_by):
    sentence = f"The workers of {cluster.source} differ: {different}. All need the same."
    # An orchestrator may have told one of them about a machine that was about to go away.
    is_stale = cluster.source != "TF_CONFIG" and any(
      each.get(_ADDRESSES) != facts[_ADDRESSES] for each in told_by.values()
    )
    _tell_all(callers, {"late" if is_stale else "refused": sentence})
    raise errors.WorkerLostError(sentence) if is_stale else errors.SettingError(sentence)
  everyone = [who, *(callers[number].who for number in range(1, count))]
  go = {"go": everyone, "token": uuid.uuid4().hex}
  _tell_all(callers, go)
  return {number: caller.connection for number, caller in callers.items()}, go


def _hear(connection, callers, count, selector):
  """Handles a line of a connection to the chief: a call, an end, or something else."""
  known = next(
    (number for number, caller in callers.items() if caller.connection is connection), None
  )
  try:
    said = connection.receive()
  except (OSError, ValueError):
    said = None
  if said == []:  # half a line
    return
  if said and known is None and _is_call(said[0], count) and said[0]["number"] not in callers:
    callers[said[0]["number"]] = _Caller(connection, str(said[0]["who"]), said[0]["facts"])
    connection.send({"octet": _VERSION})
    return
  # It has ended, or is not a worker: a probe, the TensorFlow of an ended training, or a second
  # process for the same worker, which calls again until its time is over.
  if known is not None:
    del callers[known]
  selector.unregister(connection)
  connection.close()


def _is_call(said, count):
  return (
    isinstance(said, dict)
    and said.get("octet") == _VERSION
    and said.get("number") in range(1, count)
    and isinstance(said.get("facts"), dict)
  )


def _tell_all(callers, message):
  for caller in callers.values():
    caller.connection.send(message)


def _listen(cluster, deadline, clock):
  """A listening socket at the chief's port, as soon as an earlier process has left it."""
  port = int(cluster.addresses[0].rpartition(":")[2])
  both = socket.has_dualstack_ipv6()
  while True:
    try:
      return socket.create_server(
        ("", port), family=socket.AF_INET6 if both else socket.AF_INET, dualstack_ipv6=both
      )
    except OSError as error:
      if clock() > deadline:
        raise errors.SettingError(
          f"{cluster.source}: this is {cluster.describe(0)}, and it cannot use its port {port} "
          f"({error.strerror or error}): does another process listen there?"
        ) from error
      time.sleep(_AGAIN_SECONDS)


def _answer(cluster, who, facts, timeout, clock, deadline):
  """A worker's side: ({0: connection}, the chief's message to go)."""
  host, _, port = cluster.addresses[0].rpartition(":")
  call = {"octet": _VERSION, "number": cluster.number, "who": who, "facts": dict(facts)}
  told, missing = clock() - _TELL_SECONDS + _PATIENCE_SECONDS, cluster.describe(0)
  while True:
    reason = "it runs and does not answer: an earlier training on it may be about to end"
    try:
      connected = socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS)
      connection = link_lib.open_to(connected)
      try:
        connection.send(call)
        go = _follow(connection, deadline, clock)
      except BaseException:
        connection.close()
        raise
      if go is not None:
        return {0: connection}, go
      connection.close()
    except errors.OctetError:  # the chief's word is final
      raise
    except _Missing as error:
      missing, reason = str(error), "the chief waits for it"
    except (OSError, ValueError) as error:
      reason = getattr(error, "strerror", None) or str(error) or reason
    if clock() > deadline:
      raise errors.WorkerLostError(
        f"{missing} did not come within {timeout:g} s (RunConfig.cluster_timeout_secs): {reason}. "
        "Start all workers again."
      )
    if clock() - told > _TELL_SECONDS:
      told = clock()
      logging.info("Waiting for %s: %s.", missing, reason)
    time.sleep(_AGAIN_SECONDS)


class _Missing(Exception):
  """The time is over, and the chief still waits for the workers in the text."""


def _follow(connection, deadline, clock):
  """Follows the chief; returns its message to start, or None without the chief."""
  answered, missing = False, ""
  while True:
    connection.socket.settimeout(_SILENCE_SECONDS if answered else _ANSWER_SECONDS)
    said = connection.receive()
    if said is None:
      return None
    for place, message in enumerate(said):
      if not answered and message.get("octet") != _VERSION:
        return None
      answered = True
      if "wait" in message:
        missing = message["wait"]
        logging.info("Waiting for %s.", missing)
      elif "late" in message:
        raise errors.WorkerLostError(f"{message['late']} Start all workers again.")
      elif "refused" in message:
        raise errors.SettingError(message["refused"])
      elif "go" in message:
        connection.unread = said[place + 1 :]
        return message
    if missing and clock() > deadline:
      raise _Missing(missing)
