"""Labels of series: tenants, GPUs and culprits, by names that mean the same on every host. No label has a PID
or the name of a CUDA kernel, because both have no bound."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from stalltop.model.chain import OTHERS, Chain
from stalltop.model.devices.labels import parts_of
from stalltop.model.text.words import SEVERAL
from stalltop.model.window import Window

OTHER: Final = "other"
"""Value of the labels ``tenant``, ``operation`` and ``culprit`` for everything that has no series of its
own."""
ITSELF: Final = "itself"
"""Value of the label ``culprit`` if the victim itself is the culprit."""
LINUX: Final = "Linux kernel"
"""Value of the label ``culprit`` for interrupts."""
_RESERVED: Final = frozenset((OTHER, ITSELF, LINUX))
"""A tenant of such a name gets its id as label, so that its series are not taken for others."""
_SLURM: Final = re.compile(r"slurm:job_(\d+)(?:/|$)")
"""The number of the job in the id of a tenant."""

_OF_JOBS: Final = {"job_name": "job", "partition": "partition", "account": "account", "gpus": "gpus"}
"""Labels of the metric of a job, and the labels of its tenants that they are made of."""


class TenantLabels(NamedTuple):
    """A tenant, by its labels. Tenants with equal labels share their series: a container that restarts in its
    pod continues the series of the one before."""

    tenant: str
    """Name as on the screen."""
    namespace: str = ""
    pod: str = ""
    container: str = ""
    hpc_job: str = ""
    """Number of the Slurm job. Prometheus itself sets a label ``job``; this name is that of dcgm-exporter."""


class JobLabels(NamedTuple):
    """A Slurm job and what is known about it."""

    hpc_job: str
    job_name: str = ""
    partition: str = ""
    account: str = ""
    user: str = ""
    gpus: str = ""
    """Indices of the GPUs that the job was given, separated by commas."""


class DeviceLabels(NamedTuple):
    """A GPU or MIG device, by the labels of dcgm-exporter, which also names a MIG device by the UUID of its
    GPU."""

    UUID: str = ""
    gpu: str = ""
    """Index of the GPU."""
    GPU_I_ID: str = ""
    """Id of the MIG GPU instance; '' without MIG."""


class CulpritLabel(NamedTuple):
    """Who takes time from a tenant: the name of a tenant, else of a process without a tenant, else of a
    device."""

    culprit: str = ""


class CallLabels(NamedTuple):
    """Labels of the calls of an operation."""

    who: TenantLabels
    operation: str


class LossLabels(NamedTuple):
    """Labels of lost time."""

    who: TenantLabels
    part: str
    """A name of ``model.window.SPLITS``."""
    by: CulpritLabel


class ProblemLabels(NamedTuple):
    """Labels of a problem."""

    cause: str
    severity: str
    who: TenantLabels
    by: CulpritLabel


class ActivityLabels(NamedTuple):
    """Labels of a tenant's activity on a device."""

    where: DeviceLabels
    who: TenantLabels


class FigureLabels(NamedTuple):
    """Which counter of which GPU; ``figure`` is no label, but decides the metric."""

    where: DeviceLabels
    figure: str


class XidLabels(NamedTuple):
    """Labels of an XID (critical error) of a GPU."""

    where: DeviceLabels
    xid: str


OTHER_TENANT: Final = TenantLabels(OTHER)
OTHER_CULPRIT: Final = CulpritLabel(OTHER)


def label_values(labels: Any) -> dict[str, str]:
    """Returns names and values of the labels in a tuple of labels, without those that have no value: with
    ``honor_labels``, Prometheus would take an empty label in place of the scrape's own."""
    found: dict[str, str] = {}
    for name, value in zip(labels._fields, labels, strict=True):
        if isinstance(value, tuple):
            found |= label_values(value)
        elif value:
            found[name] = value
    return found


class WindowLabels:
    """The labels of everything in ``window``."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._who: dict[str, TenantLabels] = {}
        devices = window.devices.devices
        self.gpus: dict[str, DeviceLabels] = {
            one.label: DeviceLabels(one.uuid, str(one.index)) for one in devices
        }
        """GPUs and MIG devices by the labels that windows use."""
        for device in devices:
            for part in device.instances:
                number = "" if part.gpu_instance is None else str(part.gpu_instance)
                self.gpus[part.label] = DeviceLabels(device.uuid, str(device.index), number)

    def who(self, tenant: str) -> TenantLabels:
        """Returns the labels of the tenant with this id; none for '', which stands for the whole host."""
        found = self._who.get(tenant)
        if found is None:
            found = self._who[tenant] = self._named(tenant)
        return found

    def _named(self, tenant: str) -> TenantLabels:
        one = self._window.tenants.get(tenant)
        if one is None:
            return TenantLabels(tenant)
        job = _SLURM.match(tenant)
        alone = one.name if one.kind == "container" and not one.pod else ""
        return TenantLabels(
            tenant if one.name in _RESERVED else one.name or tenant,
            one.namespace,
            one.pod,
            one.container or alone,
            job[1] if job else "",
        )

    def jobs(self) -> Iterator[JobLabels]:
        """Yields the Slurm jobs among the tenants, in the order of their numbers."""
        found: dict[str, JobLabels] = {}
        for tenant in self._window.tenants.values():
            job = _SLURM.match(tenant.id)
            if job is not None:
                told = dict(tenant.labels)
                of_job = {field: told.get(label, "") for field, label in _OF_JOBS.items()}
                own = JobLabels(job[1], user=tenant.user, **of_job)
                # Steps of a job may know less than others.
                before = found.get(job[1], own)
                found[job[1]] = JobLabels(*(one or other for one, other in zip(before, own, strict=True)))
        yield from (found[number] for number in sorted(found, key=int))

    def gpu(self, label: str) -> DeviceLabels:
        """Returns the labels of a device that a window calls ``label``, also if it is not listed; without
        values if the device is unknown."""
        found = self.gpus.get(label)
        if found is None:
            parts = parts_of(label)
            found = DeviceLabels() if parts is None else DeviceLabels("", str(parts[0]))
        return found

    def culprit(self, victim: str, tenant: str, process: str, device: str = "") -> CulpritLabel:
        """Returns the label of a culprit: of the tenant with the id ``tenant``, or of a process or device
        outside tenants. ``victim``: id of the tenant that loses time."""
        if tenant:
            return CulpritLabel(ITSELF if tenant == victim else self.who(tenant).tenant)
        if process == OTHERS:
            return OTHER_CULPRIT
        return CulpritLabel(SEVERAL.sub("", process) or device or LINUX)

    def problem(self, chain: Chain) -> ProblemLabels:
        """Returns the labels of a problem."""
        first = next(iter(chain.culprits), None)
        by = CulpritLabel()
        if first is not None:
            by = self.culprit(chain.tenant, first.tenant, first.process, first.device)
        return ProblemLabels(chain.cause, chain.severity, self.who(chain.tenant), by)
