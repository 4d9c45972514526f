"""Questions to daemons that wait long: a slow machine is no reason for another answer."""

from __future__ import annotations

import pytest

from stalltop.probes.kubelet import cri, pod_resources, pods_api
from stalltop.probes.tenants import container_sockets

SECONDS = 60.0


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every question wait for a minute, until the test ends."""
    for module in (container_sockets, cri, pod_resources, pods_api):
        monkeypatch.setattr(module, "SECONDS", SECONDS)
