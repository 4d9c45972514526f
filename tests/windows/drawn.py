"""Draws random windows for hypothesis."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from stalltop.model import calls as one_by_one
from stalltop.model.chain import SEVERITIES, Chain
from stalltop.model.cuda_kernels import BUCKETS, KernelCount
from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap, overlap
from stalltop.model.devices.device import Device, Devices, MigInstance
from stalltop.model.evidence import (
    HOST_GAP,
    HOST_LAYER,
    KEYS,
    SUMS,
    BlockIo,
    Charge,
    Event,
    Evidence,
    ProcessUse,
    Rank,
    TenantUse,
)
from stalltop.model.histograms.hdr import HIGHEST_NS
from stalltop.model.merge.merging import with_labels
from stalltop.model.network_ports import PORT_COUNTERS, NetworkPort
from stalltop.model.row_key import RowKey
from stalltop.model.window import LOSSES, SPLITS, Window
from tests.windows.by_hand import Calls, window
from tests.windows.full import ALLOCATIONS, CHAINS, KEPT

FEW = settings(max_examples=20)
"""Limits a test of random windows to few examples: each has hundreds of random values, and costs as much as a
hundred examples of numbers."""

OPERATIONS = ("cudaLaunchKernel", "cuLaunchKernel", "cudaFree", "ncclAllReduce")
_ROW_KEYS = st.builds(
    RowKey,
    host=st.just("gpu7"),
    tenant=st.sampled_from(["docker:aa", "cri:bb", "cgroup:9"]),
    pid=st.integers(1, 3),
    process=st.sampled_from(["python3", "serve"]),
    layer=st.sampled_from(["runtime", "driver", "host"]),
    operation=st.sampled_from(OPERATIONS),
    nested=st.booleans(),
    device=st.sampled_from(["", "0", "1", "0:3"]),
)
_DURATIONS = st.lists(st.one_of(st.integers(0, 2_000), st.integers(0, HIGHEST_NS)), min_size=1, max_size=6)
_CALLS = st.builds(Calls, _ROW_KEYS, _DURATIONS, st.integers(0, 3), st.integers(0, 1 << 40))


def random_evidence(seed: int) -> Evidence:
    """Returns a few records of every kind. Tenants and processes are few, so that records of two windows
    share keys."""
    random = Random(seed)

    def count() -> int:
        return random.choice((0, 1, random.randrange(1 << 40)))

    def who() -> tuple[str, int, str]:
        return random.choice(("docker:aa", "cri:bb")), random.randint(1, 2), "hog"

    def device() -> str:
        return random.choice(("", "0", "0:3"))

    def sums(kind: type) -> dict[str, Any]:
        return {name: count() for name in SUMS[kind]}

    def port(name: str) -> NetworkPort:
        chosen = random.sample(PORT_COUNTERS, 3)
        counts: dict[str, Any] = {one.name: random.choice((None, count())) for one in chosen}
        return NetworkPort(name, state=random.choice(("up", "down")), **counts)

    def some(kind: type, make: Callable[[], Any]) -> tuple[Any, ...]:
        key_of = operator.attrgetter("key") if kind is Charge else operator.attrgetter(*KEYS[kind])
        return tuple(
            {key_of(record): record for record in (make() for _ in range(random.randrange(4)))}.values()
        )

    return Evidence(
        charges=some(
            Charge,
            lambda: Charge(
                *who(), HOST_LAYER, HOST_GAP, random.choice(SPLITS[1:3]), *who(), count(), count(), device()
            ),
        ),
        block_io=some(
            BlockIo,
            lambda: BlockIo(
                *who(), random.choice(("sda", "sdb")), random.random() < 0.5, *(count() for _ in range(5))
            ),
        ),
        tenants=some(
            TenantUse,
            lambda: TenantUse(who()[0], **sums(TenantUse), cpu_quota=random.choice((None, 0.5))),
        ),
        processes=some(
            ProcessUse,
            lambda: ProcessUse(
                *who(), **sums(ProcessUse), link=random.randint(-1, 3), nice=random.randint(-20, 19)
            ),
        ),
        ranks=some(
            Rank,
            lambda: Rank(
                *(random.choice(("9f", "3c")), *who(), random.randint(0, 1), 2),
                *(count(), count(), count(), count(), count(), count(), count(), count()),
                random.choice(("", "7:1000000005 9:1000000009")),
            ),
        ),
        events=tuple(Event(1_000 + random.random(), "xid", *who(), "") for _ in range(random.randrange(3))),
        swap_in_bytes=count(),
        swap_out_bytes=count(),
        unknown=random.choice(((), ("who had the CPU for the rest of the time",))),
        activity=some(DeviceActivity, lambda: DeviceActivity(device(), who()[0], count())),
        overlaps=some(DeviceOverlap, lambda: overlap(device(), "docker:aa", "cri:bb", count())),
        network_ports=tuple(port(name) for name in ("eth0", "eth1") if random.random() < 0.7),
    )


def random_devices(seed: int) -> Devices:
    """Returns GPUs 0 and 1 with random figures. Every window of a drawn sequence has both."""
    random = Random(seed)

    def count() -> int | None:
        return random.choice((None, 0, random.randrange(1 << 40)))

    return Devices(
        tuple(
            Device(
                index,
                f"GPU-{index}",
                "H100",
                pcie_replays=count(),
                ecc_corrected=count(),
                thermal_held_ns=count(),
                xids=tuple(sorted(random.sample((13, 31, 79), random.randrange(3)))),
            )
            for index in range(2)
        )
    )


def random_chains(seed: int) -> tuple[Chain, ...]:
    random = Random(seed)
    return tuple(
        replace(chain, severity=random.choice(SEVERITIES), lost_ms_per_s=random.random() * 1e4)
        for chain in random.choices(CHAINS, k=random.randrange(3))
    )


def random_kernels(seed: int) -> tuple[KernelCount, ...]:
    random = Random(seed)
    kernels = {
        (random.choice(("docker:aa", "cri:bb")), random.randint(1, 2), name)
        for name in random.sample(("scale", "add<float>(float*)", ""), random.randrange(4))
    }
    found = []
    for tenant, pid, name in sorted(kernels):
        buckets = tuple(
            (bucket, random.randrange(1, 1 << 20)) for bucket in sorted(random.sample(range(BUCKETS), 3))
        )
        found.append(
            KernelCount(
                *(tenant, pid, "python3", "runtime", "cudaLaunchKernel", False, name),
                *(sum(calls for _, calls in buckets), random.randrange(2), random.randrange(1 << 40)),
                *(random.randrange(HIGHEST_NS), buckets, random.choice(("", "0"))),
            )
        )
    return tuple(found)


def random_calls(seed: int) -> one_by_one.CapturedCalls:
    random = Random(seed)
    kept = [
        random.choice(KEPT)._replace(
            pid=random.randint(1, 2),
            start_ns=random.randrange(1 << 60),
            why=random.choice(("slow", "sample")),
            device=random.choice(("", "1")),
        )
        for _ in range(random.randrange(4))
    ]
    return one_by_one.CapturedCalls(sorted(kept, key=lambda call: call.start_ns), random.choice((0, 7)))


@st.composite
def windows(draw: st.DrawFn, start: float = 1_000.0, *, split: bool | None = None) -> Window:
    """Draws a small random window of host gpu7 that lasts one second."""
    calls = draw(st.lists(_CALLS, max_size=5, unique_by=lambda row: row.key))
    loss = draw(st.dictionaries(st.sampled_from(sorted(LOSSES)), st.integers(0, 1_000), max_size=3))
    made = window(
        calls,
        start=start,
        split=draw(st.booleans()) if split is None else split,
        loss=loss,
        cost_percent=draw(st.floats(0, 100)),
        simulated=draw(st.booleans()),
    )
    seed = draw(st.integers(0, 1 << 32))
    return replace(
        made,
        evidence=random_evidence(seed),
        chains=random_chains(seed),
        devices=random_devices(seed),
        kernels=random_kernels(seed),
        calls=random_calls(seed),
        allocations=ALLOCATIONS[: seed % 3],
    )


@st.composite
def sequences(draw: st.DrawFn, most: int = 8, *, split: bool | None = None) -> list[Window]:
    """Draws one to ``most`` consecutive windows of one host."""
    return [draw(windows(1_000.0 + number, split=split)) for number in range(draw(st.integers(1, most)))]


_PLACES: tuple[tuple[tuple[int, str, str], ...], ...] = (
    ((0, "GPU-A", ""), (1, "GPU-B", "")),
    ((0, "GPU-B", ""), (1, "GPU-A", "")),
    ((0, "GPU-B", ""),),
    ((1, "GPU-A", ""),),
    ((0, "GPU-C", ""), (1, "GPU-A", "")),
    ((0, "GPU-A", "MIG-a"),),
    ((0, "GPU-A", "MIG-b"),),
    ((0, "GPU-B", ""), (0, "GPU-A", "")),
    (),
)
"""Sets of devices that a host may have: index, UUID, and the UUID of a MIG device. If two devices of a set
have the same index, the second one counts as lost."""


@st.composite
def sequences_of_moving_devices(draw: st.DrawFn, most: int = 8) -> list[Window]:
    """Draws consecutive windows in which devices are lost, return, change their index, and get new MIG
    devices. Every row names a device of its own window, or none."""
    return [
        _with_devices(part, draw(st.sampled_from(_PLACES)), draw(st.integers(0, 1 << 32)))
        for part in draw(sequences(most))
    ]


def _with_devices(part: Window, places: tuple[tuple[int, str, str], ...], seed: int) -> Window:
    """Returns ``part`` with the devices of ``places``. Calls on other devices are counted on an unknown
    device."""
    random = Random(seed)
    indexes: set[int] = set()
    found = []
    for index, uuid, mig in places:
        found.append(
            Device(
                *(index, uuid, "H100"),
                mig=bool(mig),
                lost=index in indexes,
                instances=(MigInstance(index, 3, mig),) if mig else (),
                pcie_replays=random.choice((None, 0, random.randrange(1 << 40))),
                energy_millijoules=random.choice((None, 7)),
                xids=tuple(sorted(random.sample((13, 31, 79), random.randrange(3)))),
            )
        )
        indexes.add(index)
    told = {str(index) for index in indexes} | {f"{index}:3" for index, _, mig in places if mig}
    unknown = {"0", "1", "0:3"} - told
    return replace(with_labels(part, dict.fromkeys(unknown, "")), devices=Devices(tuple(found)))
