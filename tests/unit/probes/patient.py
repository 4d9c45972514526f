"""Lets tests wait long for answers of daemons, so that a slow machine changes no result."""

from __future__ import annotations

import pytest

from stalltop.probes.kubelet import cri, pod_resources, pods_api
from stalltop.probes.tenants import container_sockets

SECONDS = 60.0


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises the time limit of every request to a daemon to one minute, until the test ends."""
    for module in (container_sockets, cri, pod_resources, pods_api):
        monkeypatch.setattr(module, "SECONDS", SECONDS)
