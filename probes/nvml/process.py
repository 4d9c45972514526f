"""Reads NVML in a separate process, for ``reader``. If the driver hangs, or crashes the process that calls
it, only this process is affected. It can be killed and replaced.

Reads requests from stdin, one line of JSON each, and writes answers to stdout as pickled tuples, each after
its length (4 bytes, big endian):

    {"look": true, "without": [1], "last": [0]}    reads all GPUs but "without", those in "last" last:
                                                   ("begun", driver, indexes), then for each
                                                   ("asking", index) and ("device", Device),
                                                   then ("done",); or ("unavailable", why)
    {"costs": true}                                ("costs", (CallCost, ...))

The process ends when its stdin is closed. If there is no driver, the process looks for one again at
intervals.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from typing import Any, BinaryIO, Final

from stalltop.model.text.clean import clean
from stalltop.probes.nvml.asking import NvmlUnavailableError
from stalltop.probes.nvml.driver import Nvml

RETRY_SECONDS: Final = 15.0
"""Seconds until NVML is opened again after the driver was missing or NVML failed."""


class NvmlServer:
    """Answers requests. ``out`` receives the answers."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._nvml: Nvml | None = None
        self._why = ""
        self._next_open = 0.0

    def answer(self, request: dict[str, Any]) -> None:
        """Answers one request. Raises OSError if the answers are not read any more."""
        if request.get("costs"):
            self._say("costs", self._nvml.costs() if self._nvml else ())
            return
        try:
            self._look(set(request.get("without", ())), set(request.get("last", ())))
        except NvmlUnavailableError as reason:
            self._gone(str(reason))
        except OSError:
            raise
        # For instance, the bindings may not fit the library. After any such failure, only the figures of
        # devices are missing.
        except Exception as error:
            self._gone(clean(f"NVML failed: {type(error).__name__}: {error}"))

    def _look(self, without: set[int], last: set[int]) -> None:
        if self._nvml is None:
            if time.monotonic() < self._next_open:
                self._say("unavailable", self._why)
                return
            self._nvml = Nvml()
        nvml = self._nvml
        nvml.begin()
        self._say("begun", nvml.driver, tuple(nvml.indexes))
        for index in sorted(nvml.indexes, key=lambda index: index in last):
            if index not in without:
                self._say("asking", index)
                self._say("device", nvml.device(index))
        self._say("done")

    def _gone(self, why: str) -> None:
        nvml, self._nvml, self._why = self._nvml, None, why
        self._next_open = time.monotonic() + RETRY_SECONDS
        if nvml is not None:
            nvml.close()
        self._say("unavailable", why)

    def _say(self, *what: object) -> None:
        packed = pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
        self._out.write(len(packed).to_bytes(4, "big") + packed)
        self._out.flush()


def main() -> None:
    """Answers requests until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Output of a library must not get between the answers.
    server = NvmlServer(answers)
    for line in sys.stdin:
        try:
            server.answer(json.loads(line))
        except OSError:
            break
    os._exit(0)  # The driver's library may hang when it is unloaded.


if __name__ == "__main__":
    main()
