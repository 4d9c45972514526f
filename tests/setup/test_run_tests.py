"""Tests that ./run-tests reports a suite as passed only if it ran."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.setup.checkout import ROOT, Checkout


def run(folder: Path, *suites: str, missing: str = "") -> subprocess.CompletedProcess[str]:
    """Run suites in a copy of the checkout whose programs succeed, except ``missing``, which fails."""
    checkout = Checkout(folder)
    shutil.copy(ROOT / "run-tests", checkout.folder)
    stubs = folder / "stubs"
    stubs.mkdir()
    failing = ("apt-get", "dpkg", missing)  # the test must not install packages
    for name in ("apt-get", "dpkg", "browser", "ruff", "mypy", "lint-imports"):
        (stubs / name).write_text(f"#!/bin/sh\nexit {int(name in failing)}\n")
        (stubs / name).chmod(0o755)
    return subprocess.run(
        [str(checkout.folder / "run-tests"), *suites],
        env={
            **os.environ,
            "PATH": f"{stubs}:{os.environ['PATH']}",
            "STALLTOP_PYTHON": str(checkout.python),
            "STALLTOP_CHROMIUM": str(stubs / ("none" if missing == "browser" else "browser")),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("browser", [True, False])
def test_the_browser_suite_fails_without_a_browser(tmp_path: Path, *, browser: bool) -> None:
    done = run(tmp_path, "browser", missing="" if browser else "browser")
    assert ("all passed: browser" in done.stdout) == browser, done
    assert (done.returncode == 0) == browser
    assert f"== browser: {'ok' if browser else 'FAILED'}" in done.stdout
    assert browser or "cannot run the browser tests" in done.stderr


@pytest.mark.parametrize("suites", [("lint", "browser"), ("browser", "lint")], ids=" ".join)
@pytest.mark.parametrize("passes", [True, False])
def test_a_suite_in_the_background_is_reported(
    tmp_path: Path, suites: tuple[str, str], *, passes: bool
) -> None:
    done = run(tmp_path, *suites, missing="" if passes else "ruff")
    assert (done.returncode == 0) == passes, done
    assert f"== lint: {'ok' if passes else 'FAILED'}" in done.stdout
    assert "== browser: ok" in done.stdout
    assert passes or "failed: lint" in done.stderr
