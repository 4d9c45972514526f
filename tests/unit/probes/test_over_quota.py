"""Tests what the coverage says of processes and containers that get no more records."""

from __future__ import annotations

from stalltop.model.tenant import Tenant
from stalltop.model.window import Missing
from stalltop.probes.layout import Pool
from stalltop.probes.maps.raw import Memory, RawQuota
from stalltop.probes.over_quota import MOST_TOLD, out_of_memory, over_quota


def told(*quotas: RawQuota, **loss: int) -> tuple[Missing, ...]:
    return over_quota(
        quotas,
        loss,
        named=lambda tgid: f"hog({tgid}) of team",
        tenant_of=lambda tgid: Tenant(id="t1", kind="container", name="team"),
    )


def test_a_process_whose_calls_are_not_counted_is_untraced() -> None:
    (gap,) = told(RawQuota(7, 0, Pool.SLOTS, 2048, 4096, 199_100), no_slot=199_100)
    assert (gap.what, gap.pid, gap.tenant, gap.untraced) == ("hog(7) of team", 7, "t1", True)
    assert gap.reason == ("over quota: it has 2,048 of 4,096 histogram slots, and was refused 199,100 times")
    assert "--memory" in gap.remedy


def test_a_container_is_named_by_one_of_its_processes() -> None:
    (gap,) = told(RawQuota(7, 99, Pool.THREADS, 6553, 8192, 5), no_thread=5)
    assert (gap.what, gap.untraced) == ("the container of hog(7) of team", True)


def test_other_records_that_are_refused_leave_calls_counted() -> None:
    (gap,) = told(RawQuota(7, 0, Pool.KERNELS, 8192, 16384, 3), no_kernel=3)
    assert not gap.untraced
    assert gap.what == "some records for CUDA kernels"
    assert gap.reason.startswith("over quota: hog(7) of team has 8,192 of 16,384 ")


def test_a_process_whose_device_memory_is_not_followed_is_named() -> None:
    (gap,) = told(RawQuota(7, 0, Pool.PIECES, 32768, 65536, 9), no_allocation=9)
    assert (gap.what, gap.untraced) == ("some allocations of device memory", False)
    assert gap.reason.startswith("over quota: hog(7) of team has 32,768 of 65,536 ")


def test_a_container_whose_culprits_are_not_stored_is_named() -> None:
    (gap,) = told(RawQuota(7, 99, Pool.CHARGES, 13107, 16384, 9), no_charge=9)
    assert (gap.what, gap.untraced) == ("some records of who took time from whom", False)
    assert gap.reason.startswith("over quota: the container of hog(7) of team has 13,107 of 16,384 ")


def test_a_refusal_without_a_loss_is_not_told() -> None:
    assert told(RawQuota(7, 0, Pool.SLOTS, 2048, 4096, 3), no_slot=0) == ()


def test_few_are_named() -> None:
    many = [RawQuota(tgid, 0, Pool.SLOTS, 1, 9, 1) for tgid in range(1, 99)]
    assert [gap.pid for gap in told(*many, no_slot=99)] == list(range(1, 1 + MOST_TOLD))


def test_memory_that_is_all_in_use_is_told_with_its_cost() -> None:
    full = Memory(255 << 20, 256 << 20, True)
    (gap,) = out_of_memory(full, {"no_slot": 1200})
    assert "all 256 MiB in the Linux kernel are in use: 1,200 calls are not counted" in gap.reason
    assert gap.remedy == "start the tracer with more --memory"
    assert out_of_memory(full, {"no_slot": 0}) == ()
    assert out_of_memory(full._replace(all_in_use=False), {"no_slot": 1200}) == ()
