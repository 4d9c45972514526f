"""Tests decoding the arguments of captured calls from registers."""

from __future__ import annotations

import pytest

from stalltop.model.row_key import RowKey
from stalltop.probes.call_arguments import argument_text
from stalltop.probes.captured_calls import captured_calls
from stalltop.probes.maps.raw import RawCapturedCall
from stalltop.probes.maps.slots import SlotKey
from stalltop.probes.operations import FUNCTIONS

ID = {function.symbol: function.id for function in FUNCTIONS}
GARBAGE = 0xABCD << 32
"""Arbitrary upper half of a register that holds an int."""


@pytest.mark.parametrize(
    ("symbol", "arguments", "text"),
    [
        (
            "cudaMemcpyAsync",
            (0x7000, 0x8000, 4096, 1 | GARBAGE, 0x55, 0),
            "copy=HtoD to=0x7000 from=0x8000 stream=0x55",
        ),
        ("cudaMemcpy", (1, 2, 3, 77, 0, 0), "copy=77 to=0x1 from=0x2"),
        (
            "cudaLaunchKernel",
            (0x400, 128 | 2 << 32, 3 | GARBAGE, 256 | 1 << 32, 1, 0),
            "grid=128x2x3 block=256x1x1",
        ),
        ("cuLaunchKernel", (0x400, 128 | GARBAGE, 2, 1, 256, 1), "grid=128x2x1 block=256x1x?"),
        ("cuStreamSynchronize", (0, 0, 0, 0, 0, 0), "stream=0x0"),
        ("cuCtxSynchronize", (9, 9, 9, 9, 9, 9), ""),
        ("cuMemsetD8Async", (16, -1 & 0xFFFFFFFF, 3, 4, 0, 0), "to=0x10 value=-1 stream=0x4"),
        (
            "ncclAllReduce",
            (1, 2, 1 << 40, 7, 0, 0x99),
            "count=1099511627776 type=float32 op=sum communicator=0x99",
        ),
        ("ncclReduce", (1, 2, 8, 99, 7, 3), "count=8 type=99 op=7 root=3"),
        ("ncclSend", (1, 64, 9, 3, 0x99, 0x5), "count=64 type=bfloat16 peer=3 communicator=0x99 stream=0x5"),
    ],
)
def test_arguments_are_decoded(symbol: str, arguments: tuple[int, ...], text: str) -> None:
    assert argument_text(ID[symbol], arguments) == text


def test_decoded_arguments_are_short() -> None:
    for symbol in ID:
        assert len(argument_text(ID[symbol], ((1 << 64) - 1,) * 6)) < 200


def test_unknown_arguments_are_left_out() -> None:
    assert argument_text(0, (1,) * 6) == ""
    assert argument_text(ID["cudaMemcpy"], ()) == ""


def test_captured_calls_get_names_and_wall_clock_times() -> None:
    split = (7, 3, 0, 0, 0, 0, 0, 0, 0, 0)
    raw = RawCapturedCall(
        *(100, 101, 71, 5, False, ID["cudaLaunchKernel"], 1_000, 10, 0, 0),
        slow=True,
        split_ns=split,
        arguments=(0x400, 1, 1, 1, 1, 0),
        born_ns=900,
    )
    asked = []

    def row_of(key: SlotKey) -> RowKey:
        asked.append(key)
        return RowKey("gpu7", "docker:aa", 100, "python3", "runtime", "cudaLaunchKernel")

    calls = captured_calls(
        [raw, raw._replace(slow=False, function=ID["cudaFree"], start_ns=2_000, split_ns=None, returned=719)],
        4,
        row_of=row_of,
        kernel_of=lambda tgid, born_ns, function: f"kernel {tgid} {born_ns} {function:#x}",
        unix_ns=1_700_000_000_000_000_000,
    )
    launch, free = calls.kept
    assert asked[0] == SlotKey(71, 100, 5, False)
    assert launch[:9] == (
        *("docker:aa", 100, "python3", "runtime", "cudaLaunchKernel", False, 101),
        *(1_700_000_000_000_001_000, 10),
    )
    assert (launch.split_ns, launch.kernel, launch.why) == (split, "kernel 100 900 0x400", "slow")
    assert launch.end_ns == 1_700_000_000_000_001_010
    assert (free.split_ns, free.kernel, free.why, free.returned) == (None, "", "sample", 719)
    assert free.arguments == "address=0x400"
    assert calls.passed_over == 4
