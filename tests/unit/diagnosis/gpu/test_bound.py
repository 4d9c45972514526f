"""Tests the cause ``gpu_bound`` for a program alone on a device and for one that shares it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stalltop.diagnosis.engine import explain
from stalltop.model.chain import Chain
from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.device import MigInstance
from stalltop.model.window import Window
from tests.windows.evidence import BATCH, SERVE, TRAIN, healthy_trainer, row
from tests.windows.shared_devices import at, client, gpu, on

LOOP = [at("0", spent) for spent in healthy_trainer()]
JOB = at("0", row("cudaLaunchKernel", 30, running=1, tenant=BATCH, pid=300, program="job"))
PID = LOOP[0].key.pid


def bound(made: Window) -> Chain:
    (chain,) = [one for one in explain(made) if one.cause == "gpu_bound" and one.tenant == TRAIN]
    return chain


def words(chain: Chain) -> str:
    return " ".join((chain.summary, *(link.text for link in chain.links), *chain.unknown))


@pytest.mark.parametrize(
    "made",
    [
        on(rows=LOOP),
        on(gpu(client(PID, TRAIN, "C")), rows=LOOP),
        on(gpu(client(PID, TRAIN, "C")), gpu(client(3, BATCH), client(4, SERVE), index=1), rows=LOOP),
        on(
            gpu(
                mig=True,
                instances=(
                    MigInstance(0, 0, "MIG-a", processes=(client(PID, TRAIN, "C"),)),
                    MigInstance(0, 1, "MIG-b", processes=(client(300, BATCH, "C"),)),
                ),
            ),
            rows=[at("0:0", spent) for spent in LOOP],
        ),
    ],
    ids=["no device", "one tenant", "others on another device", "others on another instance"],
)
def test_a_program_alone_on_a_device_waits_for_its_own_work(made: Window) -> None:
    chain = bound(made)
    assert chain.summary.endswith("waits for the work it gave the device, 71% of its time")
    assert "others" not in words(chain)


@pytest.mark.parametrize("kind", ["C", "M+C"])
def test_on_a_shared_device_the_work_waited_for_is_unknown(kind: str) -> None:
    made = on(
        gpu(client(PID, TRAIN, kind), client(300, BATCH, kind), client(400, SERVE, kind)), rows=[*LOOP, JOB]
    )
    overlaps = tuple(
        DeviceOverlap("0", min(TRAIN, other), max(TRAIN, other), ns)
        for other, ns in ((BATCH, 330_000_000), (SERVE, 0))
    )
    activity = tuple(DeviceActivity("0", tenant, 700_000_000) for tenant in (TRAIN, BATCH, SERVE))
    chain = bound(replace(made, evidence=replace(made.evidence, overlaps=overlaps, activity=activity)))
    assert chain.summary.endswith("waits for GPU 0, which 2 other tenants use, too")
    assert "the work it gave" not in words(chain)
    assert "on GPU 0 together with batch-job 33% of the time" in words(chain)
    assert "how much of this wait is for the work of other tenants on that device" in chain.unknown
    assert "run it alone" in chain.fixes[0].text
    # Without measured overlaps it is unknown whether others ran at that time.
    assert "nothing" not in words(bound(made))
