"""Show the live screen with sample tenants: real programs, each in a cgroup, which call stand-in CUDA
libraries and are traced by eBPF.

Without root, a C compiler or eBPF the tenants are simulated, and the screen says so.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from stalltop.cli.commands.once import print_window, watch
from stalltop.cli.commands.record import add_recording_options, recorded, shown
from stalltop.cli.host import HostWindows
from stalltop.cli.screen_options import add_screen_options, run_options
from stalltop.cli.tracing import add_state_options, add_tracing_options, begun, diagnosed, number, say
from stalltop.model.caption import Caption
from stalltop.model.progress import Progress
from stalltop.model.source import Source

if TYPE_CHECKING:
    from stalltop.demo.scenario import Scenario

DEFAULT = "tour"
"""Default scenario."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this command."""
    parser.add_argument(
        "scenario",
        nargs="?",
        metavar="SCENARIO",
        help=f"which tenants to run, see --list (default: {DEFAULT}; with --simulated: ten tenants with "
        "several problems)",
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios and exit")
    parser.add_argument("--once", action="store_true", help="print one window instead of the live screen")
    parser.add_argument("--json", action="store_true", help="print one window as JSON")
    parser.add_argument(
        "--seconds",
        type=number(float, 0.1, 3600),
        default=3.0,
        help="length of the window, with --once or --json (default: %(default)g)",
    )
    parser.add_argument(
        "--simulated", action="store_true", help="simulate the tenants, even if real ones can run"
    )
    parser.add_argument(
        "--all", dest="everyone", action="store_true", help="show the other tenants of this host as well"
    )
    add_screen_options(parser)
    add_recording_options(parser)
    add_tracing_options(parser)
    add_state_options(parser)


def run(options: argparse.Namespace) -> int:
    """Shows the sample tenants on the screen, or prints one window of them on stdout."""
    if options.list or options.once or options.json or not sys.stdout.isatty():
        return _demonstrate(options)
    from stalltop.cli.opening import opening

    with opening():
        return _demonstrate(options)


def _demonstrate(options: argparse.Namespace) -> int:
    from stalltop.demo.scenario import load_scenario, scenario_names

    if options.list:
        for name in scenario_names():
            sys.stdout.write(f"{name:16} {load_scenario(name).about}\n")
        return 0
    scenario = load_scenario(options.scenario or DEFAULT)

    from stalltop.cli.messages import ScreenMessages
    from stalltop.probes import helpers
    from stalltop.tui.reading.own_cost import OwnCost

    once = options.once or options.json or not sys.stdout.isatty()
    progress, caption, messages = Progress(), Caption(), ScreenMessages()
    tell = say if once else messages.tell
    host = None if options.simulated else tracer_of_demo(options, tell)

    def start() -> Source:
        from stalltop.demo.simulated.windows import SimulatedSource
        from stalltop.demo.source import simulated_source

        if options.simulated:
            if not options.scenario:
                return diagnosed(SimulatedSource(), tell=tell)
            return diagnosed(simulated_source(scenario, caption=caption), tell=tell)
        source = sample_tenants(options, scenario, host, progress, everyone=options.everyone, caption=caption)
        return diagnosed(source, tell=tell)

    if once:
        source = start()
        try:
            print_window(watch(source, float(options.seconds)), as_json=options.json)
        finally:
            source.close()
        return 0
    from stalltop.cli.later import Later

    # The name of the default file contains ``demo`` instead of the name of this host, because the tenants may
    # be simulated.
    source = recorded(Later(start), options, "demo")
    messages.show_on(source)
    screen = run_options(
        options,
        demo=True,
        recorded=source,
        progress=progress,
        caption=caption,
        own_cost=OwnCost(helpers.running),
        paced=lambda: host is not None and host.paced,
    )
    try:
        return shown(source, screen, at_once=options.record is not None)
    finally:
        messages.print()


def tracer_of_demo(options: argparse.Namespace, tell: Callable[[str], object]) -> HostWindows | None:
    """Returns the connection to the tracer of this host, which sees the sample tenants, too; None if this
    user cannot trace. Without a tracer the demo traces by itself, and is not the tracer of the host, because
    it shows stand-in GPUs."""
    return HostWindows(options, tell=tell, patient=True, only_join=True) if os.geteuid() == 0 else None


def sample_tenants(
    options: argparse.Namespace,
    scenario: Scenario,
    host: HostWindows | None,
    progress: Progress,
    *,
    everyone: bool = False,
    caption: Caption | None = None,
) -> Source:
    """Starts the tenants of a scenario and returns their windows (`demo_source`)."""
    from stalltop.demo.source import demo_source, why_simulated

    traced = None if host is None or host.link is None else host.source()
    # The BPF programs are loaded while the tenants start.
    tracing = None if traced is not None or why_simulated() else begun(options, progress)
    return demo_source(scenario, tracing, everyone=everyone, caption=caption, traced=traced)
