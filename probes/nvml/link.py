"""Starts the process that reads NVML (``probes.nvml.process``) and talks to it."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from stalltop.probes import helpers
from stalltop.probes.python_path import python_path

_READ_BYTES: Final = 1 << 16
_LIBRARY: Final = "libnvidia-ml.so.1"
NO_LIBRARY: Final = f"no NVIDIA driver on this host ({_LIBRARY} not found)"


_FOLDERS: Final = ("lib64", "usr/lib64", "lib", "usr/lib", "usr/lib/{multiarch}", "lib/{multiarch}")
"""Folders in which the loader finds libraries that are not in ld.so.cache."""
_DRIVER: Final = ("proc/driver/nvidia", "dev/nvidiactl", "dev/dxg")
"""If there is a driver, one of these files exists (in WSL the last one), wherever the driver's library is."""


def library_there(root: Path = Path("/"), environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether the driver's library may be installed. If it is not, no process is started to read
    NVML.

    This only looks for the file: loading the library would run its code in this process.
    """
    if any(os.path.lexists(root / path) for path in _DRIVER):
        return True
    own = [Path(path) for path in environment.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":") if path]
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    usual = [root / folder.format(multiarch=multiarch) for folder in _FOLDERS]
    if any((folder / _LIBRARY).is_file() for folder in (*own, *usual)):
        return True
    try:
        return b"/%s\0" % _LIBRARY.encode() in (root / "etc/ld.so.cache").read_bytes()
    except OSError:
        return False


class ReaderLink:
    """One process that reads NVML. No method waits for the process longer than its caller allows. Raises
    OSError if the process cannot be started."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """``environment`` holds variables that are set for the process, in addition to those of this
        process."""
        self._buffer = b""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stalltop.probes.nvml.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**os.environ, **environment, "PYTHONPATH": python_path()},
            start_new_session=True,  # Signals of the terminal must not reach the process.
        )
        helpers.started(self._process)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdin.fileno(), False)
        os.set_blocking(self._stdout.fileno(), False)
        self._poll = select.poll()
        self._poll.register(self._stdout, select.POLLIN)

    def ask(self, **request: object) -> None:
        """Sends a request to the process. Raises OSError if the process does not take it."""
        line = json.dumps(request).encode() + b"\n"
        if os.write(self._stdin.fileno(), line) != len(line):
            raise BrokenPipeError("the request was written only in part")

    def answers(self, patience_seconds: float) -> Iterator[tuple[Any, ...]]:
        """Yields the answers that arrive within ``patience_seconds``. Waits until this time is over, unless
        the caller stops the iteration. Raises OSError once the process has ended."""
        end = time.monotonic() + patience_seconds
        while True:
            while len(self._buffer) >= 4:
                size = int.from_bytes(self._buffer[:4], "big")
                if len(self._buffer) < 4 + size:
                    break
                packed, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
                yield pickle.loads(packed)  # Safe, because the data comes from our own process.
            left = end - time.monotonic()
            if not self._poll.poll(max(left, 0.0) * 1000):
                return
            came = os.read(self._stdout.fileno(), _READ_BYTES)
            if not came:
                raise BrokenPipeError("the process that reads NVML has ended")
            self._buffer += came

    def end(self, patience_seconds: float = 0.2) -> bool:
        """Kills the process; returns whether it has ended. If the process hangs in a call inside the Linux
        kernel, it ends only when that call returns."""
        self._process.kill()
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience_seconds)
        return self.gone()

    def gone(self) -> bool:
        """Returns whether the process has ended."""
        return self._process.poll() is not None
