"""Makes a window with a value in every field, so that a test fails if a field is lost when a window is
stored, converted or merged."""

from __future__ import annotations

from typing import Any

from stalltop.model import calls
from stalltop.model.chain import Chain, Fix, Link
from stalltop.model.cuda_kernels import KernelCount
from stalltop.model.devices.activity import DeviceActivity, DeviceOverlap
from stalltop.model.devices.allocation import Allocation
from stalltop.model.devices.device import Device, DeviceProcess, Devices, GoneDevice, MigInstance, System
from stalltop.model.evidence import (
    HOST_GAP,
    HOST_LAYER,
    BlockIo,
    Charge,
    Event,
    Evidence,
    ProcessUse,
    Rank,
    TenantUse,
)
from stalltop.model.histograms.hdr import index_of
from stalltop.model.hosts.tracer import Tracer
from stalltop.model.network_ports import PORT_COUNTERS, NetworkPort
from stalltop.model.row_key import RowKey
from stalltop.model.stacks.stack import StackCount, StackFrame
from stalltop.model.window import Coverage, Library, Missing, OpenCall, Reduction, Window
from tests.windows.by_hand import TENANTS, Calls, key, rows

RDMA_COUNTS: dict[str, Any] = {one.name: 1_000 * (at + 1) for at, one in enumerate(PORT_COUNTERS)}
EVIDENCE = Evidence(
    charges=(
        Charge(
            *("cri:bb", 200, "tritonserver", HOST_LAYER, HOST_GAP, "runqueue"),
            *("docker:aa", 100, "python3", 310_000_000, 42, "0"),
        ),
        Charge(
            *("cri:bb", 200, "tritonserver", "runtime", "cudaStreamSynchronize", "lock"),
            *("cri:bb", 200, "tritonserver", 1_250_000, 3),
        ),
        Charge(
            *("cri:bb", 200, "tritonserver", HOST_LAYER, HOST_GAP, "runqueue"),
            *("", 0, "", 90_000, 7),
        ),
    ),
    block_io=(
        BlockIo("docker:aa", 100, "python3", "nvme0n1", True, 512, 67_108_864, 3_000_000, 9_000_000, 750_000),
    ),
    tenants=(
        TenantUse(
            tenant="cri:bb",
            cpu_ns=1_400_000_000,
            periods=20,
            throttled_periods=5,
            throttled_ns=120_000_000,
            reclaims=2,
            reclaim_ns=4_000_000,
            oom_kills=1,
            refaults=40,
            limit_hits=9,
            limit_kills=1,
            forks=3,
            execs=1,
            exits=2,
            cpu_quota=1.5,
            quota_cgroup="/kubepods/prod",
            memory_used_bytes=900_000_000,
            memory_limit_bytes=1_073_741_824,
            memory_cgroup="/kubepods/prod/bb",
            cpu_folder="/sys/fs/cgroup/kubepods/prod",
            cpu_version=2,
            memory_folder="/sys/fs/cgroup/kubepods/prod/bb",
            memory_version=2,
            cpuset="0-3",
        ),
        TenantUse("docker:aa", 1_900_000_000),
    ),
    processes=(
        ProcessUse(
            tenant="cri:bb",
            pid=200,
            process="tritonserver",
            cpu_ns=1_400_000_000,
            minor_faults=120,
            major_faults=2,
            retransmits_v4=1,
            retransmits_v6=4,
            allocations=8,
            frees=6,
            allocated_bytes=8_388_608,
            freed_bytes=6_291_456,
            link=0,
            threads=24,
            allowed_cpus=2,
            allowed="0-1",
            nice=-5,
            rss_bytes=700_000_000,
            swap_bytes=4_096,
            held_bytes=2_097_152,
            held=2,
            parent_pid=190,
        ),
        ProcessUse("docker:aa", 100, "python3", 1_900_000_000),
    ),
    ranks=(
        Rank(
            *("9f3c2ab1", "cri:bb", 200, "tritonserver", 1, 8),
            *(2, 40, 38, 52_000_000, 30, 1, 400_000_000, 4_711),
            entries="4690:1700000001543211 4702:1700000001611208",
            nccl_hashes="0x6afe1cc17717e1f4 0xbf47c767cbdf3105",
        ),
    ),
    events=(Event(1_700_000_001.5, "oom_kill", "cri:bb", 201, "worker", "the kernel killed worker 201"),),
    swap_in_bytes=8_192,
    swap_out_bytes=4_096,
    unknown=("CFS throttling of cri:bb: its cgroup has no cpu.stat",),
    activity=(
        DeviceActivity("0", "cri:bb", 1_400_000_000),
        DeviceActivity("0:3", "docker:aa", 700_000_000),
    ),
    overlaps=(DeviceOverlap("0", "cri:bb", "docker:aa", 320_000_000),),
    network_ports=(
        NetworkPort(
            *("eth0", "interface", "", True, "up", 100_000_000_000),
            rx_bytes=1_250_000_000,
            tx_bytes=312_500_000,
            rx_errors=0,
            tx_errors=0,
            rx_missed=3,
            link_downs=0,
            rx_dropped=2,
            tx_dropped=0,
        ),
        NetworkPort(
            *("mlx5_0/1", "roce", "", True, "active", 400_000_000_000),
            **RDMA_COUNTS,
        ),
    ),
)
"""Evidence that has a value in every field."""

CHAINS = (
    Chain(
        id="cpu_contention/cri:bb/host gap",
        cause="cpu_contention",
        title="CPU taken by another tenant",
        severity="high",
        summary="serve loses time between its calls to train",
        tenant="cri:bb",
        pid=200,
        process="tritonserver",
        layer=HOST_LAYER,
        operation=HOST_GAP,
        lost_ms_per_s=155.0,
        confidence=0.9,
        links=(
            Link("effect", "time between calls", None, 160e6, "cri:bb", 200, "tritonserver", depth=0),
            Link("mechanism", "waits for a CPU", 0.97, 155e6, "cri:bb", 200, "tritonserver"),
            Link("culprit", "train has the CPU", 0.99, 154e6, "docker:aa", 100, "python3", depth=2),
            Link("reason", "writes without end", None, None, "docker:aa", 100, "python3", "nvme0n1", 3),
            Link("factor", "two CPUs only", depth=1),
        ),
        fixes=(
            Fix("keep train off the CPUs of serve", "taskset -acp 1 100"),
            Fix("give train fewer workers"),
        ),
        unknown=("who had the CPU for the rest of the time",),
        p99_ns=60_000_000,
        normal_p99_ns=4_000_000,
        calls=120,
        rows=(RowKey("gpu7", "cri:bb", 200, "tritonserver", HOST_LAYER, HOST_GAP),),
        since=1_699_999_990.0,
        seen=1_700_000_002.0,
    ),
    Chain(
        id="oom_kill/cri:bb",
        cause="oom_kill",
        title="Killed: out of memory (OOM)",
        severity="critical",
        summary="the kernel killed worker of serve",
        tenant="cri:bb",
        pid=201,
        process="worker",
        layer="",
        operation="",
        lost_ms_per_s=0.0,
        confidence=1.0,
        links=(),
        fixes=(),
        since=1_700_000_001.5,
        seen=1_700_000_001.5,
        open=False,
    ),
)
"""One open chain and one that has ended."""


KEPT = (
    calls.CapturedCall(
        *("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", False, 101),
        *(1_700_000_000_700_000_123, 900_000, (100_000, 750_000, 0, 0, 50_000, 0, 0, 0, 0, 0), 0, 0),
        *("stream=0x7f2c10 blocks=128x1x1", "void scale<float>(float*, int)"),
        why="slow",
        device="0",
    ),
    calls.CapturedCall(
        *("cri:bb", 200, "tritonserver", "runtime", "cudaStreamSynchronize", False, 203),
        *(1_700_000_001_200_000_456, 15_000_000, None, 4_096, 719, "", ""),
        why="sample",
    ),
)
"""One captured call of each kind, sorted by time."""

ALLOCATIONS = (
    Allocation("prod", "llm-0", "server", "nvidia.com/gpu.shared", ("GPU-5f2c::2",), "6f1c-99", "cri:bb"),
    Allocation("research", "train-0", "main", "nvidia.com/mig-1g.10gb", ("MIG-aa", "MIG-bb")),
)
"""One allocation with a known tenant, and one without."""


_TRAINING = (
    StackFrame("step", "/app/train.py", 88, "python"),
    StackFrame("loop", "/app/train.py", 41, "python"),
)
STACKS = (
    StackCount(
        *("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", False, "slow", 2, 904_000),
        (StackFrame("at::launch(int)", "/lib/libtorch_cuda.so", 0, "native"), *_TRAINING),
        device="0",
        durations=((index_of(4_000), 1), (index_of(900_000), 1)),
    ),
    StackCount(
        *("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", False, "slow", 1, 5_000),
        (StackFrame("", "", 0, "jit"), *_TRAINING[1:]),
        cut="a frame could not be read",
        device="0",
        durations=((index_of(5_000), 1),),
    ),
)


def full_window() -> Window:
    """Returns a window with a value in every field."""
    return Window(
        start=1_700_000_000.25,
        seconds=2.0,
        host="gpu7",
        rows=rows(
            [
                Calls(key("cudaLaunchKernel", device="0"), [4_000, 5_000, 6_000, 900_000]),
                Calls(key("cuLaunchKernel", layer="driver", nested=True), [3_000, 3_500, 4_000, 890_000]),
                Calls(key("cudaMemcpyAsync HtoD"), [20_000, 2_000_000], 0, 8_388_608),
                Calls(
                    key("cudaStreamSynchronize", tenant="cri:bb", pid=200, process="tritonserver"),
                    [15_000_000, 18_000_000, 250_000_000],
                    1,
                ),
                Calls(
                    key("ncclAllReduce", tenant="cri:bb", pid=200, process="tritonserver", layer="nccl"),
                    [45_000, 46_000],
                    0,
                    1_048_576,
                ),
            ],
            split=True,
        ),
        tenants=dict(TENANTS),
        open_calls=(
            OpenCall(
                "cri:bb", 200, 203, "tritonserver", "nccl", "ncclCommInitRank", 42_000_000_000, device="0:3"
            ),
            OpenCall("docker:aa", 100, 101, "python3", "driver", "cuStreamSynchronize", 900_000_000, True),
            OpenCall(
                "docker:aa", 103, 104, "python3", "driver", "cuCtxSynchronize", 12_500_000_000, ended=True
            ),
        ),
        devices=Devices(
            devices=(
                Device(
                    index=0,
                    uuid="GPU-5f2c",
                    name="NVIDIA H100 80GB HBM3",
                    utilization_percent=97.0,
                    memory_used_bytes=71_000_000_000,
                    memory_total_bytes=85_520_809_984,
                    power_watts=512.5,
                    power_limit_watts=700.0,
                    temperature_celsius=66.0,
                    sm_clock_mhz=1755,
                    sm_clock_max_mhz=1980,
                    throttle_reasons=("sw power cap",),
                    processes=(DeviceProcess(100, "C", 70_000_000_000, "docker:aa"),),
                    pcie_generation=4,
                    pcie_generation_max=5,
                    pcie_width=16,
                    pcie_width_max=16,
                    remap_pending=False,
                    pcie_replays=2,
                    ecc_corrected=1,
                    ecc_uncorrected=0,
                    power_held_ns=250_000_000,
                    thermal_held_ns=0,
                    xids=(13,),
                    notes=("memory utilisation: not supported",),
                    ages=(("pcie_rx_bytes_per_second", 4.5),),
                    pci_bus_id="00000000:1B:00.0",
                    minor=0,
                    persistence=True,
                    compute_mode="default",
                    virtualization="none",
                    performance_state=0,
                    mig=True,
                    instances=(
                        MigInstance(
                            *(0, 3, "MIG-aa", "1g.10gb", 9, 0, 512_000_000, 10_000_000_000),
                            (
                                DeviceProcess(
                                    200, "C", 500_000_000, "cri:bb", gpu_instance=9, compute_instance=0
                                ),
                            ),
                        ),
                        MigInstance(0, 4, "MIG-bb"),
                    ),
                    encoder_percent=0.0,
                    decoder_percent=3.0,
                    jpeg_percent=12.0,
                    sm_active_percent=81.5,
                    sm_occupancy_percent=40.25,
                    tensor_percent=22.0,
                    dram_percent=61.0,
                    memory_clock_mhz=2619,
                    memory_clock_max_mhz=2619,
                    video_clock_mhz=1545,
                    video_clock_max_mhz=1545,
                    power_limit_default_watts=700.0,
                    power_limit_max_watts=700.0,
                    energy_millijoules=1_025_000,
                    memory_temperature_celsius=78.0,
                    slowdown_celsius=87.0,
                    shutdown_celsius=92.0,
                    thermal_margin_celsius=21.0,
                    fan_percent=30.0,
                    bar1_used_bytes=4 << 20,
                    bar1_total_bytes=128 << 30,
                    sync_boost_held_ns=0,
                    board_limit_held_ns=1_000_000,
                    reliability_held_ns=2_000_000,
                    software_thermal_held_ns=3_000_000,
                    hardware_thermal_held_ns=4_000_000,
                    power_brake_held_ns=5_000_000,
                    pcie_rx_bytes_per_second=1_200_000_000,
                    pcie_tx_bytes_per_second=900_000_000,
                    nvlinks=18,
                    nvlinks_active=17,
                    nvlink_rx_bytes=7 << 30,
                    nvlink_tx_bytes=6 << 30,
                    nvlink_errors=3,
                    ecc=True,
                    ecc_corrected_lifetime=12,
                    ecc_uncorrected_lifetime=1,
                    retired_pages=0,
                    retirement_pending=False,
                    remapped_corrected=2,
                    remapped_uncorrected=1,
                    remap_failed=False,
                ),
            ),
            driver="580.65.06",
            gone=(GoneDevice("GPU-9c01", "1", (("pcie_replays", 3), ("energy_millijoules", 12)), (79,)),),
        ),
        system=System(
            cpus=2,
            cpu_percent=37.5,
            cpu_each_percent=(50.0, 25.0),
            memory_total_bytes=16 << 30,
            memory_used_bytes=5 << 30,
            swap_total_bytes=2 << 30,
            swap_used_bytes=1 << 20,
            load=(0.5, 0.25, 0.125),
            uptime_seconds=86_400.5,
            clock_error_ns=1_500_000,
            cpu_pressure_percent=12.5,
            memory_pressure_percent=0.25,
            io_pressure_percent=0.0,
            cpu_steal_percent=6.25,
        ),
        loss={"abandoned": 2, "no_slot": 3},
        coverage=Coverage(
            attached=412,
            functions=206,
            libraries=(
                Library(
                    "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06",
                    "driver",
                    120,
                    3,
                    (Reduction("cuMemsetD8Async", 0.0, nested=True),),
                ),
            ),
            missing=(
                Missing(
                    "/opt/app/infer",
                    "static CUDA runtime without symbols",
                    "driver calls are traced",
                    4242,
                    "cri:bb",
                ),
            ),
            processes=2,
            probe_ns=512.5,
            cost_percent=0.75,
            way="multi",
            scheduled=("cri:bb", "docker:aa"),
            schedulable=("GPU-5f2c", "MIG-aa", "MIG-bb"),
            tracer=Tracer(4711, "root", 1_699_990_000.0, "stalltop record"),
        ),
        evidence=EVIDENCE,
        chains=CHAINS,
        kernels=(
            KernelCount(
                *("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", False),
                *("void scale<float>(float*, int)", 2, 0, 904_000, 900_000, ((21, 1), (52, 1))),
                device="0",
            ),
            KernelCount(
                *("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", False),
                *("", 1, 1, 5_000, 5_000, ((22, 1),)),
                device="0",
            ),
        ),
        calls=calls.CapturedCalls(KEPT, 41),
        stacks=STACKS,
        allocations=ALLOCATIONS,
    )
