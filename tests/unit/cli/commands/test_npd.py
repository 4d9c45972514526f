"""Tests ``stalltop npd``: exit codes and lines as the Node Problem Detector takes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stalltop.cli import main as cli
from stalltop.model.window import Coverage
from tests.unit.serving.host.tracers import publishing
from tests.unit.serving.notify.problems import problem, with_problems


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        ([], 1, "cpu_contention: train waits for a CPU (+1)"),
        (["--severity", "critical"], 0, "no problem"),
        (["--severity", "low"], 1, "cpu_contention: train waits for a CPU (+2)"),
        (["--cause", "gpu_xid"], 0, "no problem"),
        (["--cause", "pcie_link", "--severity", "low"], 1, "pcie_link: train waits for a CPU"),
    ],
)
def test_the_worst_problem_decides(
    tracer_socket: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, line: str
) -> None:
    window = with_problems(
        problem(),
        problem(tenant="cri:bb"),
        problem("pcie_link", severity="low"),
        problem("x", severity="info"),
    )
    with publishing(tracer_socket, lambda: window):
        assert cli.main(["npd", *arguments]) == code
    assert capsys.readouterr().out == f"{line}\n"


def test_an_unknown_cause_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["npd", "--cause", "xid"]) == 2
    assert "no cause is called 'xid'" in capsys.readouterr().err


def test_a_long_line_is_cut(tracer_socket: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with publishing(tracer_socket, lambda: with_problems(replace(problem(), summary="x" * 200))):
        assert cli.main(["npd"]) == 1
    assert len(capsys.readouterr().out.rstrip("\n")) == 80


def test_what_is_not_known_is_no_problem_and_no_health(
    tracer_socket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["npd"]) == 2
    assert capsys.readouterr().out == "no stalltop traces this host\n"
    window = replace(with_problems(problem()), coverage=Coverage(tracing="permission denied"))
    with publishing(tracer_socket, lambda: window):
        assert cli.main(["npd"]) == 2
    assert capsys.readouterr().out == "permission denied\n"
