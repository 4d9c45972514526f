"""Provides windows of sample tenants. The tenants are traced on this host if that is possible; otherwise they
are simulated, and the windows state the reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from stalltop.demo.build import compiler
from stalltop.demo.cgroups import hierarchy
from stalltop.demo.injecting import CaptionedSource, FaultInjector
from stalltop.demo.only import only
from stalltop.demo.scenario import Scenario
from stalltop.demo.simulated.plots import PLOTS
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.demo.tenants import DemoTenants
from stalltop.model.caption import Caption
from stalltop.model.errors import StalltopError
from stalltop.model.source import Source
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions

INJECTOR_SECONDS = 0.5
"""Seconds to wait at the end for a fault that is being injected."""


def demo_source(
    scenario: Scenario,
    options: MonitorOptions | None = None,
    *,
    everyone: bool = False,
    caption: Caption | None = None,
    traced: Source | None = None,
) -> Source:
    """Starts the tenants of ``scenario`` and traces them; if they cannot be started or traced, simulates
    them. ``traced`` has the windows of the tracer of this host, if there is one: then nothing more is traced.

    With ``everyone``, the windows also have the calls of other programs of this host. ``caption`` receives
    lines that say what the scenario's faults do. The windows have no problems yet: the caller diagnoses them.
    If windows are simulated, their field ``simulated`` is set, and ``coverage.tracing`` says why.
    """
    reason = why_simulated()
    if not reason:
        tenants = DemoTenants(scenario)
        try:
            tenants.start()
            source = TracedTenants(tenants, options, everyone=everyone, caption=caption, traced=traced)
            if caption is not None and not scenario.timetable:
                caption.lines = scenario.caption
            return source
        except StalltopError as told:
            reason = told.reason
            tenants.close()
        except BaseException:
            tenants.close()
            raise
    if traced is not None:
        traced.close()
    return simulated_source(scenario, reason=f"simulated: {reason}", caption=caption)


def simulated_source(scenario: Scenario, *, reason: str = "", caption: Caption | None = None) -> Source:
    """Returns a simulated host on which the same happens as in ``scenario``. There is no simulation of a
    user's own scenario: a general one is returned instead, and ``coverage.tracing`` says that other tenants
    are shown."""
    plot = PLOTS.get(scenario.name)
    if plot is not None:
        plot = replace(plot, timetable=scenario.timetable) if scenario.timetable else plot
        source = SimulatedSource(plot=plot, reason=reason)
        if caption is None:
            return source
        if scenario.timetable:
            return CaptionedSource(source, scenario.timetable, caption)
        caption.lines = scenario.caption
        return source
    return SimulatedSource(reason=f"{reason or 'simulated'}; other tenants than those of {scenario.name}")


def why_simulated() -> str:
    """Returns '' if real tenants can be started; otherwise the reason why not, in one line.

    Does not check whether the tenants can be traced: the tracer finds that out when it starts.
    """
    if os.geteuid() != 0:
        return "not started as root"
    try:
        compiler()
        root = hierarchy()
    except StalltopError as reason:
        return reason.reason
    if not os.access(root, os.W_OK):
        return f"cgroups cannot be made in {root}"
    return ""


class NamedSource:
    """A source that adds names to tenants, by container id. No container runtime knows the sample tenants, so
    the names cannot be found in the usual way."""

    def __init__(self, source: Source, names: Mapping[str, str]) -> None:
        self._source = source
        self._names = dict(names)

    def read(self) -> Window:
        """Returns the next window of the source, with the tenants' names."""
        window = self._source.read()
        tenants = {key: self._named(tenant) for key, tenant in window.tenants.items()}
        return replace(window, tenants=tenants)

    def close(self) -> None:
        """Closes the source."""
        self._source.close()

    def _named(self, tenant: Tenant) -> Tenant:
        name = self._names.get(tenant.container_id) if tenant.container_id else None
        return replace(tenant, name=name) if name else tenant


class TracedTenants(NamedSource):
    """Windows of running tenants, from a tracer of their own or from that of the host. Injects the faults of
    their scenario. If they cannot be traced, the constructor ends them and raises TracingError."""

    def __init__(
        self,
        tenants: DemoTenants,
        options: MonitorOptions | None = None,
        *,
        everyone: bool = True,
        caption: Caption | None = None,
        traced: Source | None = None,
    ) -> None:
        """Without ``everyone``, the windows have only the calls of ``tenants``. ``traced`` has the windows of
        the host's tracer; None: trace."""
        self._tenants = tenants
        self._everyone = everyone
        self._injector: FaultInjector | None = None
        if traced is not None:
            super().__init__(traced, tenants.names)
        else:
            monitor = Monitor(tenants.options(options))
            super().__init__(monitor, tenants.names)
            if monitor.cannot_trace is not None:
                self.close()
                raise monitor.cannot_trace
        try:
            tenants.join()
        except BaseException:
            self.close()
            raise
        timetable = tenants.scenario.timetable
        if timetable:
            self._injector = FaultInjector(tenants, timetable, caption or Caption())

    def read(self) -> Window:
        """Returns the next window, without problems."""
        window = super().read()
        # The tracer's problems are those of the whole host, and do not have the tenants' names.
        window = replace(window, chains=(), normals={})
        return window if self._everyone else only(window, self._tenants.runs)

    def close(self) -> None:
        """Ends first the tenants and then the tracer, because probes are removed faster if no process hits
        them."""
        if self._injector is not None:
            self._injector.stop()
        try:
            self._tenants.close()
        finally:
            super().close()
            if self._injector is not None:
                self._injector.join(INJECTOR_SECONDS)
