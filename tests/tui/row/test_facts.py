"""Tests the facts about one row in a window, and how the page of the row shows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stalltop.model import calls
from stalltop.model.devices.device import DeviceProcess
from stalltop.model.evidence import HOST_GAP, HOST_LAYER, BlockIo, Charge, Evidence, ProcessUse
from stalltop.model.merge.packing import pack
from stalltop.model.row_key import RowKey
from stalltop.model.window import SPLITS, OpenCall, Window
from stalltop.tui.pages.sections import Frame, Section
from stalltop.tui.row import calls as row_calls
from stalltop.tui.row import owner as row_owner
from stalltop.tui.row import page as row_page
from stalltop.tui.row.facts import RowFacts, facts, waits_ns
from stalltop.tui.row.past import RowPast
from stalltop.tui.views.path import Path, PathStep
from tests.tui.faults import GAP, STARVED, STORM, faulty
from tests.windows.by_hand import Calls, key, rows, window
from tests.windows.full import KEPT, full_window

TRAIN: Path = (PathStep("container", "docker:aa", "train"),)
SERVE: Path = (PathStep("container", "cri:bb", "serve"),)
LAUNCH: Path = (
    PathStep("operation", "cudaLaunchKernel", "cudaLaunchKernel"),
    PathStep("layer", "runtime", "runtime"),
)
FRAME = Frame(width=98, height=40)


def text(section: Section) -> list[str]:
    return ["".join(part for part, _ in line.parts) for line in section.lines]


def split(**parts_ns: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    return np.array([[parts_ns.get(name, 0) for name in SPLITS]], np.uint64)


def waiting(charges: tuple[Charge, ...], **parts_ns: int) -> Window:
    """Return a window with a single call, of the container train, whose time has the split ``parts_ns``."""
    one = window([Calls(key(), [sum(parts_ns.values())])], split=True)
    one = replace(one, rows=replace(one.rows, split_ns=split(**parts_ns)))
    return replace(one, evidence=Evidence(charges=charges))


def charge(kind: str, ns: int, pid: int = 201, process: str = "dd", tenant: str = "cri:bb") -> Charge:
    victim = ("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel")
    return Charge(*victim, kind, tenant, pid, process, ns, 3)


# ---- facts


def test_a_container_holds_its_outermost_calls_and_all_its_processes() -> None:
    found = facts(full_window(), TRAIN)
    assert int(found.groups.calls[0]) == 6  # driver calls are nested, so they do not count
    assert found.tenants == ("docker:aa",)
    assert [use.pid for use in found.processes] == [100, 103]
    assert [device.index for device, _ in found.devices] == [0]
    assert [call.operation for call in found.open_calls] == ["cuStreamSynchronize", "cuCtxSynchronize"]
    # The only problem is one of serve, whose CPU it takes.
    assert [(chain.cause, chain.tenant) for chain in found.chains] == [("cpu_contention", "cri:bb")]
    assert not found.nested
    serve = facts(full_window(), SERVE)
    assert [chain.cause for chain in serve.chains] == ["cpu_contention", "oom_kill"]
    assert serve.devices == ()
    assert len(serve.charges) == 3


def test_an_operation_holds_its_calls_of_all_tenants_and_only_those_who_made_them() -> None:
    found = facts(full_window(), LAUNCH)
    assert int(found.groups.calls[0]) == 4
    assert [use.pid for use in found.processes] == [100]
    assert found.name == "runtime"
    inner = (PathStep("operation", "cuLaunchKernel", "cuLaunchKernel"),)
    assert facts(full_window(), inner).nested
    assert int(facts(full_window(), inner).groups.calls[0]) == 4


def test_a_row_that_is_not_there_is_empty() -> None:
    found = facts(full_window(), (PathStep("container", "gone", "gone"),))
    assert int(found.groups.calls[0]) == 0
    assert found.processes == ()
    assert found.tenants == ()
    for section in everything(found):
        assert all(text(section)) or section.name == "durations"


def everything(found: RowFacts) -> list[Section]:
    return [
        row_page.title(found, FRAME),
        row_page.chains(found, FRAME),
        row_page.durations(found, FRAME, None),
        row_page.split(found, FRAME),
        row_page.past((), FRAME, ()),
        row_page.takers(found, FRAME),
        row_page.wakers(found, FRAME),
        row_page.open_calls(found, FRAME),
        row_owner.processes(found, FRAME),
        row_owner.devices(found, FRAME),
        row_owner.owner(found, FRAME),
        row_owner.unknown(found, FRAME),
    ]


def test_waits_include_those_of_calls_and_of_host_gaps() -> None:
    one = window([Calls(key(), [10]), Calls(key("inner", nested=True), [5]), Calls(GAP, [7])], split=True)
    assert waits_ns(facts(one, TRAIN))["running"] == 17
    assert waits_ns(facts(window([Calls(key(), [10])]), TRAIN)) == {}


def test_charges_without_a_device_belong_to_every_device_row_of_their_operation() -> None:
    one = window([Calls(key(device=device), [10]) for device in ("0", "1")], split=True)
    charges = (charge("lock", 7), charge("lock", 5)._replace(device="1"), charge("lock", 3)._replace(pid=101))
    one = replace(one, evidence=Evidence(charges=charges))

    def of(device: str) -> tuple[Charge, ...]:
        return facts(one, (*TRAIN, PathStep("device", f"gpu7/{device}", f"GPU {device}"))).charges

    assert (of("0"), of("1"), of("2")) == (charges[:1], charges[:2], ())
    assert facts(one, TRAIN).charges == charges


# ---- sections of the page


def test_the_title_shows_calls_and_rates() -> None:
    lines = text(row_page.title(facts(full_window(), TRAIN), FRAME))
    assert lines[0] == "container train"
    assert lines[1].split("calls")[1].strip().startswith("6 in 2.00s, 3.00 a second; 4.19MB moved a second")
    assert "of all calls' time" in lines[2]
    assert "time between calls" in text(row_page.title(facts(faulty(), gap()), FRAME))[2]


def gap() -> Path:
    return (PathStep("operation", HOST_GAP, HOST_GAP), PathStep("layer", HOST_LAYER, HOST_LAYER))


def test_chains_are_listed_with_their_losses() -> None:
    found = facts(faulty(STARVED, STORM), TRAIN)
    head, first, second = text(row_page.chains(found, FRAME))
    assert "Enter opens the first one" in head
    assert first.startswith(" H  title of loader_disk  412ms/s; serve: dd 201; since ")
    assert second.startswith(" M  title of sync_storm")


def test_parts_of_the_time_add_up_and_keep_their_lines() -> None:
    one = waiting((), running=600_000, disk=400_000)
    lines = text(row_page.split(facts(one, TRAIN), FRAME))
    assert [line.split()[:2] for line in lines[1:]] == [["running", "60.0%"], ["disk", "40.0%"]]
    kept = text(row_page.split(facts(one, TRAIN), FRAME, seen={"lock"}))
    assert [line.split()[0] for line in kept[1:]] == ["running", "disk", "lock"]
    assert "0%" in kept[3]
    bare = text(row_page.split(facts(window([Calls(key(), [5])]), TRAIN), FRAME))
    assert "not known" in bare[1]


def test_processes_that_had_the_cpu_and_that_ended_waits_are_listed() -> None:
    one = waiting(
        (
            charge("runqueue", 60_000_000),
            charge("runqueue", 20_000_000, pid=0, process="kernel", tenant=""),
            charge("lock", 90_000_000, pid=100, process="python3", tenant="docker:aa"),
            charge("disk", 5_000_000, pid=-1, process="others"),
        ),
        runqueue=100_000_000,
        lock=90_000_000,
        disk=10_000_000,
    )
    found = facts(one, TRAIN)
    takers = text(row_page.takers(found, FRAME))
    assert takers[1].split() == ["60.0%", "60.0ms/s", "serve:", "dd", "201"]
    assert takers[2].split()[:3] == ["20.0%", "20.0ms/s", "the"]
    assert takers[3].split() == ["20.0%", "20.0ms/s", "unattributed"]
    wakers = text(row_page.wakers(found, FRAME))
    assert wakers[1].split() == ["90.0%", "90.0ms/s", "lock", "itself:", "another", "of", "its", "threads"]
    assert wakers[2].split() == ["5.0%", "5.00ms/s", "disk", "serve:", "others"]


@pytest.mark.parametrize(
    ("one", "path", "said"),
    [
        (waiting((), running=5_000), TRAIN, "none: it waited less"),
        (waiting((), runqueue=50_000_000), TRAIN, "50.0ms/s of such waits are unattributed"),
        (window([Calls(key(), [5])]), TRAIN, "not known: no split of its time was measured"),
        (
            full_window(),
            (PathStep("operation", "cuLaunchKernel", ""),),
            "charged to the calls that contain these",
        ),
    ],
)
def test_unknown_culprits_are_explained(one: Window, path: Path, said: str) -> None:
    assert said in text(row_page.takers(facts(one, path), FRAME))[1]


def test_open_calls_show_their_ages() -> None:
    _, first, second = text(row_page.open_calls(facts(full_window(), TRAIN), FRAME))
    assert first.split()[0] == "900ms"
    assert "its thread ended inside it" in second
    many = tuple(OpenCall("docker:aa", 100, tid, "python3", "driver", "x", tid) for tid in range(20))
    lines = text(row_page.open_calls(facts(replace(full_window(), open_calls=many), TRAIN), FRAME))
    assert lines[1].split()[0] == "19ns"
    assert lines[-1].strip() == "and 14 more"


def test_processes_show_their_cpu_memory_and_disk() -> None:
    lines = text(row_owner.processes(facts(full_window(), TRAIN), FRAME))
    assert lines[0] == "Processes: 2"
    assert lines[2].split() == ["100", "python3", "–", "95.0%", "–", "65.2GiB", "0B", "33.6MB"]
    assert lines[3].split()[:2] == ["103", "python3"]
    worker = ProcessUse("docker:aa", 7, "loader", link=1, held_bytes=1 << 20)
    one = replace(faulty(), evidence=Evidence(processes=(worker,)))
    lines = text(row_owner.processes(facts(one, TRAIN), FRAME))
    assert lines[3].split()[:3] == ["7", "w", "loader"]
    assert "1.00MiB" in lines[3]
    assert lines[-1].strip().startswith("w: ")


def test_disk_of_another_process_is_not_counted() -> None:
    one = full_window()
    other = BlockIo("cri:bb", 200, "tritonserver", "sda", False, 1, 1_000_000, 0, 0, 0)
    one = replace(one, evidence=replace(one.evidence, block_io=(*one.evidence.block_io, other)))
    serve = text(row_owner.processes(facts(one, SERVE), FRAME))
    assert serve[2].split()[-2:] != ["0B", "33.6MB"]
    assert "500kB" in serve[2]


def test_the_owner_section_shows_the_tenant_and_the_limits_of_its_cgroup() -> None:
    lines = "\n".join(text(row_owner.owner(facts(full_window(), SERVE), FRAME)))
    for said in ("serve (pod, containerd)", "llm-0", "prod", "1.5 CPUs, set by /kubepods/prod", "CPUs 0-3"):
        assert said in lines, said
    assert "throttled in 5 of 20 periods, 120ms" in lines
    assert "858MiB of 1.00GiB, set by /kubepods/prod/bb" in lines
    assert "9 allocations met the limit" in lines
    assert "nvidia.com/gpu.shared: GPU-5f2c::2" in lines
    both = text(row_owner.owner(facts(full_window(), ()), FRAME))
    assert both[0].startswith("Owner: 2 tenants")
    assert {line.split()[0] for line in both[1:]} == {"serve", "train"}


def test_the_owner_section_shows_everything_known_about_a_pod() -> None:
    one = full_window()
    (tenant,) = facts(one, SERVE).tenants
    known = replace(
        one.tenants[tenant],
        container="server",
        pod_uid="6f1c-99",
        user="anna",
        labels=(("app", "llm"), ("v", "2")),
    )
    one = replace(one, tenants={**one.tenants, tenant: known})
    lines = "\n".join(text(row_owner.owner(facts(one, SERVE), FRAME)))
    for said in ("user", "anna", "server", "llm-0 (UID 6f1c-99)", "app=llm, v=2"):
        assert said in lines, said


def test_devices_are_listed_with_the_tenants_that_share_them() -> None:
    one = full_window()
    lines = text(row_owner.devices(facts(one, TRAIN), FRAME))
    assert lines[1].startswith("  GPU 0   NVIDIA H100 80GB HBM3: the row holds 65.2GiB of 79.6GiB")
    assert lines[1].endswith("throttled: sw power cap")
    assert len(lines) == 2
    (device,) = one.devices.devices
    shared = replace(device, processes=(*device.processes, DeviceProcess(9, "C", 5, "cri:bb")))
    one = replace(one, devices=replace(one.devices, devices=(shared,)))
    assert (
        "the page of the GPU says what is known of each"
        in text(row_owner.devices(facts(one, TRAIN), FRAME))[2]
    )
    assert "no device lists" in text(row_owner.devices(facts(full_window(), SERVE), FRAME))[1]
    none = replace(one, devices=replace(one.devices, devices=(), unavailable="no driver"))
    assert "not known: no driver" in text(row_owner.devices(facts(none, TRAIN), FRAME))[1]


def test_missing_coverage_and_losses_are_listed() -> None:
    lines = "\n".join(text(row_owner.unknown(facts(full_window(), SERVE), FRAME)))
    assert "not traced: process 4242, /opt/app/infer: static CUDA runtime" in lines
    assert "3 calls not counted: no histogram slot left for their process" in lines
    assert "only 5 calls: p99 needs 100" in lines
    assert "CFS throttling of cri:bb" in lines
    quiet = replace(window([Calls(key(), [5] * 200)]), loss={})
    assert text(row_owner.unknown(facts(quiet, TRAIN), FRAME)) == []


# ---- the past


def parts() -> list[Window]:
    return [
        window(
            [Calls(key(), [1_000 * (number + 1)] * 100), Calls(GAP, [9])], split=True, start=1_000.0 + number
        )
        for number in range(5)
    ]


def test_the_past_of_a_row_is_computed_once_and_in_steps() -> None:
    packed = [pack(one) for one in parts()]
    past = RowPast(TRAIN)
    first = past.look(packed, 2)
    assert [sample is None for sample in first] == [True, True, True, False, False]
    found = past.look(packed, 10)
    assert found[3:] == first[3:]
    assert [sample.calls for sample in found if sample is not None] == [100] * 5
    p99 = [sample.p99_ns for sample in found if sample is not None]
    assert p99 == [1_000, 2_000, 3_000, 4_000, 5_000]
    assert found[0] is not None
    assert found[0].split_ns == (100_000, *[0] * 9)
    assert past.look(packed[2:], 0) == found[2:]
    assert past.look(packed, 0)[:2] == (None, None)  # the previous call, for later windows, dropped these


def test_the_past_is_drawn_with_a_column_per_window() -> None:
    packed = [pack(one) for one in parts()]
    samples = RowPast(TRAIN).look(packed, 10)
    lines = text(row_page.past(samples, FRAME, {"running"}))
    assert lines[0].startswith("Over time  the last 5s")
    assert lines[2].split() == ["p99", "▂▄▅▇█", "5.00µs", "5.00µs"]
    assert lines[3].split()[0] == "running"
    assert all(len(line) <= FRAME.width for line in lines)
    assert "only this window is known" in text(row_page.past(samples[:1], FRAME, ()))[1]


def test_the_row_of_a_process_excludes_other_processes() -> None:
    one = window()
    one = replace(
        one, rows=rows([Calls(RowKey("gpu7", "docker:aa", pid, "x", "nccl", "y"), [pid]) for pid in (1, 2)])
    )
    path = (*TRAIN, PathStep("process", "gpu7/2/x", "x 2"))
    assert facts(one, path).groups.max_ns.tolist() == [2]


# ---- captured calls


def test_captured_calls_are_listed_with_their_arguments() -> None:
    found = facts(full_window(), LAUNCH)
    assert [call.tid for call in found.kept] == [101]
    _, line = text(row_calls.kept_calls(found, FRAME))
    assert ".700  " in line
    assert " 900µs  " in line
    assert line.endswith("thread 101  void scale<float>(float*, int)  stream=0x7f2c10 blocks=128x1x1")
    (_, one) = text(row_calls.kept_calls(facts(full_window(), SERVE), FRAME))
    assert one.endswith("thread 203, returned 719  4.10kB")


def test_captured_calls_of_several_operations_are_named_and_sorted_by_duration() -> None:
    made = [
        KEPT[0]._replace(
            pid=100 + n % 2, duration_ns=1_000 * n, start_ns=KEPT[0].start_ns + n, operation=f"op{n}"
        )
        for n in range(10)
    ]
    one = replace(full_window(), calls=calls.CapturedCalls(made))
    section = text(row_calls.kept_calls(facts(one, TRAIN), FRAME))
    assert section[1].endswith(
        "op9, thread 101, python3 101  void scale<float>(float*, int)  " + KEPT[0].arguments
    )
    assert len(section) == 8
    assert section[-1].strip() == "and 4 more"


def test_a_row_without_captured_calls_says_so_and_host_gaps_have_none() -> None:
    one = replace(full_window(), calls=calls.CapturedCalls(KEPT[1:]))
    assert "none of its calls in this window" in text(row_calls.kept_calls(facts(one, TRAIN), FRAME))[1]
    without = replace(full_window(), calls=calls.CapturedCalls())
    assert not row_calls.kept_calls(facts(without, TRAIN), FRAME).lines
    gap = replace(one, rows=rows([Calls(GAP, [5_000_000])], split=True))
    path = (PathStep("operation", HOST_GAP, HOST_GAP), PathStep("layer", HOST_LAYER, HOST_LAYER))
    assert not row_calls.kept_calls(facts(gap, path), FRAME).lines


def test_nested_captured_calls_are_listed_only_for_a_chosen_operation() -> None:
    nested = KEPT[0]._replace(nested=True, layer="driver", operation="cuLaunchKernel")
    one = replace(full_window(), calls=calls.CapturedCalls([nested]))
    assert not facts(one, TRAIN).kept
    inside = (
        *TRAIN,
        PathStep("operation", "cuLaunchKernel", "cuLaunchKernel"),
        PathStep("layer", "driver", "driver"),
    )
    assert facts(one, inside).kept == (nested,)
