"""Tests which Linux kernels of Debian are chosen for tests, and the table of results in docs/kernels.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import fetch, matrix
from tests.kernels.machine import GuestReport

PAGE = Path(__file__).resolve().parents[3] / "docs/kernels.md"
NAMES = [
    *("linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-56-cloud-amd64", "linux-image-6.1.0-57-amd64"),
    *("linux-image-6.12.95+deb12-cloud-amd64", "linux-image-6.12.107+deb12-cloud-amd64"),
    *(
        "linux-image-6.12.200+deb12-cloud-amd64-dbg",
        "linux-image-cloud-amd64",
        "linux-headers-9.9-cloud-amd64",
    ),
    *("linux-image-7.0.13+deb13-cloud-amd64", "linux-binary-7.0.13+deb13-cloud-amd64"),
]


@pytest.mark.parametrize(
    ("series", "package"),
    [
        ("6.1", "linux-image-6.1.0-56-cloud-amd64"),
        ("6.12", "linux-image-6.12.107+deb12-cloud-amd64"),
        ("7.0", "linux-binary-7.0.13+deb13-cloud-amd64"),
        ("", "linux-binary-7.0.13+deb13-cloud-amd64"),
        ("5.10", None),
    ],
)
def test_the_newest_cloud_kernel_of_a_series_is_chosen(series: str, package: str | None) -> None:
    assert fetch._newest(NAMES, series) == package


def test_a_kernel_that_cannot_be_fetched_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch.main(["debian-12"]) == 1
    assert str(tmp_path / "debian-12") in capsys.readouterr().err
    assert fetch.main(["debian-3"]) == 2


def test_a_cached_kernel_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fetch.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    image = tmp_path / "debian-12/vmlinuz-6.1"
    image.parent.mkdir()
    image.touch()
    assert fetch.fetched(fetch.DEBIAN[0]) == image


def program(variant: str, name: str, instructions: int, refused: str = "") -> dict[str, object]:
    told = {"kind": "program", "variant": variant, "name": name, "instructions": instructions}
    return {**told, "verifier_ms": 1.4, "refused": refused}


def test_results_of_a_guest_make_rows() -> None:
    told = GuestReport("", "")
    told.lines = [
        {"kind": "kernel", "release": "6.1.0"},
        program("perf, with splits", "call_begins", 20_000),
        program("perf, with splits", "call_returns", 140_000),
        {"kind": "passed", "check": "counts", "variant": "perf, with splits", "made": 1000, "counted": 1000},
        {
            "kind": "failed",
            "check": "counts CUDA",
            "variant": "perf, with splits",
            "made": 500,
            "counted": 499,
        },
        program("host", "bio_queued", 100, "Permission denied"),
    ]
    assert matrix.lines(told, "debian-12", "clang 14") == [
        (
            *("6.1.0", "clang 14", "perf, with splits", "2 of 2", "140,000 (call_returns)"),
            *("3", "1,499 / 1,500"),
        ),
        ("6.1.0", "clang 14", "host", "0 of 1", "100 (bio_queued)", "1", ""),
    ]


def test_a_guest_that_did_not_boot_has_a_row() -> None:
    told = GuestReport("", "the guest did not end within 1 s")
    ((kernel, *_, counted),) = matrix.lines(told, "debian-12", "clang 14")
    assert kernel == "debian-12: did not boot"
    assert counted == "the guest did not end within 1 s"


def test_the_message_contains_the_end_of_the_console_output() -> None:
    told = GuestReport(
        "\n".join(f"line {number}" for number in range(200)), "the guest did not end within 1 s"
    )
    assert "within 1 s" in told.problem()
    assert "line 199" in told.problem()
    assert "line 0" not in told.problem()


def test_rows_of_other_kernels_stay_on_the_page() -> None:
    def of(kernel: str, loaded: str) -> matrix.MatrixRow:
        return matrix.MatrixRow(kernel, "host", "perf", loaded, "1", "3", "1 / 1")

    empty = f"{matrix.BEGIN}\n{matrix.END}"
    once = matrix.page(
        empty, [of("6.12.1", "1 of 2"), of("6.1.9-5", "2 of 2")], ["6.12.1: why", "6.1.9-5: why"]
    )
    twice = matrix.page(once, [of("6.12.1", "2 of 2"), of("5.15.0", "2 of 2")], [])
    rows = [line for line in twice.splitlines() if line.startswith("| ")][1:]
    assert [_cells(row)[0] for row in rows] == ["5.15.0", "6.1.9-5", "6.12.1"], "sorted by version"
    assert "1 of 2" not in twice
    assert "6.1.9-5: why" in twice
    assert "6.12.1: why" not in twice


def test_only_the_table_of_the_page_is_replaced() -> None:
    row = matrix.MatrixRow("6.1.0", "clang 14", "perf", "2 of 2", "1", "3", "1 / 1")
    once = matrix.page(f"before\n{matrix.BEGIN}\nold\n{matrix.END}\nafter\n", [row], ["6.11: refused"])
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "old" not in once
    assert matrix.page(once, [row], ["6.11: refused"]) == once
    with pytest.raises(ValueError, match="no <!-- kernels"):
        matrix.page("", [row], [])


def test_the_page_holds_one_complete_run() -> None:
    text = PAGE.read_text()
    head, _, *rows = [line for line in text.splitlines() if line.startswith("|")]
    assert _cells(head) == list(matrix.COLUMNS)
    traced = refused = 0
    series = set()
    for row in rows:
        kernel, _, way, loaded, instructions, _, counted = _cells(row)
        done, _, programs = loaded.partition(" of ")
        assert done == programs, row
        assert 0 < int(instructions.split()[0].replace(",", "")) <= matrix.MAX_INSTRUCTIONS, row
        series.add(".".join(kernel.split(".")[:2]))
        if counted == "refused":
            refused += 1
            assert f"{kernel}: " in text, "the reason for a refusal is missing"
        elif way != "host":
            traced += 1
            got, _, made = counted.partition(" / ")
            assert got == made != "", row
    assert {"5.15", "6.1", "6.8", "6.11", "6.12", "6.18", "7.0"} <= series
    assert traced
    assert refused


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]
