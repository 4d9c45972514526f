"""Starts traced hosts of a fleet on this machine: a tracer and an agent for what runs in one cgroup."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Self

from stalltop.model.errors import StalltopError

START_SECONDS: Final = 60.0
"""Longest wait until a host traces: several hosts compile BPF programs at once."""
END_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One traced host."""

    url: str
    """NATS server."""
    cluster: str
    rack: str
    host: str
    cgroup: str
    """Path of a cgroup below the root of the v2 hierarchy: what runs in it and below it is traced."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Names of tenants by container id."""
    nvml: Mapping[str, str] = field(default_factory=dict)
    """Environment in which the driver's library is loaded; empty: that of this machine."""
    clock_ahead: float = 0.0
    """By how many seconds the host's clock is ahead of that of this machine."""
    light: bool = False
    """Whether the tracer reads no stacks, and whole windows are sent only to those who ask: several tracers
    take much of a small machine."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Returns the host that `text` described."""
        return cls(**json.loads(text))

    @property
    def text(self) -> str:
        """The host as JSON."""
        return json.dumps(asdict(self))


class TracedHost:
    """A process that traces one host and passes its windows on."""

    def __init__(self, plan: HostPlan) -> None:
        self.plan: Final = plan
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stalltop.cli.fleet_host", plan.text],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the screen
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    @property
    def pid(self) -> int:
        """Process id of the tracer."""
        return self._process.pid

    def wait(self) -> None:
        """Waits until the host is traced. Raises StalltopError if that is not possible."""
        output = self._process.stdout
        assert output is not None
        assert self._process.stderr is not None
        ready, _, _ = select.select([output], [], [], START_SECONDS)
        if ready and output.readline():
            return
        self._process.kill()
        said = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        why = said[-1] if said else f"not after {START_SECONDS:g} s"
        raise StalltopError(f"{self.plan.host} is not traced: {why}")

    def end(self) -> None:
        """Asks the tracer to end. Does not wait."""
        self._process.terminate()

    def close(self) -> None:
        """Ends the tracer. May be called twice."""
        self.end()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=END_SECONDS)
        self._process.kill()
        self._process.wait()
