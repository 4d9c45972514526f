"""Attaches the loaded BPF programs: to functions of files, and to tracepoints of the Linux kernel."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Sequence

from stalltop.probes import layout
from stalltop.probes.maps.cuda_programs import DriverUsers, tell_older
from stalltop.probes.operations import CHOOSINGS, FIRST_CHOOSING
from stalltop.probes.programs.bpf_calls import attach_raw_tracepoint, run_raw_tracepoint
from stalltop.probes.programs.loading import Programs
from stalltop.probes.tracer.attach import (
    Attacher,
    Attachment,
    MultiAttacher,
    Point,
    SessionAttacher,
    close_together,
)
from stalltop.probes.tracer.attach_perf import PerfAttacher


class Probing:
    """Attaches programs, and detaches all of them together. Used from one thread at a time.

    ``way`` is ``multi`` or ``perf``: how probes are attached. Raises TracingError if the Linux kernel does
    not offer that way.
    """

    def __init__(self, programs: Programs, way: str) -> None:
        self._programs = programs
        self._counting = _attacher(way, programs.entry, programs.returns)
        self._naming = _attacher(way, programs.naming, programs.named)
        self._choosing = _attacher(way, programs.choosing, programs.chosen)
        self._users = DriverUsers()
        self._tracepoints: list[int] = []
        self._attachments: list[Attachment] = []
        # If the program ends without having closed this, the Linux kernel would close link after link.
        atexit.register(self.close)

    def begin(self) -> None:
        """Starts to observe when threads end, and when processes execute programs. Does nothing if that is
        observed already. Raises OSError."""
        if self._tracepoints:
            return
        self._tracepoints.append(attach_raw_tracepoint(self._programs.ends, "sched_process_exit"))
        self._tracepoints.append(attach_raw_tracepoint(self._programs.execs, "sched_process_exec"))
        self._follow_cgroups()

    def _follow_cgroups(self) -> None:
        """Starts to observe which threads are moved to other cgroups. Where that is impossible, the cgroup is
        read at each call."""
        regroups = self._programs.regroups
        with contextlib.suppress(OSError):
            self._tracepoints.append(attach_raw_tracepoint(regroups, "cgroup_attach_task"))
            run_raw_tracepoint(regroups, 0)  # threads may have been moved while nobody observed it

    def rest(self) -> None:
        """Detaches all programs. `begin` and `attach` may attach them again."""
        links = [link for attachment in self._attachments for link in attachment.take()]
        self._attachments.clear()
        if links:
            self._counting.close(links)
        close_together(self._tracepoints)
        self._tracepoints.clear()

    def follow_threads(self) -> None:
        """Starts to observe every switch of threads. Raises OSError; then no switch is observed."""
        followed: list[int] = []
        try:
            followed.append(attach_raw_tracepoint(self._programs.moves, "sched_migrate_task"))
            followed.append(attach_raw_tracepoint(self._programs.wakes, "sched_waking"))
            followed.append(attach_raw_tracepoint(self._programs.switches, "sched_switch"))
        except OSError:
            close_together(followed)
            raise
        self._tracepoints += followed

    def attach(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probes functions of the file at ``path``. Failures of counted functions are in the result's
        ``failed``."""
        # Of several names of one function, only one is probed: otherwise a call would be counted twice.
        places = {point.offset: point for point in reversed(points)}
        chosen = [*reversed(places.values())]
        counted = [point for point in chosen if point.cookie < layout.FUNCTIONS]
        choosing = [point for point in chosen if point.cookie >= FIRST_CHOOSING]
        naming = [point for point in chosen if layout.FUNCTIONS <= point.cookie < FIRST_CHOOSING]
        # The probes for names and devices are attached first. So the name and the device of every counted
        # launch are known.
        attachment = self._naming.attach(path, naming)
        attachment = self._attach_choosing(path, choosing).joined(attachment)
        attachment = self._counting.attach(path, counted).joined(attachment)
        self._attachments = [other for other in self._attachments if other.attached] + [attachment]
        return attachment

    def attach_sessions(self, path: str, points: Sequence[Point]) -> Attachment:
        """Probes functions of the file at ``path`` by sessions. Failures are in the result's ``failed``.
        Raises BpfError if the Linux kernel refuses the program."""
        attachment = SessionAttacher(self._programs.session.load()).attach(path, points)
        self._attachments = [other for other in self._attachments if other.attached] + [attachment]
        return attachment

    def close(self) -> None:
        """Detaches all programs, at the end."""
        atexit.unregister(self.close)
        self.rest()

    def _attach_choosing(self, path: str, points: Sequence[Point]) -> Attachment:
        begins = any(point.cookie % CHOOSINGS == layout.Choosing.BEGINS for point in points)
        # Processes that have the driver now may have initialized CUDA, and chosen devices, before the probes
        # were there.
        older = self._users.now() if begins else set()
        tell_older(self._programs, older)
        attachment = self._choosing.attach(path, points)
        if begins:
            tell_older(self._programs, self._users.now() - older)
        return attachment


def _attacher(way: str, entry: int, returns: int) -> Attacher:
    return (MultiAttacher if way == "multi" else PerfAttacher)(entry, returns)
