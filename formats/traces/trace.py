"""Writes windows as a trace in the Trace Event Format, which Perfetto and Chrome's own viewer open.

Containers, processes and their threads are tracks. Captured calls are slices on the track of their thread.
Rates, percentiles and figures of devices are counters, with one value for each window. A chain is a slice on
the track of the tenant that loses time, and an arrow leads to it from the track of each culprit. Times are in
microseconds since ``baseTimeNanoseconds``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from stalltop.formats.episodes import Episode, Episodes
from stalltop.formats.text.window import OPEN_CALL_NS
from stalltop.formats.traces.call_stacks import CallStacks
from stalltop.formats.traces.tracks import Event, Tracks
from stalltop.model.calls import CapturedCall
from stalltop.model.chain import Chain, Link
from stalltop.model.devices.device import DEVICE_FIGURE, Device
from stalltop.model.errors import StalltopError
from stalltop.model.rows.dimensions import Dimension
from stalltop.model.rows.pivot import pivot
from stalltop.model.text.figures import printable
from stalltop.model.text.words import with_pid
from stalltop.model.window import SPLITS, OpenCall, Window

MOST_BYTES: Final = 512 << 20
"""Maximum size of a trace, in bytes. A viewer in a browser holds the whole trace in memory."""
LEAST_GAP_SECONDS: Final = 0.5
"""A pause between two windows counts as a gap if it is longer than this, and longer than half of the second
window."""
_SAME_CALL_NS: Final = 50_000_000
"""Open calls of one thread in two windows are the same call if their beginnings differ by less than this, ns.
The beginnings are computed from the ages of the calls."""
_LEAST_SLICE_NS: Final = 1_000
_OF_DEVICES: Final = (
    "utilization_percent",
    "memory_used_bytes",
    "power_watts",
    "temperature_celsius",
    "sm_clock_mhz",
    "sm_active_percent",
    "tensor_percent",
    "dram_percent",
    "pcie_rx_bytes_per_second",
    "pcie_tx_bytes_per_second",
)
"""Figures of each GPU that the trace shows as counters: names of fields of ``Device``."""
_WRONG: Final = "problems"
_BLAMED: Final = "takes from others"


def pieces(windows: Iterable[Window], span: tuple[float, float]) -> Iterator[bytes]:
    """Yield the pieces of the trace of ``windows``, which must be in the order in which they were recorded.
    ``span`` begins at the start of the earliest window (Unix seconds). Raises StalltopError if the trace gets
    too large."""
    trace = _Trace(_ns(span[0]))
    written = 0
    first = True
    yield b'{"displayTimeUnit":"ms","traceEvents":['
    for events in trace.parts(windows):
        text = ",\n".join(json.dumps(event, allow_nan=False, separators=(",", ":")) for event in events)
        if not text:
            continue
        piece = (b"\n" if first else b",\n") + text.encode("ascii")
        first = False
        written += len(piece)
        if written > MOST_BYTES:
            raise StalltopError(
                f"the trace would be larger than {MOST_BYTES >> 20} MiB, more than viewers open",
                "export less with --from and --until or --container, or merge windows with --every 10",
            )
        yield piece
    about = {"program": "stalltop", "start_unix_s": trace.base_ns / 1e9, "simulated": trace.simulated}
    yield b'\n],"baseTimeNanoseconds":%d,"otherData":%s}\n' % (
        trace.base_ns,
        json.dumps(about, allow_nan=False).encode("ascii"),
    )


@dataclass(slots=True)
class _Open:
    """An open call as it was in the last window in which it was open. Times are Unix ns."""

    began_ns: int
    seen_ns: int
    ended: bool


class _Trace:
    """Turns windows into events of a trace. Keeps what later events need to know of earlier windows."""

    def __init__(self, base_ns: int) -> None:
        self.base_ns = base_ns
        """Unix time in ns that is time 0 of the trace."""
        self.simulated = False
        self._tracks = Tracks()
        self._episodes = Episodes()
        self._ends: dict[str, int] = {}
        """For each host: the end of its last window, Unix ns."""
        self._values: dict[str, dict[tuple[int, str, str], float]] = {}
        """For each host: the last value of each counter."""
        self._open: dict[tuple[str, OpenCall], _Open] = {}

    def parts(self, windows: Iterable[Window]) -> Iterator[list[Event]]:
        """Yield the events of each window, then the events of calls that are still open, then the events of
        chains."""
        for window in windows:
            self.simulated = self.simulated or window.simulated
            self._episodes.add(window)
            yield self._with_names([*self._gap(window), *self._counters(window), *self._moments(window)])
        closing = [self._open_slice(*key, call) for key, call in self._open.items()]
        yield self._with_names([*closing, *self._all_zero()])
        for number, episode in enumerate(self._episodes.all(), start=1):
            yield self._with_names(self._chain(episode, number))

    def _with_names(self, events: list[Event]) -> list[Event]:
        return [*self._tracks.take_named(), *events]

    def _time(self, unix_ns: int) -> float:
        """Convert a Unix time in ns to µs since the beginning of the trace; 0 if the time is earlier."""
        return max(unix_ns - self.base_ns, 0) / 1000

    # ---- counters

    def _gap(self, window: Window) -> list[Event]:
        """If there is a gap before ``window``, return a slice for the gap, and set all counters to 0.
        Otherwise return []."""
        start, end = _ns(window.start), self._ends.get(window.host)
        self._ends[window.host] = max(start + _ns(window.seconds), end or 0)
        if end is None or start - end <= _ns(max(LEAST_GAP_SECONDS, window.seconds / 2)):
            return []
        track = self._tracks.host(window.host)
        line = self._tracks.line(track, 0, "recording", end, start, within=False)
        return [*self._zero(window.host, end), self._slice("not recorded", "gap", track, line, end, start)]

    def _all_zero(self) -> list[Event]:
        return [event for host, end in self._ends.items() for event in self._zero(host, end)]

    def _zero(self, host: str, at_ns: int) -> list[Event]:
        values = self._values.get(host, {})
        return [event for key in list(values) for event in self._count(values, key, 0.0, at_ns)]

    def _count(
        self, values: dict[tuple[int, str, str], float], key: tuple[int, str, str], value: float, at_ns: int
    ) -> list[Event]:
        """Return an event with the new value of a counter; [] if the value stays the same."""
        if values.get(key) == value or (not value and key not in values):
            return []
        values[key] = value
        track, name, unit = key
        return [{"ph": "C", "name": name, "pid": track, "ts": self._time(at_ns), "args": {unit: value}}]

    def _counters(self, window: Window) -> list[Event]:
        values = self._values.setdefault(window.host, {})
        # The track of the host is made first, so that viewers show it above the tracks of its containers.
        self._tracks.host(window.host)
        now = {**self._of_calls(window), **self._of_host(window)}
        start = _ns(window.start)
        events: list[Event] = []
        for key in [*now, *(key for key in values if key not in now)]:
            events += self._count(values, key, now.get(key, 0.0), start)
        return events

    def _of_calls(self, window: Window) -> dict[tuple[int, str, str], float]:
        """Return the counters for the outermost calls of each container and process."""
        found: dict[tuple[int, str, str], float] = {}
        row_of = {(f"{key.host}/{key.pid}/{key.process}", key.tenant): key for key in window.rows.keys}
        kinds: tuple[tuple[Dimension, ...], ...] = (("container",), ("process", "container"))
        for by in kinds:
            groups = pivot(window, by)
            rates, p99 = groups.calls_per_s.tolist(), groups.p99_ns.tolist()
            errors = (groups.errors / (window.seconds or 1.0)).tolist()
            for at, key in enumerate(groups.keys):
                if len(by) == 1:
                    track = self._container(window, key[0])
                else:
                    row = row_of[key[0], key[1]]
                    track = self._process(window, row.tenant, row.pid, row.process)
                found[track, "calls", "/s"] = round(rates[at], 3)
                found[track, "p99", "ms"] = p99[at] / 1e6
                found[track, "errors", "/s"] = round(errors[at], 3)
        return found

    def _of_host(self, window: Window) -> dict[tuple[int, str, str], float]:
        """Return the counters for CPUs, memory, devices and losses."""
        track = self._tracks.host(window.host)
        found: dict[tuple[int, str, str], float] = {}
        system = window.system
        if system is not None:
            found[track, "CPUs busy", "%"] = round(system.cpu_percent, 2)
            found[track, "memory used", "GiB"] = round(system.memory_used_bytes / 2**30, 3)
        for device in window.devices.devices:
            found |= {(track, f"GPU {device.index} {name}", unit): value for name, unit, value in _of(device)}
        if window.lost:
            found[track, "calls missed", "each window"] = float(window.lost)
        if window.calls.passed_over:
            found[track, "slow calls not captured", "each window"] = float(window.calls.passed_over)
        return found

    def _container(self, window: Window, tenant: str) -> int:
        return self._tracks.container(window.host, tenant, self._episodes.name(window.host, tenant))

    def _process(self, window: Window, tenant: str, pid: int, process: str) -> int:
        name = self._episodes.name(window.host, tenant)
        self._container(window, tenant)
        return self._tracks.process(window.host, tenant, name, pid, process)

    # ---- calls and instant events

    def _moments(self, window: Window) -> list[Event]:
        stacks = CallStacks(window)
        events = [self._kept(window, call, stacks) for call in window.calls.kept]
        events += self._open_calls(window)
        for event in window.evidence.events:
            track = self._container(window, event.tenant) if event.tenant else self._tracks.host(window.host)
            events.append(
                {
                    "ph": "i",
                    "s": "p",
                    "name": printable(event.kind),
                    "cat": "event",
                    "pid": track,
                    "tid": track,
                    "ts": self._time(_ns(event.time)),
                    "args": {"text": printable(event.text)},
                }
            )
        return events

    def _slice(
        self, name: str, category: str, track: int, line: int, start: int, end: int, **args: Any
    ) -> Event:
        """Return a slice from ``start`` to ``end`` (Unix ns). Those of ``args`` that are None or '' are left
        out."""
        start, end = max(start, self.base_ns), max(end, self.base_ns)
        known = {key: value for key, value in args.items() if value not in (None, "")}
        return {
            "ph": "X",
            "name": printable(name) or "unnamed",
            "cat": category,
            "pid": track,
            "tid": line,
            "ts": self._time(start),
            "dur": (end - start) / 1000,
            "args": known,
        }

    def _line(self, track: int, tid: int, start: int, end: int) -> int:
        return self._tracks.line(track, tid, f"thread {tid}", start, end, within=True)

    def _kept(self, window: Window, call: CapturedCall, stacks: CallStacks) -> Event:
        start, end = call.start_ns, call.start_ns + call.duration_ns
        track = self._process(window, call.tenant, call.pid, call.process)
        split = None
        if call.split_ns is not None:
            split = {f"{name}_ns": ns for name, ns in zip(SPLITS, call.split_ns, strict=True) if ns}
        return self._slice(
            call.operation,
            call.layer,
            track,
            self._line(track, call.tid, start, end),
            start,
            end,
            duration_ns=call.duration_ns,
            kernel=printable(call.kernel),
            device=printable(call.device),
            arguments=printable(call.arguments),
            bytes=call.bytes or None,
            returned=call.returned,
            kept=call.why,
            split=split or None,
            stack=stacks.of(call),
        )

    def _open_calls(self, window: Window) -> list[Event]:
        """Return slices for the calls that were open in the previous window and are not open in ``window``,
        and for the calls whose threads ended inside them in ``window``. A call that returned and was captured
        has a slice already, so it gets none here."""
        now: dict[tuple[str, OpenCall], _Open] = {}
        end = _ns(window.start) + _ns(window.seconds)
        for call in window.open_calls:
            if call.age_ns < OPEN_CALL_NS and not call.ended:
                continue  # only calls that are open for long, or whose threads have ended, are shown
            # All fields of a call but age and ``ended`` stay the same while it is open, so they identify it.
            key = window.host, _same(call)
            began = end - call.age_ns
            before = self._open.get(key)
            if before is not None and abs(before.began_ns - began) < _SAME_CALL_NS:
                began = before.began_ns
            now[key] = _Open(began, end, call.ended)
        kept = {(call.tid, call.operation, call.layer): call for call in window.calls.kept}
        events: list[Event] = []
        for key, past in list(self._open.items()):
            host, call = key
            if host != window.host:
                continue
            still = now.get(key)
            if still is not None and still.began_ns == past.began_ns:
                continue
            del self._open[key]
            whole = kept.get((call.tid, call.operation, call.layer))
            if whole is None or abs(whole.start_ns - past.began_ns) >= _SAME_CALL_NS:
                events.append(self._open_slice(host, call, past))
        self._open.update(now)
        gone = [key for key, call in now.items() if call.ended]
        return events + [self._open_slice(*key, self._open.pop(key)) for key in gone]

    def _open_slice(self, host: str, call: OpenCall, seen: _Open) -> Event:
        name = self._episodes.name(host, call.tenant)
        track = self._tracks.process(host, call.tenant, name, call.pid, call.process)
        return self._slice(
            call.operation,
            call.layer,
            track,
            self._line(track, call.tid, seen.began_ns, seen.seen_ns),
            seen.began_ns,
            seen.seen_ns,
            ended="its thread ended inside of it" if seen.ended else "had not returned when it was last seen",
            device=printable(call.device),
            began_unix_s=seen.began_ns / 1e9 if seen.began_ns < self.base_ns else None,
        )

    # ---- chains

    def _chain(self, episode: Episode, number: int) -> list[Event]:
        """Return a slice on the track of the tenant that loses time. For each culprit, also return a slice on
        the track of its tenant, and an arrow."""
        chain, host = episode.chain, episode.host
        if _ns(episode.end) < self.base_ns:
            return []  # it ended before the first window
        start = max(_ns(chain.since), self.base_ns)
        end = max(_ns(episode.end), start + _LEAST_SLICE_NS)
        track = self._of_tenant(host, chain.tenant)
        line = self._tracks.line(track, 0, _WRONG, start, end, within=False)
        about = self._slice(
            chain.title or chain.cause, f"chain,{chain.severity}", track, line, start, end, **_told(chain)
        )
        events = [about]
        named = (link for link in chain.culprits if not link.of_others)
        for at, link in enumerate(named):
            other = self._of_tenant(host, link.tenant)
            beside = self._tracks.line(other, 0, _BLAMED, start, end, within=False)
            loser = self._episodes.name(host, chain.tenant) or host
            args = {"what": printable(link.text), "from": printable(loser), **_figures(link)}
            events.append(
                self._slice(f"{_blamed(link)}: {chain.title}", "culprit", other, beside, start, end, **args)
            )
            arrow = {"name": "takes from", "cat": "chain", "id": number * 1000 + at, "ts": self._time(start)}
            events.append({"ph": "s", **arrow, "pid": other, "tid": beside})
            events.append({"ph": "f", "bp": "e", **arrow, "pid": track, "tid": line})
        return events

    def _of_tenant(self, host: str, tenant: str) -> int:
        return self._tracks.container(host, tenant, self._episodes.name(host, tenant))


def _ns(seconds: float) -> int:
    """Convert seconds to ns exactly. The product ``seconds * 1e9`` would be rounded to hundreds of ns."""
    whole = math.floor(seconds)
    return whole * 1_000_000_000 + round((seconds - whole) * 1e9)


def _same(call: OpenCall) -> OpenCall:
    return replace(call, age_ns=0, ended=False)


def _of(device: Device) -> Iterator[tuple[str, str, float]]:
    """Yield (name, unit, value) for each figure of a device that is known."""
    for figure in map(DEVICE_FIGURE.__getitem__, _OF_DEVICES):
        unit, per = figure.chart_unit
        value = figure.value(device)
        if value is not None:
            yield figure.label, unit, round(value / per, 3)


def _told(chain: Chain) -> dict[str, Any]:
    """Return the arguments of a chain's slice. Viewers show them when the slice is selected."""
    return {
        "summary": printable(chain.summary),
        "severity": chain.severity,
        "lost_ms_per_s": round(chain.lost_ms_per_s, 3),
        "confidence": round(chain.confidence, 3),
        "operation": printable(chain.operation),
        "steps": [printable(link.text) for link in chain.links] or None,
        "what_helps": [printable(fix.text) for fix in chain.fixes] or None,
        "since_unix_s": chain.since,
        "over": not chain.open,
    }


def _figures(link: Link) -> dict[str, Any]:
    return {
        "share": None if link.share is None else round(link.share, 4),
        "ms_per_s": None if link.ns_per_s is None else round(link.ns_per_s / 1e6, 3),
    }


def _blamed(link: Link) -> str:
    who = with_pid(link.process, link.pid) if link.process else ""
    return printable(who or link.device or link.text)
