"""Tests stalltop with NVIDIA's real libnvidia-ml.so.1 but no driver: one line says so, and all else works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

from stalltop.demo.build import Built
from tests.kernel.nvidia.fetched import LIBNVML

pytestmark = [
    pytest.mark.beside,
    pytest.mark.skipif(LIBNVML is None, reason="libnvidia-ml was not fetched"),
    pytest.mark.skipif(os.path.exists("/proc/driver/nvidia"), reason="the driver is loaded here"),
]
SAID = "the NVIDIA driver is not loaded"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return environment variables with which stalltop finds the fetched library as if it were installed."""
    assert LIBNVML is not None
    (tmp_path / "libnvidia-ml.so.1").symlink_to(LIBNVML)
    return {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}


def stalltop(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stalltop", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.stdout


NEWER = {"nvmlDeviceGetMarginTemperature"}
"""Functions of the vendor's bindings that the fetched library, of driver 535, does not have yet."""


def test_every_function_of_the_stand_in_is_in_the_real_library(built: Built) -> None:
    assert LIBNVML is not None
    ours, theirs = (exported(path) for path in (built.nvml, LIBNVML))
    assert len(ours) > 40
    assert ours - NEWER <= theirs
    assert all(hasattr(pynvml, name) for name in NEWER)


def exported(library: Path) -> set[str]:
    told = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True, timeout=100
    ).stdout
    names = {line.split()[-1].split("@")[0] for line in told.splitlines()}
    return {name for name in names if name.startswith("nvml")}


def test_check_says_that_the_driver_is_not_loaded(environment: dict[str, str]) -> None:
    told = json.loads(stalltop(environment, "check", "--json", "--verbose"))
    [gpu] = [finding for finding in told["findings"] if finding["name"] == "gpu"]
    assert (gpu["verdict"], gpu["seen"]) == ("warn", SAID)
    assert gpu["remedy"]
    assert told["nvml_calls"] == []


def test_once_says_that_the_driver_is_not_loaded(environment: dict[str, str]) -> None:
    told = json.loads(stalltop(environment, "once", "--json", "--seconds", "1"))
    assert told["devices"] == []
    assert told["devices_unavailable"] == SAID
