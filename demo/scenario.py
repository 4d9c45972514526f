"""Reads scenarios of sample tenants from ``scenarios/*.toml``.

A scenario has ``about`` (a description), optionally ``files`` (files on a disk for items that read: sizes in
MiB by name), optionally ``gpu`` (settings of the stand-in NVML, see `native/libraries/nvml.h`), optionally
``period`` and ``fault`` tables (faults that are injected in turn, see `demo.faults`), optionally ``caption``
(two lines of at most 78 characters, for a scenario without faults), and ``tenant`` tables.
A tenant has ``name``, ``runtime`` (see `demo.cgroups.container_path`), optionally ``cpus`` (the number of
CPUs that it may use, counted from the first), ``environment`` and ``pod``, a list of ``process`` tables and
a table ``latency``.

* A pod has ``namespace``, ``name``, ``container`` and ``given`` (the devices, by resource, that the stand-in
  kubelet reports for the pod).
* A process has ``name``, ``threads`` (default 1), ``cycle`` (the items of `native/caller/caller.c`), and
  optionally ``communicator = [NAME, RANK, RANKS]``, ``gpu`` (the label of the device that lists the process),
  ``memory_mib`` (the memory that the process holds on that device) and ``mps`` (whether the process is an MPS
  client).
* A latency, by function name, has ``how``, ``shape``, ``error_share`` and ``error_code`` as
  `demo.latencies.Latency`, ``us`` (``ns`` of `Latency`, but in us), ``longest_us`` (uniform) or ``sigma``
  (lognormal), and ``spike = [share, factor]``; with ``how = "meet"`` it has only ``us`` and ``ranks``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from stalltop.demo.cgroups import container_id, container_path
from stalltop.demo.faults import Timetable, read_timetable
from stalltop.demo.latencies import How, Latency, Shape
from stalltop.model.devices.labels import parts_of
from stalltop.model.errors import UsageError
from stalltop.model.text.clean import clean

SCENARIOS = Path(__file__).resolve().parent / "scenarios"
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_ITEM = re.compile(r"@[a-z]+(:[\w.-]+)+|[~!]\d+|[A-Za-z_]\w*(:\d+(:\d+(x\d+){0,2}(:\d+)?)?)?")


@dataclass(frozen=True, slots=True)
class ProcessPlan:
    """One process of a tenant."""

    name: str
    cycle: str
    """Items of `native/caller/caller.c`, separated by spaces, that each thread repeats."""
    threads: int = 1
    communicator: tuple[str, int, int] | None = None
    """The NCCL communicator that the collectives of the process use: its name, the rank of the process, the
    number of ranks."""
    gpu: str = ""
    """Label of the device (``0``, or ``0:3`` for a MIG device) in whose list the process is; '' if it is in
    none."""
    memory_mib: int = 0
    """Memory that the process holds on that device, MiB."""
    mps: bool = False
    """Whether the process is in the device's list of MPS clients."""


@dataclass(frozen=True, slots=True)
class PodPlan:
    """The pod of a tenant, and the devices that the pod was given."""

    namespace: str
    name: str
    container: str
    given: Mapping[str, tuple[str, ...]]
    """By resource: devices with the names that a device plugin gives to replicas, such as ``GPU-…::3``."""


@dataclass(frozen=True, slots=True)
class TenantPlan:
    """One tenant: a container with its processes."""

    name: str
    runtime: str
    processes: tuple[ProcessPlan, ...]
    latencies: Mapping[str, Latency]
    cpus: int = 0
    """Number of CPUs that the tenant may use: the first CPUs of those that this process may use. 0: all of
    these CPUs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Additional environment of the tenant's processes."""
    pod: PodPlan | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """The tenants that a demo starts, and the files and GPUs that they use."""

    name: str
    about: str
    tenants: tuple[TenantPlan, ...]
    files: Mapping[str, int] = field(default_factory=dict)
    """By name: the size in MiB of a file that the tenants' processes read."""
    gpu: Mapping[str, str] = field(default_factory=dict)
    """Settings of the stand-in NVML. If there are none, the monitor reads the real driver of this host."""
    timetable: Timetable = field(default_factory=Timetable)
    """The faults that are injected in turn; none in most scenarios."""
    caption: tuple[str, ...] = ()
    """Lines that the screen shows all the time: what the scenario is, and where to look."""


def scenario_names() -> list[str]:
    """Returns the names of all scenarios."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def load_scenario(name: str) -> Scenario:
    """Returns the scenario ``name``. If ``name`` ends in ``.toml``, it is the path of a file; otherwise it is
    one of `scenario_names`. Raises UsageError if there is no such scenario, or if the file cannot be read."""
    if name.endswith(".toml"):
        try:
            return parse_scenario(Path(name).stem, Path(name).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read the scenario {name}: {error}") from error
    names = scenario_names()
    if name not in names:
        raise UsageError(f"no scenario is called {name}", f"there are: {', '.join(names)}")
    return parse_scenario(name, (SCENARIOS / f"{name}.toml").read_text())


def parse_scenario(name: str, text: str) -> Scenario:
    """Returns the scenario that ``text`` (TOML) describes; ``name`` is its name. Raises UsageError if
    ``text`` is not a valid scenario."""
    try:
        content = tomllib.loads(text)
        tenants = tuple(_tenant(table) for table in content["tenant"])
        files = {_name(key): int(mib) for key, mib in content.get("files", {}).items()}
        gpu = {_line(key): _line(str(value)) for key, value in content.get("gpu", {}).items()}
        about = str(content.get("about", ""))
        timetable = read_timetable(content)
        _check_faults(timetable, tenants)
        caption = tuple(_line(str(text)) for text in content.get("caption", ()))
        settings = MappingProxyType(gpu)
        return Scenario(name, about, tenants, MappingProxyType(files), settings, timetable, caption)
    except KeyError as error:
        raise UsageError(f"scenario {name}: {error} is missing") from error
    except (tomllib.TOMLDecodeError, TypeError, ValueError) as error:
        raise UsageError(f"scenario {name}: {error}") from error


def _check_faults(timetable: Timetable, tenants: Iterable[TenantPlan]) -> None:
    """Raises ValueError if a fault needs a process that no tenant has, or has an unknown item."""
    known = {(tenant.name, process.name) for tenant in tenants for process in tenant.processes}
    for fault in timetable.faults:
        if fault.cycle and (fault.tenant, fault.process) not in known:
            raise ValueError(f"[[fault]] in an unknown process: {fault.process!r} of {fault.tenant!r}")
        _check_cycle(fault.cycle)


def _check_cycle(cycle: str) -> None:
    for item in cycle.split():
        if not _ITEM.fullmatch(item):
            raise ValueError(f"not an item of a cycle: {item!r}")


def _tenant(table: dict[str, Any]) -> TenantPlan:
    latencies = {symbol: _latency(symbol, entry) for symbol, entry in table.get("latency", {}).items()}
    processes = tuple(_process(entry) for entry in table["process"])
    runtime = str(table["runtime"])
    container_path(runtime, container_id())  # this raises ValueError if the runtime is unknown
    environment = {str(key): str(value) for key, value in table.get("environment", {}).items()}
    return TenantPlan(
        clean(str(table["name"])),
        runtime,
        processes,
        MappingProxyType(latencies),
        cpus=int(table.get("cpus", 0)),
        environment=MappingProxyType(environment),
        pod=_pod(table["pod"]) if "pod" in table else None,
    )


def _pod(table: dict[str, Any]) -> PodPlan:
    given = {str(name): tuple(map(str, devices)) for name, devices in table.get("given", {}).items()}
    namespace, name, container = (str(table[key]) for key in ("namespace", "name", "container"))
    return PodPlan(namespace, name, container, MappingProxyType(given))


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"not one line of text: {text!r}")
    return text


def _process(table: dict[str, Any]) -> ProcessPlan:
    cycle = " ".join(table["cycle"])
    _check_cycle(cycle)
    if not cycle.strip():
        raise ValueError("a cycle without items")
    joined = None
    if "communicator" in table:
        communicator, rank, ranks = table["communicator"]
        joined = (_name(communicator), int(rank), int(ranks))
    label = str(table.get("gpu", ""))
    if label and parts_of(label) is None:
        raise ValueError(f"not the label of a device: {label!r}")
    return ProcessPlan(
        clean(str(table["name"])),
        cycle,
        threads=int(table.get("threads", 1)),
        communicator=joined,
        gpu=label,
        memory_mib=int(table.get("memory_mib", 0)),
        mps=bool(table.get("mps", False)),
    )


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"not a plain name: {text!r}")
    return text


def _latency(symbol: str, table: dict[str, Any]) -> Latency:
    if not re.fullmatch(r"(cu|cuda|nccl)[A-Z]\w*", symbol):
        raise ValueError(f"not the name of a function: {symbol!r}")
    if table.get("how") == "meet":
        if set(table) != {"how", "us", "ranks"}:
            raise ValueError(
                f'latency of {symbol}: how = "meet" needs the keys `us` and `ranks`, and no others'
            )
        return Latency("meet", ns=float(1e3 * table["us"]), spread=float(table["ranks"]))
    unknown = set(table) - {"how", "shape", "us", "longest_us", "sigma", "spike", "error_share", "error_code"}
    how, shape = table.get("how", "sleep"), table.get("shape", "fixed")
    if unknown or how not in get_args(How) or shape not in get_args(Shape) or how == "hold":
        raise ValueError(f"latency of {symbol} has unknown keys or values: {table}")
    longest_ns, sigma = 1e3 * table.get("longest_us", 0.0), table.get("sigma", 0.0)
    spread = {"fixed": 0.0, "uniform": longest_ns, "lognormal": sigma}
    spike_share, spike_factor = table.get("spike", (0.0, 1.0))
    return Latency(
        how=how,
        shape=shape,
        ns=float(1e3 * table.get("us", 0.0)),
        spread=float(spread[shape]),
        spike_share=float(spike_share),
        spike_factor=float(spike_factor),
        error_share=float(table.get("error_share", 0.0)),
        error_code=int(table.get("error_code", 1)),
    )
