"""A client of PJRT and its devices: their number, platform and names."""

import dataclasses
import types

import pytest

from trainer import errors
from trainer.pjrt import devices


def test_more_devices_than_the_client_has(connected):
  with pytest.raises(errors.SettingError, match="1000 XLA devices .* this process has \\d+"):
    devices.connect("cpu", 1000)


def test_a_platform_that_is_not_here(connected):
  with pytest.raises(errors.SettingError, match="no device of the platform gpu") as caught:
    devices.connect("gpu")
  assert str(caught.value).endswith("'.[xla-gpu]' brings jax's plug-in.")
  with pytest.raises(errors.SettingError, match="'vax' is no platform"):
    devices.connect("vax")


def test_what_the_devices_say_of_themselves(connected):
  assert str(connected) == "8 XLA devices (cpu, cpu)"
  assert connected.count == 8
  assert connected.local == connected.all
  assert {"platform", "devices", "topology", "jax", "jaxlib", "processor"} <= connected.key.keys()


def test_a_compiled_form_depends_on_the_arithmetic(connected):
  exact = dataclasses.replace(connected, full_precision=True)
  assert exact.key != connected.key
  assert exact.key != dataclasses.replace(exact, deterministic=True).key


def test_hosts_need_equally_many_devices(connected, monkeypatch):
  hosts = types.SimpleNamespace(count=2, exchange=lambda value: [value] * 2)
  half = connected.all[:4]
  monkeypatch.setattr(devices, "_of_others", lambda jax, platform: half)
  with pytest.raises(errors.SettingError, match="has 4 of the 4 devices of 2 workers"):
    devices.connect("gpu", 2, hosts)
  alone = types.SimpleNamespace(count=1, exchange=hosts.exchange)
  assert devices.connect("gpu", 4, alone).exchange is hosts.exchange
