"""Runs a program of the folder ``programs`` in a tenant, and changes what the program does while it runs."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Sequence
from typing import Final

from bench.faults.real.environment import PROGRAMS, python
from bench.faults.stage.stage import Place, Stage
from bench.faults.stage.workloads import latencies
from stalltop.demo.build import build
from stalltop.demo.latencies import TABLE_VARIABLE, write_table
from stalltop.model.errors import StalltopError

START_SECONDS: Final = 90.0
"""Maximum time until a program has started its loop. Importing PyTorch takes many seconds on a busy host."""
_NUMBERS: Final = 8
_STEPS: Final = 7
"""Index, in a control file, of the number of steps that the program has made (see
``programs/control.py``)."""


class RealProgram:
    """A running program of the folder ``programs``. It ends when its stage is closed."""

    def __init__(
        self,
        stage: Stage,
        place: Place,
        program: str,
        *options: str,
        numbers: Sequence[float] = (0.0,),
        wait: bool = True,
    ) -> None:
        """Starts ``program`` in the tenant ``place`` with ``numbers`` in its control file. Returns when the
        program has started its loop; if ``wait`` is False, at once (for programs that wait for each other).
        Raises StalltopError if the program does not start."""
        self._program = program
        self._control = stage.folder / f"control-{stage.chance.randrange(1 << 30)}"
        self._control.write_bytes(struct.pack(f"{_NUMBERS}d", *numbers, *[0.0] * (_NUMBERS - len(numbers))))
        table = write_table(latencies(6.0), stage.folder / "table-real")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {
            "CONTROL": str(self._control),
            "CUDART": str(build().cudart),
            TABLE_VARIABLE: str(table),
        }
        cgroups = [place.cgroup, *(place.limits.places if place.limits else ())]
        joining = "; ".join(f"echo $$ >{cgroup}/cgroup.procs" for cgroup in cgroups)
        command = [
            "sh",
            "-c",
            f'{joining}; exec "$@"',
            "sh",
            str(python()),
            str(PROGRAMS / program),
            *options,
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        stage.closing(self._end)
        if wait:
            self.wait_until_ready()

    @property
    def pid(self) -> int:
        """Returns the process id of the program."""
        return self._process.pid

    def change(self, value: float, place: int = 0) -> None:
        """Sets number ``place`` of the program's control file to ``value``."""
        with self._control.open("r+b") as file:
            file.seek(8 * place)
            file.write(struct.pack("d", value))

    def steps(self) -> int:
        """Returns the number of steps that the program has made, as the program counts them itself."""
        (steps,) = struct.unpack_from("d", self._control.read_bytes(), 8 * _STEPS)
        return int(steps)

    def wait_until_ready(self) -> None:
        """Waits until the program has started its loop. Raises StalltopError if it does not within
        ``START_SECONDS``."""
        output = self._process.stdout
        assert output is not None
        deadline = time.monotonic() + START_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            if select.select([output], [], [], left)[0]:
                if output.readline() == b"ready\n":
                    return
                break
        raise StalltopError(
            f"{self._program} did not start: run it by hand to see why", f"{python()} {self._program}"
        )

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def free_port() -> int:
    """Returns a TCP port that nothing listens on."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port: int = trial.getsockname()[1]
        return port
