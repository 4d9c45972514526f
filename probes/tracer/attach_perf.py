"""Attaches with one perf event for each probe. This is for Linux kernels before 6.6, which have no
``uprobe_multi`` links."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from stalltop.model.errors import TracingError
from stalltop.probes.programs.bpf_calls import attach_perf_event, open_uprobe_event
from stalltop.probes.tracer.attach import Attachment, Point
from stalltop.probes.tracer.perf_close import Closer

_PMU = Path("/sys/bus/event_source/devices/uprobe")


class PerfAttacher:
    """Attaches by perf events. The Linux kernel takes 50 to 100 ms to remove each event, so another process
    waits for that."""

    def __init__(self, entry: int, returns: int) -> None:
        self._entry = entry
        self._returns = returns
        self._closer = Closer()
        try:
            self._kind = int((_PMU / "type").read_text())
            self._return_bit = int((_PMU / "format/retprobe").read_text().strip().removeprefix("config:"))
        except (OSError, ValueError) as error:
            raise TracingError(f"the kernel offers no uprobe events: {error}") from error
        # An event may be opened on any online CPU; it sees the probe on all CPUs.
        self._cpu = min(os.sched_getaffinity(0))

    def attach(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probes ``points`` of the file at ``path``. Failures are in the result's ``failed``."""
        links: list[int] = []
        failed: list[tuple[Point, str]] = []
        count = 0
        for point in points:
            pair: list[int] = []
            try:
                # Return probes are attached first, so that the return of every counted call is seen. Calls
                # that begin before the entry probe is attached are not counted.
                pair.append(self._link(self._returns, path, point, 1 << self._return_bit))
                pair.append(self._link(self._entry, path, point, 0))
            except OSError as error:
                failed.append((point, error.strerror or str(error)))
                self.close(pair)
            # This is for Ctrl-C: probes that were left would delay the end of the program by many seconds.
            except BaseException:
                self.close([*links, *pair])
                raise
            else:
                links += pair
                count += 2
        return Attachment(count, failed, links, self.close)

    def close(self, links: Sequence[int]) -> None:
        """Removes the probes behind these descriptors. Does not wait until they are removed."""
        self._closer.close(links)

    def _link(self, program: int, path: str, point: Point, config: int) -> int:
        event = open_uprobe_event(self._kind, path, point.offset, cpu=self._cpu, config=config)
        try:
            return attach_perf_event(program, event, point.cookie)
        finally:
            os.close(event)  # The link keeps the event open.
