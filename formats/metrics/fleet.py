"""The metrics of a fleet: what its digest says, as gauges."""

from __future__ import annotations

from collections import Counter
from typing import Final, get_args

from stalltop.formats.metrics import catalogue
from stalltop.formats.metrics.catalogue import HostMetric
from stalltop.formats.metrics.points import MetricSink
from stalltop.model.fleet.fleet_digest import FleetDigest
from stalltop.model.fleet.fleet_view import HostState

MOST_SERIES: Final = 500
"""Maximum number of tenants, problems and jobs with series of their own, those that lose most first."""
_TENANT: Final = ("namespace", "tenant")
_PROBLEM: Final = ("cause", "culprit_namespace", "culprit", "severity")
_JOB: Final = ("communicator", "namespace", "tenant")

HOSTS: Final = HostMetric(
    "stalltop_fleet_hosts", "gauge", "Hosts by state: live, silent, unreadable", ("cluster", "state")
)
PROBLEM: Final = HostMetric(
    "stalltop_fleet_problem_lost_seconds", "gauge", "Time lost per second on all hosts", _PROBLEM
)
PROBLEM_HOSTS: Final = HostMetric("stalltop_fleet_problem_hosts", "gauge", "Hosts with the problem", _PROBLEM)
TENANT_HOSTS: Final = HostMetric("stalltop_fleet_tenant_hosts", "gauge", "Hosts of the tenant", _TENANT)
TENANT_CALLS: Final = HostMetric(
    "stalltop_fleet_tenant_calls", "gauge", "Outermost calls per second on all hosts", _TENANT
)
TENANT_LOST: Final = HostMetric(
    "stalltop_fleet_tenant_lost_seconds", "gauge", "Time lost per second on all hosts", _TENANT
)
TENANT_P99: Final = HostMetric(
    "stalltop_fleet_tenant_worst_p99_seconds", "gauge", "The largest p99 of its hosts", _TENANT
)
JOB_LATE: Final = HostMetric(
    "stalltop_fleet_job_late_seconds", "gauge", "By how much its late rank is late per collective", _JOB
)
JOB_STANDS: Final = HostMetric(
    "stalltop_fleet_job_stands_seconds",
    "gauge",
    "For how long the job has waited for a rank; 0: it runs",
    _JOB,
)
METRICS: Final = (
    *(HOSTS, PROBLEM, PROBLEM_HOSTS, TENANT_HOSTS, TENANT_CALLS, TENANT_LOST, TENANT_P99),
    *(JOB_LATE, JOB_STANDS),
)


def pass_on_fleet(digest: FleetDigest, version: str, sink: MetricSink) -> None:
    """Passes the series of a fleet to ``sink``."""
    sink.add(catalogue.BUILD, {"version": version}, 1)
    counts = Counter((line.cluster, line.state) for line in digest.hosts)
    for cluster in sorted({line.cluster for line in digest.hosts}):
        for state in get_args(HostState):
            sink.add(HOSTS, {"cluster": cluster, "state": state}, counts[cluster, state])
    for one in digest.problems[:MOST_SERIES]:
        labels = dict(
            zip(_PROBLEM, (one.cause, one.culprit_namespace, one.culprit, one.severity), strict=True)
        )
        sink.add(PROBLEM, labels, one.lost_ms_per_s / 1e3)
        sink.add(PROBLEM_HOSTS, labels, len(one.hosts))
    for tenant in digest.tenants[:MOST_SERIES]:
        labels = dict(zip(_TENANT, (tenant.namespace, tenant.name), strict=True))
        sink.add(TENANT_HOSTS, labels, tenant.hosts)
        sink.add(TENANT_CALLS, labels, tenant.calls_per_s)
        sink.add(TENANT_LOST, labels, tenant.lost_ms_per_s / 1e3)
        sink.add(TENANT_P99, labels, tenant.worst_p99_ns / 1e9)
    for job in digest.jobs[:MOST_SERIES]:
        labels = dict(zip(_JOB, (job.communicator, job.namespace, job.tenant), strict=True))
        sink.add(JOB_LATE, labels, job.late_seconds)
        sink.add(JOB_STANDS, labels, job.stands_seconds)
