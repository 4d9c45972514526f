"""Show a fleet on one screen: hosts worst first, problems of many hosts by culprit, tenants and jobs across
hosts (docs/fleet.md).

Enter opens the live screen of a host. In a pipe, the fleet is printed once. demo starts a fleet on this
machine; check says whether the NATS server and the hosts are as they should be; save writes what
`stalltop rollup` has merged, and the problems of that time, as a recording; metrics serves figures of the
fleet to Prometheus.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stalltop.cli.commands.metrics import add_endpoint_options
from stalltop.cli.durations import duration
from stalltop.cli.fleet.options import add_server_options, server_access
from stalltop.cli.screen_options import add_screen_options, run_options
from stalltop.cli.tracing import add_state_options, number, say
from stalltop.model.errors import StalltopError, UsageError

if TYPE_CHECKING:
    from stalltop.fleet.connection import ServerAccess
    from stalltop.fleet.digest_watch import DigestWatch
    from stalltop.fleet.watch import FleetWatch
    from stalltop.model.fleet.host_summary import HostAddress

JOIN_SECONDS = 10.0
"""Longest wait for the last summaries of all hosts, when the fleet is printed."""
DEMO_HOSTS, DEMO_TRACED = 64, 4
MOST_HOSTS = 10_000
DEMO_SECONDS = 3.0
"""How long the demo runs before it is printed, once all of its hosts make calls."""
JOB_SECONDS = 4.0
"""How long ranks are followed before jobs are printed: a rank is called late if it is late for more than a
second, and three messages of a host tell how far its clock is ahead."""
START_SECONDS = 60.0
"""Longest wait for the hosts of the demo: traced ones load BPF programs and start tenants."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "what",
        nargs="?",
        choices=("demo", "check", "save", "metrics"),
        metavar="demo|check|save|metrics",
        help="demo: a fleet on this machine, with a NATS server of its own; check: say what is missing on "
        "the NATS server and on hosts; save: write the merged windows of stalltop rollup as a recording; "
        "metrics: serve the figures of the fleet to Prometheus",
    )
    parser.add_argument("--once", action="store_true", help="print the fleet once instead of the live screen")
    parser.add_argument("--json", action="store_true", help="print one JSON object (docs/fleet.md)")
    parser.add_argument("--cluster", default="", metavar="NAME", help="only hosts of this cluster")
    parser.add_argument(
        "--namespace",
        default="",
        metavar="NAME",
        help="only what members of this namespace may see: their tenants, problems and ranks",
    )
    add_server_options(parser)
    group = parser.add_argument_group("demo")
    group.add_argument(
        "--hosts",
        type=number(int, 0, MOST_HOSTS),
        default=DEMO_HOSTS,
        metavar="N",
        help="simulated hosts (default: %(default)s)",
    )
    group.add_argument(
        "--traced",
        type=number(int, 0, 8),
        default=DEMO_TRACED,
        metavar="N",
        help="hosts with real sample tenants, each traced; needs root (default: %(default)s)",
    )
    group.add_argument(
        "--seconds",
        type=number(float, 1, 3600),
        default=DEMO_SECONDS,
        metavar="N",
        help="with --once or --json: how long the demo runs before (default: %(default)g)",
    )
    group = parser.add_argument_group("check")
    group.add_argument("--make-streams", action="store_true", help="make the streams that are missing")
    group.add_argument(
        "--replicas",
        type=number(int, 1, 5),
        default=1,
        metavar="N",
        help="servers that keep a copy of each stream, with --make-streams (default: %(default)s)",
    )
    group = parser.add_argument_group("save")
    group.add_argument("-o", "--to", type=Path, metavar="FILE", help="file to write")
    group.add_argument("--force", action="store_true", help="replace FILE if it exists")
    group.add_argument(
        "--last",
        type=duration,
        default=3600.0,
        metavar="TIME",
        help="how much of the past, such as 600 or 2h (default: 1h)",
    )
    add_endpoint_options(parser.add_argument_group("metrics"))
    add_screen_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Shows or prints the fleet, and returns 0; ``check`` returns 1 if something is missing. Raises
    FleetError if the server cannot be reached."""
    if options.what != "check" and options.make_streams:
        raise UsageError("--make-streams belongs to stalltop fleet check")
    if (options.what == "save") != (options.to is not None):
        raise UsageError("stalltop fleet save needs --to FILE, and only it")
    access = server_access(options)
    if options.what == "save":
        from stalltop.cli.fleet.past import FleetPast, save_past

        past = FleetPast(options.cluster, options.last)
        say(save_past(access, past, options.to, overwrite=options.force))
        return 0
    if options.what == "metrics":
        return _metrics(options, access)
    if options.what == "check":
        return _check(options, access)
    if options.what == "demo":
        from stalltop.cli.fleet.demo import demo_fleet

        with demo_fleet(options.hosts, options.traced, say) as access:
            return _fleet(options, access)
    return _fleet(options, access)


def _fleet(options: argparse.Namespace, access: ServerAccess) -> int:
    from stalltop.fleet.digest_watch import DigestWatch
    from stalltop.fleet.watch import FleetWatch

    printed = options.once or options.json or not sys.stdout.isatty()
    messages: list[str] = []
    tell = say if printed else messages.append
    if printed:
        watch = FleetWatch(access, cluster=options.cluster, namespace=options.namespace, say=tell)
    else:
        watch = DigestWatch(access, cluster=options.cluster, namespace=options.namespace, say=tell)
    try:
        watch.start()
        if isinstance(watch, DigestWatch):
            return _shown(options, access, watch)
        return _printed(options, watch)
    finally:
        watch.stop()
        for line in dict.fromkeys(messages):
            say(line)


def _printed(options: argparse.Namespace, watch: FleetWatch) -> int:
    if not watch.join(JOIN_SECONDS):
        say(f"the summaries of all hosts did not come within {JOIN_SECONDS:g} s; what came is printed")
    if options.what == "demo":
        _await_demo(options, watch)
    elif any(job.size > 1 for job in watch.view().jobs):
        time.sleep(JOB_SECONDS)
    view = watch.view()
    if options.json:
        import json

        from stalltop.formats.documents.fleet import fleet_document

        json.dump(fleet_document(view), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return 0
    from stalltop.cli.printing import style
    from stalltop.formats.text.fleet import fleet_lines

    sys.stdout.write("".join(f"{line}\n" for line in fleet_lines(view, style())))
    return 0


def _await_demo(options: argparse.Namespace, watch: FleetWatch) -> None:
    """Waits until all hosts of the demo make calls, but not longer than ``START_SECONDS``; then for
    ``--seconds``."""
    until = time.monotonic() + START_SECONDS
    wanted = options.hosts + (options.traced if os.geteuid() == 0 else 0)
    while time.monotonic() < until:
        calling = sum(host.calls_per_s > 0 for host in watch.view().hosts)
        if calling >= wanted:
            break
        time.sleep(0.5)
    time.sleep(options.seconds)


def _shown(options: argparse.Namespace, access: ServerAccess, watch: DigestWatch) -> int:
    from stalltop.tui.fleet.fleet_app import FleetSource, run
    from stalltop.tui.fleet.fleet_tables import FleetChoice

    source = FleetSource(watch.digest, watch.tenant_hosts, lambda: _saved(options, access))
    choice = FleetChoice()
    while True:
        end = run(source, run_options(options), choice)
        choice = end.choice
        if end.opened is not None:
            code = _host(options, access, end.opened)
        elif end.past:
            code = _past(options, access)
        else:
            return end.exit_code
        if code:
            return code


def _saved(options: argparse.Namespace, access: ServerAccess) -> str:
    """Saves the past of the last hour in this folder, and returns a line about it."""
    from stalltop.cli.fleet.past import FleetPast, save_past

    path = Path(f"fleet-{time.strftime('%Y%m%d-%H%M%S')}.stalltop")
    return save_past(access, FleetPast(options.cluster), path)


def _past(options: argparse.Namespace, access: ServerAccess) -> int:
    """Shows the past of the fleet until the user leaves it; returns the exit code. If there is none, says so,
    and returns 0."""
    from stalltop.cli.fleet.past import FleetPast, as_file
    from stalltop.recordings.past.opened import OpenedRecording
    from stalltop.recordings.read.reading import open_file
    from stalltop.tui.app import run

    try:
        with as_file(access, FleetPast(options.cluster), say) as path:
            return run(OpenedRecording(open_file(path)), run_options(options, print_last=False))
    except StalltopError as error:
        say(str(error))
        return 0


def _metrics(options: argparse.Namespace, access: ServerAccess) -> int:
    from stalltop.cli.commands.metrics import LISTEN, announce, listen_address, listening
    from stalltop.cli.ending import requests
    from stalltop.cli.main import program_version
    from stalltop.fleet.digest_watch import DigestWatch
    from stalltop.formats.metrics.fleet import pass_on_fleet

    options.listen = options.listen or listen_address(LISTEN)
    watch, version = DigestWatch(access, cluster=options.cluster, say=say), program_version()
    endpoint = listening(options, lambda made: pass_on_fleet(watch.digest(), version, made))
    try:
        watch.start()
        with requests() as ended:
            endpoint.start()
            announce(options, endpoint.port)
            ended.wait()
    finally:
        endpoint.stop()
        watch.stop()
    return 0


def _host(options: argparse.Namespace, access: ServerAccess, address: HostAddress) -> int:
    """Shows the live screen of a host until the user leaves it; returns the exit code. If the host sends no
    windows, says so, and returns 0: the fleet is shown again."""
    from stalltop.fleet.remote_host import RemoteHostSource
    from stalltop.model.merge.history import History
    from stalltop.tui.app import run

    history = History()
    try:
        source = RemoteHostSource(access, address, history)
    except StalltopError as error:
        say(str(error))
        return 0
    screen = run_options(options, history=history, paced=lambda: True, print_last=False)
    return run(source, screen)


def _check(options: argparse.Namespace, access: ServerAccess) -> int:
    from stalltop.cli.printing import style
    from stalltop.fleet.checks import host_findings, server_findings
    from stalltop.fleet.watch import FleetWatch
    from stalltop.formats.text.readiness import listed
    from stalltop.model.finding import can_trace

    findings = asyncio.run(server_findings(access, make=options.make_streams, replicas=int(options.replicas)))
    watch = FleetWatch(access, cluster=options.cluster)
    try:
        watch.start()
        watch.join(JOIN_SECONDS)
        findings += host_findings(watch.view())
    finally:
        watch.stop()
    fit = can_trace(findings)
    if options.json:
        import json

        told = [
            {"name": one.name, "verdict": one.verdict, "seen": one.seen, "remedy": one.remedy}
            for one in findings
        ]
        json.dump({"schema": "stalltop.fleet-check/1", "fit": fit, "findings": told}, sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        said = "The server is fit for a fleet." if fit else "The server is not fit for a fleet as it is."
        sys.stdout.write(listed(findings, said, style()))
    return 0 if fit else 1
