"""Sets every figure of a GPU of the stand-in driver library, and says which value stalltop must read for
each."""

from __future__ import annotations

from stalltop.model.devices.device import Device, DeviceProcess

GIB = 1 << 30
IN_FULL = """
0.name=Stand-in H100
0.utilization=87
0.memory_utilization=41
0.encoder=12
0.decoder=3
0.jpeg=44
memory_reserved=1073741824
0.memory_used=21474836480
1.memory_used=1073741824
bar1_used=4294967296
0.power=640250
power_limit_default=650000
power_limit_max=675000
0.temperature=83
0.sm_clock=1410
0.memory_clock=2000
0.video_clock=1000
performance_state=2
fans=2
fan=61
0.reasons=0x46
1.reasons=0x1
0.link_generation=3
0.link_width=8
pcie_rx=1000
pcie_tx=2000
compute_mode=3
virtualization=3
persistence=0
0.ecc_corrected_lifetime=12
0.ecc_uncorrected_lifetime=1
0.remapped_corrected=2
0.remapped_uncorrected=1
0.remap_failed=1
0.field.29=3
0.field.30=1
0.field.31=1
0.field.82=71
0.field.91=18
0.links_up=17
0.field.138=1000
0.field.139=2000
0.field.38=0
0.field.52=0
0.field.269=5
0.field.270=6
0.field.271=7
0.compute=100:5368709120,200:7516192768:2:1,300:-
0.graphics=300:-,400:1048576
0.mps=200:7516192768
1.name=Stand-in \033[31mB200
"""
FIRST = Device(
    index=0,
    uuid="GPU-0",
    name="Stand-in H100",
    utilization_percent=87.0,
    memory_utilization_percent=41.0,
    memory_used_bytes=20 * GIB,
    memory_total_bytes=80 * GIB,
    power_watts=640.25,
    power_limit_watts=700.0,
    temperature_celsius=83.0,
    sm_clock_mhz=1410,
    sm_clock_max_mhz=1980,
    throttle_reasons=("power cap", "thermal, hardware"),
    processes=(
        DeviceProcess(100, "C", 5 * GIB),
        DeviceProcess(200, "M+C", 7 * GIB, gpu_instance=2, compute_instance=1),
        DeviceProcess(300, "C+G"),
        DeviceProcess(400, "G", 1 << 20),
    ),
    pcie_generation=3,
    pcie_generation_max=5,
    pcie_width=8,
    pcie_width_max=16,
    remap_pending=False,
    pcie_replays=0,
    ecc_corrected=0,
    ecc_uncorrected=0,
    power_held_ns=0,
    thermal_held_ns=0,
    pci_bus_id="00000000:01:00.0",
    minor=0,
    persistence=False,
    compute_mode="exclusive process",
    virtualization="vGPU host",
    performance_state=2,
    mig=False,
    encoder_percent=12.0,
    decoder_percent=3.0,
    jpeg_percent=44.0,
    memory_clock_mhz=2000,
    memory_clock_max_mhz=2619,
    video_clock_mhz=1000,
    video_clock_max_mhz=1545,
    power_limit_default_watts=650.0,
    power_limit_max_watts=675.0,
    energy_millijoules=0,
    memory_temperature_celsius=71.0,
    slowdown_celsius=87.0,
    thermal_margin_celsius=4.0,
    shutdown_celsius=92.0,
    fan_percent=61.0,
    bar1_used_bytes=4 * GIB,
    bar1_total_bytes=128 * GIB,
    sync_boost_held_ns=0,
    board_limit_held_ns=0,
    reliability_held_ns=0,
    software_thermal_held_ns=0,
    hardware_thermal_held_ns=0,
    power_brake_held_ns=0,
    pcie_rx_bytes_per_second=1_000_000,
    pcie_tx_bytes_per_second=2_000_000,
    nvlinks=18,
    nvlinks_active=17,
    nvlink_rx_bytes=0,
    nvlink_tx_bytes=0,
    nvlink_errors=0,
    ecc=True,
    ecc_corrected_lifetime=12,
    ecc_uncorrected_lifetime=1,
    retired_pages=4,
    retirement_pending=True,
    remapped_corrected=2,
    remapped_uncorrected=1,
    remap_failed=True,
)
