"""Represents a program that is loaded when it is first needed."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping

from stalltop.probes.programs.bpf_calls import BpfError
from stalltop.probes.programs.compiled import Compiled


class LaterProgram:
    """The only program of ``compiled``. It uses some of ``maps``, of which copies are kept open. May be used
    from several threads."""

    def __init__(
        self, compiled: Compiled, values: Mapping[str, int], maps: Mapping[str, int], *, attach_type: int = 0
    ) -> None:
        self._compiled = compiled
        self._values = dict(values)
        self._attach_type = attach_type
        self._lock = threading.Lock()
        self._loaded: dict[str, int] = {}
        self._refused: BpfError | None = None
        self._maps = dict[str, int]()
        used = {name for program in compiled.programs for _, name in program.maps}
        try:
            for name in used & maps.keys():
                self._maps[name] = os.dup(maps[name])
        except OSError:
            self.close()
            raise

    @property
    def fd(self) -> int:
        """Returns the program's descriptor; -1 while it is not loaded."""
        return self._loaded.get(self._compiled.programs[0].name, -1)

    def load(self) -> int:
        """Returns the program's descriptor, after loading the program if it is not loaded. Raises BpfError,
        again and again if the Linux kernel refuses the program once."""
        with self._lock:
            if self._refused is not None:
                raise self._refused
            if not self._loaded:
                try:
                    self._loaded = self._compiled.load(
                        self._values, attach_type=self._attach_type, given=self._maps
                    )
                except BpfError as refused:
                    self._refused = refused
                    raise
            return self.fd

    def close(self) -> None:
        """Closes the program and its maps. May be called twice."""
        with self._lock:
            for fd in (*self._loaded.values(), *self._maps.values()):
                with contextlib.suppress(OSError):
                    os.close(fd)
            self._loaded, self._maps = {}, {}
