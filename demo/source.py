"""Gives windows of sample tenants: traced on this host if that is possible, otherwise simulated, with the
reason why."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from stalltop.demo.build import compiler
from stalltop.demo.cgroups import hierarchy
from stalltop.demo.scenario import Scenario
from stalltop.demo.simulated.plots import PLOTS
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.demo.tenants import DemoTenants
from stalltop.model.errors import StalltopError
from stalltop.model.source import Source
from stalltop.model.tenant import Tenant
from stalltop.model.window import Window
from stalltop.probes.monitor import Monitor
from stalltop.probes.options import MonitorOptions


def demo_source(scenario: Scenario, options: MonitorOptions | None = None) -> Source:
    """Starts the tenants of ``scenario`` and traces them; if they cannot be started or traced, simulates a
    host instead.

    The field ``simulated`` of the windows says whether they are simulated; if so, ``coverage.tracing`` says
    why.
    """
    reason = why_simulated()
    if not reason:
        tenants = DemoTenants(scenario)
        try:
            tenants.start()
            return TracedTenants(tenants, options)
        except StalltopError as told:
            reason = told.reason
        except BaseException:
            tenants.close()
            raise
    return simulated_source(scenario, reason=f"simulated: {reason}")


def simulated_source(scenario: Scenario, *, reason: str = "") -> SimulatedSource:
    """Returns a simulated host on which the same happens as in ``scenario``. There is no simulation of a
    user's own scenario: a general one is returned instead, and ``coverage.tracing`` says that other tenants
    are shown."""
    plot = PLOTS.get(scenario.name)
    if plot is not None:
        plot = replace(plot, timetable=scenario.timetable) if scenario.timetable else plot
        return SimulatedSource(plot=plot, reason=reason)
    return SimulatedSource(reason=f"{reason or 'simulated'}; other tenants than those of {scenario.name}")


def why_simulated() -> str:
    """Returns '' if real tenants can be started, else the reason in one line.

    Does not check whether they can be traced: the tracer finds that out when it starts.
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
    """A source that adds names to tenants, by container id: no container runtime knows the sample tenants, so
    none could tell their names."""

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
    """A tracer that traces running tenants. If they cannot be traced, the constructor ends them and raises
    TracingError."""

    def __init__(self, tenants: DemoTenants, options: MonitorOptions | None = None) -> None:
        self._tenants = tenants
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

    def close(self) -> None:
        """Ends first the tenants and then the tracer, because probes are removed faster if no process hits
        them."""
        try:
            self._tenants.close()
        finally:
            super().close()
