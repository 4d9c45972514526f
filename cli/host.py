"""Where a command gets the windows of this host: from its tracer, or by tracing as the tracer."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stalltop.cli.tracing import diagnosed, monitor_options, say, tracer_settings
from stalltop.model.errors import StalltopError, TracingError, UsageError, described
from stalltop.model.source import Source
from stalltop.serving.host.place import NoSeat, TracerPlace, TracerSeat, claim, connected

if TYPE_CHECKING:
    from stalltop.model.hosts.tracer import Tracer
    from stalltop.model.merge.history import History
    from stalltop.model.merge.packing import Peak
    from stalltop.model.window import Window
    from stalltop.probes.options import MonitorOptions
    from stalltop.probes.tracer.kernel_side import KernelSide
    from stalltop.serving.host.host_source import HostSource
    from stalltop.serving.host.shared_source import SharedSource
    from stalltop.serving.host.standby import Standby
    from stalltop.serving.host.tracer_link import TracerLink
    from stalltop.serving.host.tracer_server import TracerServer
    from stalltop.tui.settings.host import HostSettings

AHEAD_SECONDS: Final = 4.0
"""Seconds after which a client imports what it needs to take the place of the tracer: until then, it starts
itself."""
READY_SECONDS: Final = 8.0
"""Seconds after which the first client in line loads its programs, too: `once` has ended by then."""
SEARCH_SECONDS: Final = 0.5
"""For how long a client that takes the place of the tracer searches before its first window, s: the other
clients wait for that window."""
PAST_BYTES: Final = 16 << 20
"""Memory for the past that clients can ask for, of a tracer without a screen."""
_JOIN_SECONDS: Final = 5.0
"""For how long a command tries to connect while one tracer ends and another begins, s."""
_MOST_COMMAND: Final = 200
"""Longest command line that is passed to clients, in characters."""


class HostWindows:
    """Decides at once whether this command traces or is a client, and makes its source later.

    With an option that only a tracer obeys, a client raises UsageError.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        *,
        tell: Callable[[str], object] = say,
        history: History | None = None,
        keeps: History | None = None,
        patient: bool = False,
        only_join: bool = False,
    ) -> None:
        """``tell`` is called with lines for the user, in any thread. ``history``: gets the past of the tracer
        (a client), or has the past for clients (the tracer); the reader of the source fills it. ``keeps``:
        has the past for clients; the tracer's source itself fills it. ``patient``: a silent tracer is no
        error. ``only_join``: never become the tracer."""
        self._options = options
        self._tell = tell
        self._history = history
        self._keeps = keeps
        self._patient = patient
        self._only_join = only_join
        self._place = place(options)
        self._seat: TracerSeat | None = None
        self.link: TracerLink | None = None
        """The connection of a client; None: this command traces."""
        self.cannot_trace: TracingError | None = None
        """Why this command can neither trace nor be a client; known once the source is made."""
        self._refused: TracingError | None = None
        self._shares: SharedSource | None = None
        self._client: HostSource | None = None
        self._standby: Standby[MonitorOptions] | None = None
        if options.own:
            self._warn()
        else:
            self._join()

    @property
    def traces(self) -> bool:
        """Whether this command traces, unless that turns out to be impossible."""
        return self.link is None and self._refused is None

    @property
    def paced(self) -> bool:
        """Whether another process sets the pace of the windows at present."""
        return self._client is not None and self._client.is_client

    def leave(self) -> None:
        """Lets reads of a client wait for one more window, but not for long. A signal handler may call it."""
        if self._client is not None:
            self._client.leave()

    def suspend_note(self) -> str:
        """Returns what a user who stops this process (Ctrl-Z) must know; '' if nothing."""
        clients = 0 if self._shares is None else self._shares.clients
        if not clients:
            return ""
        return f"this stalltop is the tracer of this host: its clients ({clients}) get no data until fg"

    def _warn(self) -> None:
        try:
            found = connected(self._place.path)
        except StalltopError:
            return
        if found is not None:
            found.close()
            self._tell("this host has a tracer already: with --own, probes cost the traced programs twice")

    def _join(self) -> None:
        until = time.monotonic() + _JOIN_SECONDS
        while True:
            try:
                found = connected(self._place.path) if self._only_join else claim(self._place)
            except TracingError as refused:
                self._refused = refused
                return
            if not isinstance(found, socket.socket):
                self._take(found)
                return
            from stalltop.serving.host.tracer_link import TracerEndedError, TracerLink

            try:
                self.link = TracerLink(found, past=self._history is not None)
            except TracingError as refused:
                self._refused = refused
                return
            except TracerEndedError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
                continue
            self._refuse_settings(self.link.tracer)
            return

    def _take(self, found: TracerSeat | NoSeat | None) -> None:
        if isinstance(found, TracerSeat):
            self._seat = found
            if found.fault:
                self._tell(found.fault)
        elif found is not None and (os.geteuid() == 0 or self._options.socket):
            # Other users cannot be the tracer of a host, and need not be told.
            self._tell(f"other stalltops cannot use the windows of this one: {found.reason}")

    def _refuse_settings(self, tracer: Tracer) -> None:
        """Raises UsageError if options are given that only a tracer obeys."""
        given = tracer_settings(self._options)
        if given:
            assert self.link is not None
            self.link.close()
            raise UsageError(
                f"{', '.join(given)}: only the tracer of this host can be told that ({tracer.text})",
                f"end it and start it again with {' '.join(given)}, or trace by yourself: --own",
            )

    def source(self, tracing: MonitorOptions | None = None) -> Source:
        """Makes the source. ``tracing``: how to trace; by default as the options say."""
        if self.link is not None:
            from stalltop.serving.host.host_source import HostSource

            if not self._only_join:
                self._standby = self._prepared()
            self._client = HostSource(
                self.link,
                self._place,
                None if self._only_join else self._traced,
                tell=self._tell,
                history=self._history,
                patient=self._patient,
                standby=self._standby,
            )
            return self._client
        if self._refused is not None:
            tracing = replace(tracing or monitor_options(self._options), kernel=self._refuse)
        seat, self._seat = self._seat, None
        return self._shared(seat, None, tracing)

    def _refuse(self) -> KernelSide:
        assert self._refused is not None
        raise self._refused

    def _prepared(self) -> Standby[MonitorOptions]:
        """Begins to prepare this process to take the place of the tracer."""
        from stalltop.serving.host.standby import Standby

        delays = AHEAD_SECONDS, READY_SECONDS - AHEAD_SECONDS
        make = partial(_ready, self._options)
        return Standby(self._place, make, _give_back, warm=_import_tracer, delays_seconds=delays)

    def _traced(self, seat: TracerSeat) -> Source:
        """Traces in the place of a tracer that has ended (``serving.host.host_source.Trace``)."""
        prepared = None if self._standby is None else self._standby.take()
        try:
            # The other clients are served from now on, and get windows as soon as there are some.
            server = self._serve(seat)
        except BaseException:
            seat.close()
            if prepared is not None:
                _give_back(prepared)
            raise
        source = self._shared(seat, server, prepared)
        if self.cannot_trace is not None:
            source.close()
            raise self.cannot_trace
        return source

    def _shared(
        self, seat: TracerSeat | None, server: TracerServer | None, tracing: MonitorOptions | None
    ) -> Source:
        """Traces, and shares the windows with clients if there is a seat and tracing is possible; otherwise
        closes the seat. ``server``: None: it starts while tracing begins."""
        if seat is None:
            return self._monitored(tracing)
        from stalltop.serving.host.shared_source import SharedSource
        from stalltop.serving.host.starting_server import StartingServer

        serves = server or StartingServer(partial(self._serve, seat), partial(self._give_up, seat))
        try:
            source = self._monitored(tracing)
            if self.cannot_trace is None:
                self._shares = SharedSource(source, seat, serves, self._keeps)
                return self._shares
        except BaseException:
            serves.stop()
            seat.close()
            raise
        serves.stop()
        seat.close()
        return source

    def _monitored(self, tracing: MonitorOptions | None) -> Source:
        from stalltop.probes.monitor import Monitor

        monitor = Monitor(tracing or monitor_options(self._options))
        self.cannot_trace = monitor.cannot_trace
        return diagnosed(monitor, keep=self._options.state and monitor.cannot_trace is None, tell=self._tell)

    def _serve(self, seat: TracerSeat) -> TracerServer:
        from stalltop.serving.host.tracer_server import TracerServer

        server = TracerServer(
            seat.listener,
            this_process(),
            self._place.group_id(),
            self._kept,
            partial(self._give_up, seat),
        )
        server.start()
        return server

    def _give_up(self, seat: TracerSeat, error: Exception) -> None:
        """Lets another process be the tracer, because this one cannot serve clients any more."""
        seat.close()
        self._tell(f"this stalltop traces on, but no longer for others: {described(error)}")

    def _kept(self, before: float) -> Iterable[tuple[Window, Peak]]:
        """Returns the windows that ended by ``before``, newest first."""
        history = self._keeps if self._history is None else self._history
        parts = () if history is None else history.parts
        return (
            (packed.unpack(), packed.peak) for packed in reversed(parts) if packed.window.end <= before + 1e-3
        )


def _import_tracer() -> None:
    """Imports what a client needs to take the place of the tracer: that takes a second on a busy host."""
    import stalltop.diagnosis.engine
    import stalltop.probes.monitor
    import stalltop.serving.host.tracer_server  # noqa: F401


def _ready(options: argparse.Namespace) -> MonitorOptions:
    """Loads the programs, which stay attached to nothing, and starts the confined process. Returns options
    for a monitor that uses them. Raises TracingError."""
    from stalltop.probes.confined.link import Confined
    from stalltop.probes.privileges import capabilities

    if not capabilities():
        raise TracingError("this user may not trace")
    made = monitor_options(options)
    kernel = made.begin()
    kernel.rest()
    confined = Confined()
    confined.begin()
    return replace(made, kernel=lambda: kernel, confined=confined, search_seconds=SEARCH_SECONDS)


def _give_back(prepared: MonitorOptions) -> None:
    """Closes what `_ready` made."""
    if prepared.confined is not None:
        prepared.confined.close()
    if prepared.kernel is not None:
        prepared.kernel().close()


def host_settings() -> HostSettings:
    """Returns the settings of the host. Raises UsageError if they are invalid."""
    from stalltop.tui.settings import host as known

    try:
        known.HOST_CONFIG.stat()
    except (FileNotFoundError, NotADirectoryError):
        return known.HostSettings()
    except OSError:
        pass  # A file that this user may not read is an error: without it, the tracer would not be found.
    # imported here, because it imports the settings of the screen
    from stalltop.tui.settings.file import load

    remedy = "correct it, as root; all users must be able to read it"
    return known.HostSettings(**load(known.HOST_CONFIG, known.HOST_SETTINGS, remedy))


def place(options: argparse.Namespace) -> TracerPlace:
    """Returns where the tracer of this host is. Raises UsageError if the settings of the host are invalid."""
    settings = host_settings()
    given = options.socket or os.environ.get("STALLTOP_SOCKET", "")
    return TracerPlace(Path(os.path.abspath(given)) if given else settings.socket, settings.group)


def this_process() -> Tracer:
    """Returns what clients are told about this process."""
    import pwd

    from stalltop.model.hosts.tracer import Tracer
    from stalltop.model.text.clean import clean

    uid = os.geteuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    command = clean(" ".join(("stalltop", *sys.argv[1:])))[:_MOST_COMMAND]
    return Tracer(os.getpid(), user, time.time(), command)


def host_windows(
    options: argparse.Namespace, *, patient: bool = False, only_join: bool = False
) -> tuple[Source, Callable[[], object]]:
    """Returns the windows of this host, or with ``--simulated`` those of simulated tenants, for a command
    without a screen; also what to call when the user ends the command: reads then wait no longer than for a
    last window. ``patient`` and ``only_join`` are those of `HostWindows`. Raises TracingError if this host
    cannot be traced, and StalltopError if nothing traces it and this command must not."""
    if options.simulated:
        from stalltop.demo.simulated.windows import SimulatedSource

        return diagnosed(SimulatedSource()), bool
    from stalltop.model.merge.history import History

    # The past is kept in memory, not read from a file that is being recorded: closing the file would drop
    # SQLite's locks, which this process has on it (``recordings.write.hold``).
    host = HostWindows(options, keeps=History(PAST_BYTES), patient=patient, only_join=only_join)
    if only_join and host.link is None:
        raise StalltopError("no stalltop traces this host")
    source = host.source()
    if host.cannot_trace is not None:
        source.close()
        raise host.cannot_trace
    if host.link is not None:
        say(f"windows of the tracer of this host: {host.link.tracer.text}")
    return source, host.leave
