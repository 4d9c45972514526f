"""Tests the comparison with nvidia-smi for tests/gpu, with the stand-in library and a made-up answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.gpu.smi import compare, number, processes
from tests.unit.probes.nvml.full_device import FIRST

ANSWER = """<?xml version="1.0" ?>
<nvidia_smi_log><gpu id="00000000:01:00.0">
<product_name>Stand-in H100</product_name><uuid>GPU-0</uuid><minor_number>0</minor_number>
<persistence_mode>Disabled</persistence_mode><compute_mode>Exclusive_Process</compute_mode>
<mig_mode><current_mig>Disabled</current_mig></mig_mode>
<gpu_virtualization_mode><virtualization_mode>Host VGPU</virtualization_mode></gpu_virtualization_mode>
<fan_speed>N/A</fan_speed><performance_state>P2</performance_state>
<pci><pci_bus_id>00000000:01:00.0</pci_bus_id><rx_util>1000 KB/s</rx_util>
<pci_gpu_link_info><pcie_gen><current_link_gen>3</current_link_gen></pcie_gen>
<link_widths><max_link_width>16x</max_link_width></link_widths></pci_gpu_link_info></pci>
<fb_memory_usage><total>81920 MiB</total><used>20481 MiB</used></fb_memory_usage>
<gpu_power_readings><average_power_draw>640.25 W</average_power_draw></gpu_power_readings>
<remapped_rows><remapped_row_pending>No</remapped_row_pending></remapped_rows>
<processes><process_info><pid>100</pid></process_info><process_info><pid>200</pid></process_info></processes>
</gpu></nvidia_smi_log>"""


def test_equal_figures_agree() -> None:
    pairs = list(compare((FIRST,), ANSWER))
    assert [str(pair) for pair in pairs if not pair.agree] == []
    assert len(pairs) == 16  # all figures in the answer of nvidia-smi
    assert processes(ANSWER) == {"GPU-0": {100, 200}}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("memory_used_bytes", 40 << 30),
        ("pci_bus_id", "00000000:02:00.0"),
        ("compute_mode", "default"),
        ("power_watts", 100.0),
        ("remap_pending", True),
        ("pcie_width_max", None),  # a figure that nvidia-smi has must not be missing
    ],
)
def test_differing_fields_are_named(field: str, value: object) -> None:
    pairs = compare((replace(FIRST, **{field: value}),), ANSWER)  # type: ignore[arg-type]
    assert [pair.field for pair in pairs if not pair.agree] == [field]


def test_a_moving_figure_may_lie_between_two_answers() -> None:
    later = ANSWER.replace("640.25 W", "900.00 W")
    for watts, agrees in ((639.25, True), (700.0, True), (899.0, True), (448.2, False), (1100.0, False)):
        pairs = compare((replace(FIRST, power_watts=watts),), ANSWER, later)
        assert all(pair.agree for pair in pairs) is agrees


def test_a_gpu_missing_from_the_answer_raises_an_error() -> None:
    with pytest.raises(ValueError, match="GPU-x"):
        list(compare((replace(FIRST, uuid="GPU-x"),), ANSWER))


@pytest.mark.parametrize(
    ("said", "value"), [("34 C", 34.0), ("16x", 16.0), ("P0", 0.0), ("N/A", None), ("", None)]
)
def test_numbers_are_parsed_without_units(said: str, value: float | None) -> None:
    assert number(said) == value
