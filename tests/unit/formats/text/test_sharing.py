"""Tests text, tables and JSON about who shares a device."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from stalltop.formats.documents.window import document
from stalltop.formats.text import sharing_table, sharing_text
from stalltop.formats.text.sharing_lines import sharing_lines
from stalltop.model.devices.activity import DeviceActivity
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, MigInstance
from stalltop.model.evidence import Evidence
from stalltop.model.sharing.sharing import Sharer, Sharing, sharing_of
from stalltop.model.text.glyphs import ASCII, UNICODE, Glyphs
from stalltop.model.text.style import Style
from stalltop.model.window import Coverage, Missing
from tests.windows.by_hand import window as empty
from tests.windows.evidence import BATCH, SERVE, TRAIN, row
from tests.windows.shared_devices import at, client, divided, gpu, on, shared

NAMED = empty()


def sharing(way: str = "mps", tenants: int = 0, **others: object) -> Sharing:
    users = tuple(Sharer(f"docker:{number}") for number in range(tenants))
    return Sharing("0", "GPU-0", way, sharers=users, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (sharing("unused"), "No process uses GPU 0."),
        (sharing("unused", busy_percent=0.0), "No process uses GPU 0; the device is 0% busy."),
        (
            sharing("unknown", watched=False),
            "Who uses GPU 0 is not known. "
            "The driver does not list its processes, so tenants that are not traced are missing.",
        ),
        (
            sharing("exclusive", 1, busy_percent=97.0),
            "Only docker:0 uses GPU 0; the device is 97% busy.",
        ),
        (
            sharing("mps", 4, busy_percent=93.0),
            "4 tenants share GPU 0 at once, through MPS; the device is 93% busy; "
            "the share of each tenant is not measurable here.",
        ),
        (
            replace(sharing("time-sliced"), sharers=(Sharer(""),)),
            "Processes whose tenant is not known use GPU 0.",
        ),
        (sharing("mps", 1), "Only docker:0 uses GPU 0, through MPS."),
        (
            sharing("time-sliced", 2, busy_percent=100.0, switches_per_second=452.0),
            "2 tenants share GPU 0 by time-slicing; the device is 100% busy; "
            "it changes between their processes 452 times a second.",
        ),
        (
            sharing("time-sliced", 2, busy_percent=100.0),
            "2 tenants share GPU 0 by time-slicing; the device is 100% busy; "
            "the share of each tenant is not measurable here.",
        ),
        (
            sharing("vgpu", 2, busy_percent=5.5),
            "GPU 0 is a vGPU: other virtual machines may use the same board, and cannot be seen from here; "
            "2 tenants use it here; the device is 5.5% busy.",
        ),
        (
            replace(sharing("mps"), sharers=(Sharer("docker:0"), Sharer("", (7, 8)))),
            "1 tenant and 2 processes whose tenant is not known share GPU 0 at once, through MPS; "
            "the share of each tenant is not measurable here.",
        ),
        (
            sharing("unknown", busy_percent=93.0, hidden="somebody"),
            "GPU 0 is used, but the driver does not tell by whom; the device is 93% busy.",
        ),
        (
            sharing("unknown", busy_percent=80.0, hidden="guests"),
            "GPU 0 is for virtual machines, and which of them use it cannot be seen from here; "
            "the device is 80% busy.",
        ),
        (
            sharing("unknown", 1, hidden="guests"),
            "docker:0 uses GPU 0. Virtual machines use it, too, and cannot be seen from here.",
        ),
        (
            sharing("unknown", 1, unplaced=(Sharer("docker:7", launches=700, calls=9),)),
            "docker:0 uses GPU 0. "
            "1 more tenant made calls on a GPU that is not known: docker:7 (700 launches).",
        ),
        (
            sharing("unknown", unplaced=tuple(Sharer(f"docker:{n}", calls=1) for n in range(5))),
            "Who uses GPU 0 is not known. 5 tenants made calls on a GPU that is not known: "
            "docker:0 (1 call), docker:1 (1 call), docker:2 (1 call) and 2 more.",
        ),
        (
            sharing("unknown", 1, watched=False),
            "docker:0 uses GPU 0. The driver does not list its processes, so tenants that are not traced are"
            " missing.",
        ),
        (
            replace(sharing("mps"), sharers=tuple(Sharer(f"a/x:{n}", mps_client=n < 3) for n in range(4))),
            "4 tenants share GPU 0, 3 of them through MPS; the share of each tenant is not measurable here.",
        ),
        (
            replace(sharing("exclusive"), sharers=(Sharer("docker:0"), Sharer("process:ended"))),
            "Only docker:0 uses GPU 0. Processes that have ended made calls on it, too.",
        ),
        (
            replace(sharing("unused"), sharers=(Sharer("host-a/process:ended"),)),
            "Only processes that have ended made calls on GPU 0.",
        ),
        (sharing("mps"), "Only the server of MPS is on GPU 0."),
        (sharing("mig"), "GPU 0 is in MIG mode, and has no instance: no program can use it."),
        (
            sharing("mig", parts=(sharing("unused"),) * 7),
            "GPU 0 is divided by MIG into 7 instances, each with compute and memory of its own; "
            "nobody uses them.",
        ),
        (
            sharing("mig", parts=(sharing("exclusive", 1), sharing("unused"))),
            "GPU 0 is divided by MIG into 2 instances, each with compute and memory of its own; "
            "1 tenant uses 1 of them.",
        ),
        (
            sharing(
                "mig",
                parts=(
                    replace(sharing("exclusive"), sharers=(Sharer("", (7,)),)),
                    replace(sharing("time-sliced"), sharers=(Sharer("docker:0"), Sharer("", (8,)))),
                ),
            ),
            "GPU 0 is divided by MIG into 2 instances, each with compute and memory of its own; "
            "1 tenant and 2 processes whose tenant is not known use 2 of them.",
        ),
        (
            sharing("mig", parts=(sharing("unused"), sharing("unknown"))),
            "GPU 0 is divided by MIG into 2 instances, each with compute and memory of its own; "
            "who uses them is not known.",
        ),
    ],
)  # fmt: skip
def test_one_sentence_says_how_a_device_is_shared(one: Sharing, said: str) -> None:
    assert sharing_text.statement(one, NAMED) == said


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (gpu(), "none seen"),
        (gpu(utilization_percent=93.0), ""),
        (gpu(virtualization="vGPU host"), ""),
        (gpu(notes=("MPS clients: unknown error",)), ""),
        (gpu(client(1, "", "C"), client(2, "", "C")), "2 processes"),
        (gpu(client(1, TRAIN), client(2, "")), "2 processes"),
        (gpu(lost=True), ""),
        (gpu(client(1, TRAIN, "C"), client(2, TRAIN, "C")), "1 tenant"),
        (gpu(client(1, TRAIN, "C"), client(2, SERVE, "C")), "2 time-sliced"),
        (gpu(client(1, TRAIN), client(2, SERVE), client(3, BATCH)), "3 via MPS"),
        (divided(True), "MIG 7"),
        (gpu(client(1, TRAIN, "C"), virtualization="vGPU"), "1 on vGPU"),
    ],
)
def test_a_cell_says_how_a_device_is_shared(device: Device, said: str) -> None:
    assert sharing_text.short(device) == said


def test_the_help_names_what_would_show_more() -> None:
    assert sharing_text.help_text(sharing("mps", 2, divisible=True)).startswith(
        "MIG instances, or a device each,"
    )
    assert sharing_text.help_text(sharing("mps", 2)).startswith("A device each would")
    assert sharing_text.help_text(sharing("exclusive", 1, divisible=True)) == ""


def test_tenants_have_figures_and_notes() -> None:
    made, device = shared()
    one = sharing_of(made, device)
    lines = {
        name.strip(): (figures.split(), [text for text, _ in sharing_table.notes(user, one, made)])
        for user in one.sharers
        for name, figures in [sharing_table.cells(user, made, sharing_table.layout(100, one))]
    }
    assert lines["trainer"] == (
        ["909", "900", "450ms", "0B", "1.00GiB", "60.0%"],
        ["of that, together with server 25%"],
    )
    assert lines["server"] == (
        ["0", "0", "0ns", "0B", "1.00GiB", "15.0%"],
        ["of that, together with trainer 100%"],
    )
    assert lines["batch-job"] == (
        ["0", "0", "0ns", "0B", "1.00GiB", "–"],
        ["not active in this window", "no scheduler gave it this device"],
    )


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_printed_lines_fit_and_show_allocations(width: int, glyphs: Glyphs) -> None:
    made, _ = shared()
    ((title, *lines),) = sharing_lines(made, Style(width, False, glyphs))
    assert title == "who shares GPU 0"
    assert max(map(cell_len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "3 tenants share GPU 0 at once, through MPS; the device is 93% busy" in text
    assert "given to lab/train-0, container main: 2 nvidia.com/gpu: used" in text
    assert "lab/idle-0, container main: 1 nvidia.com/gpu: not used: none of its processes" in text
    assert glyphs is UNICODE or text.isascii()


def test_a_device_of_one_tenant_is_not_printed() -> None:
    device = gpu(client(100, TRAIN, "C"))
    style = Style(80, False, UNICODE)
    assert sharing_lines(on(device), style) == []
    given = Allocation("lab", "other", "main", "nvidia.com/gpu", ("GPU-0",), "u", "cri:gone")
    assert sharing_lines(on(device, allocations=(given,)), style)
    instance = MigInstance(0, 0, "MIG-0", "7g.80gb", processes=(client(1, TRAIN), client(2, SERVE)))
    (lines,) = sharing_lines(on(gpu(mig=True, instances=(instance,))), style)
    said = "2 tenants share GPU 0:0 at once, through MPS; the share of each tenant is not measurable here."
    assert said in " ".join(line.strip() for line in lines)


def test_each_instance_shows_its_size_and_memory() -> None:
    instances = (
        MigInstance(0, 0, "MIG-0", "1g.10gb", processes=(client(1, TRAIN, "C"),)),
        MigInstance(0, 2, "MIG-2", "3g.40gb", memory_used_bytes=3 << 30, memory_total_bytes=40 << 30),
        MigInstance(0, 3, "MIG-3", "1g.10gb", listed=False),
    )
    device = gpu(mig=True, instances=instances)
    (lines,) = sharing_lines(
        on(device, gpu(client(3, SERVE), client(4, TRAIN), index=1)), Style(80, False, UNICODE)
    )[:1]
    assert "0:0 1g.10gb" in lines
    assert "0:2 3g.40gb, 3.00GiB of 40.0GiB: nobody" in lines
    assert "0:3 1g.10gb: who uses it is not known" in lines


def test_json_has_the_same_figures_and_no_shares() -> None:
    made, _ = shared()
    (found,) = document(made)["devices"]
    told = found["sharing"]
    assert (told["way"], told["watched"], len(told["tenants"])) == ("mps", True, 3)
    train = next(one for one in told["tenants"] if one["tenant"] == TRAIN)
    assert (train["launches"], train["waited_ns"], train["given"]) == (900, 450_000_000, True)
    assert train["overlaps"] == [{"tenant": SERVE, "ns": 150_000_000}]
    assert {one["sample_percent"] for one in told["tenants"]} == {None}
    assert [(one["pod"], one["use"]) for one in told["given"]] == [
        ("idle-0", "absent"),
        ("serve-0", "idle"),
        ("train-0", "used"),
    ]
    (parted,) = document(on(divided(True)))["devices"]
    assert [part["device"] for part in parted["sharing"]["instances"]] == [f"0:{n}" for n in range(7)]


def test_hostile_names_are_harmless() -> None:
    device = gpu(client(100, TRAIN), client(200, SERVE))
    made = on(device)
    evil = replace(made.tenants[TRAIN], name="\x1b[2Jtrain")
    made = replace(made, tenants={**made.tenants, TRAIN: evil})
    assert all(line.isprintable() for part in sharing_lines(made, Style(80, False, UNICODE)) for line in part)


def test_a_tenant_at_work_is_never_called_inactive() -> None:
    """Tenant SERVE uses two GPUs. Its activity has no device label, so it may have been active on either."""
    processes = client(100, TRAIN, "C"), client(200, SERVE, "C"), client(300, BATCH, "C")
    devices = gpu(*processes), gpu(processes[1], index=1)
    serve = row("cudaLaunchKernel", 700, running=3, tenant=SERVE, pid=200)
    evidence = Evidence(activity=(DeviceActivity("0", TRAIN, 500_000_000), DeviceActivity("", SERVE, 600)))
    made = on(*devices, rows=[row("cudaLaunchKernel", 900, running=3), serve], evidence=evidence)
    one = sharing_of(made, devices[0])
    assert {user.tenant: sharing_table.notes(user, one, made)[0] for user in one.sharers} == {
        TRAIN: ("which tenants were active at the same time was not measured", False),
        SERVE: ("when it was active here was not measured", False),
        BATCH: ("not active in this window", False),
    }


def test_an_untraced_tenant_has_a_reason_instead_of_figures() -> None:
    device = gpu(client(100, TRAIN, "C"), client(200, SERVE, "C"))
    gaps = (Missing("/opt/app/infer", "static CUDA runtime without symbols", pid=100),)
    made = on(device, coverage=Coverage(missing=gaps))
    one = sharing_of(made, device)
    told = {user.tenant: user for user in one.sharers}
    _, figures = sharing_table.cells(told[TRAIN], made, sharing_table.layout(100, one))
    assert figures.split()[:4] == ["–"] * 4
    said = ("what it does here is not traced: static CUDA runtime without symbols", True)
    assert said in sharing_table.notes(told[TRAIN], one, made)
    assert said not in sharing_table.notes(told[SERVE], one, made)


def test_of_an_allocation_only_the_part_on_this_device_is_shown() -> None:
    several = Allocation("lab", "p", "main", "nvidia.com/gpu", ("GPU-0", "GPU-1"), "u1", TRAIN)
    devices = gpu(client(100, TRAIN, "C")), gpu(client(100, TRAIN, "C"), index=1)
    made = on(*devices, allocations=(several,))
    for device in devices:
        one = sharing_of(made, device)
        what, _ = sharing_text.given(one.holdings[0], one)
        assert what == "lab/p, container main: 1 of 2 nvidia.com/gpu"
    named = on(devices[0], allocations=(replace(several, devices=("MIG-0",)),))
    instance = MigInstance(0, 0, "MIG-0", processes=(client(100, TRAIN, "C"),))
    divided_ = gpu(mig=True, instances=(instance,))
    one = sharing_of(replace(named, devices=on(divided_).devices), divided_)
    assert sharing_text.given(one.holdings[0], one)[0].endswith(": 1 nvidia.com/gpu")


@pytest.mark.parametrize(("seconds", "wasted"), [(1.0, False), (30.0, True)])
def test_a_short_idle_time_wastes_nothing(seconds: float, wasted: bool) -> None:
    device = gpu(client(100, TRAIN, "C"))
    given = Allocation("lab", "p", "main", "nvidia.com/gpu", ("GPU-0",), "u1", TRAIN)
    made = on(device, allocations=(given,), seconds=seconds)
    (holding,) = sharing_of(made, device).holdings
    assert (holding.use, sharing_text.is_wasted(holding, made)) == ("idle", wasted)
    assert bool(sharing_lines(made, Style(80, False, UNICODE))) == wasted


@pytest.mark.parametrize(
    ("device", "said"),
    [
        (gpu(notes=("compute processes: no permission",)), "the driver does not tell who uses the device"),
        (gpu(lost=True), "the driver does not tell who uses the device"),
        (gpu(utilization_percent=93.0), "the driver does not tell who uses the device"),
        (gpu(memory_used_bytes=60 << 30), "the driver does not tell who uses the device"),
        (gpu(), "it makes calls, but it was not measured on which GPU"),
    ],
)
def test_an_unobservable_device_is_not_called_unused(device: Device, said: str) -> None:
    given = Allocation("lab", "p", "main", "nvidia.com/gpu", ("GPU-0",), "u1", SERVE)
    rows = [row("cudaLaunchKernel", 700, running=3, tenant=SERVE, pid=200)]
    made = on(device, gpu(index=1), rows=rows, allocations=(given,))
    one = sharing_of(made, device)
    _, use = sharing_text.given(one.holdings[0], one)
    assert use == f"not known: {said}"
    assert "No process" not in sharing_text.statement(one, made)
    told = document(made)
    assert [(user["tenant"], user["launches"]) for user in told["unplaced_tenants"]] == [(SERVE, 700)]


def test_unknown_throttle_reasons_are_null() -> None:
    for device, told in ((gpu(), []), (gpu(notes=("throttle reasons, fan: unknown error",)), None)):
        assert document(on(device))["devices"][0]["throttle_reasons"] == told


def test_calls_on_an_unknown_gpu_are_printed() -> None:
    rows = [
        at("0", row("cudaLaunchKernel", 9, running=3)),
        row("cudaLaunchKernel", 700, running=3, tenant=SERVE, pid=200),
    ]
    lines = sharing_lines(on(gpu(), gpu(index=1), rows=rows), Style(80, False, UNICODE))
    assert [line for part in lines for line in part] == [
        "who worked on a GPU that is not known",
        "  server (700 launches)",
    ]
