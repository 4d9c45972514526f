"""Tests detecting NVIDIA's library without loading it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stalltop.probes.nvml.link import library_there
from tests.unit.probes.nvml.standin import ROOT

NAME = "libnvidia-ml.so.1"
CACHE = b"glibc-ld.so.cache1.1\0libc.so.6\0/lib/x86_64-linux-gnu/libc.so.6\0"


@pytest.mark.parametrize(
    ("path", "content", "there"),
    [
        ("usr/lib64/" + NAME, b"", True),
        ("usr/lib/" + NAME, b"", True),
        ("usr/lib/" + NAME + ".bak", b"", False),
        ("opt/driver/" + NAME, b"", True),
        ("opt/other/" + NAME, b"", False),
        ("etc/ld.so.cache", CACHE + b"/usr/lib/wsl/lib/libnvidia-ml.so.1\0", True),
        ("etc/ld.so.cache", CACHE, False),
        ("etc/ld.so.cache", CACHE + b"/usr/lib/libnvidia-ml.so.1.old\0", False),
        ("dev/nvidiactl", b"", True),
        ("proc/driver/nvidia/version", b"", True),
    ],
)
def test_the_library_is_found_in_every_usual_place(
    tmp_path: Path, path: str, content: bytes, there: bool
) -> None:
    environment = {"LD_LIBRARY_PATH": f":{tmp_path}/opt/nothing:{tmp_path}/opt/driver"}
    assert not library_there(tmp_path, environment)
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_bytes(content)
    assert library_there(tmp_path, environment) is there


def test_the_library_is_not_loaded(tmp_path: Path) -> None:
    """If the library were loaded, a driver that hangs or crashes would hang or end this process."""
    source = tmp_path / "crash.c"
    source.write_text(
        "#include <stdlib.h>\n__attribute__((constructor)) static void loaded(void) { abort(); }\n"
    )
    command = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / NAME), str(source)]
    subprocess.run(command, check=True, timeout=100)
    program = f"""
from stalltop.probes.nvml.reader import DeviceReader
reader = DeviceReader(patience_seconds=60)
assert "NVML crashed the process" in reader.read().unavailable, reader.read()
reader.close()
assert {NAME!r} not in open("/proc/self/maps").read()
"""
    environment = {"LD_LIBRARY_PATH": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True, timeout=100)
