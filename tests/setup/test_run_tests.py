"""Tests that ./run-tests reports a suite as passed only if it ran."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.setup.checkout import ROOT, Checkout


@pytest.mark.parametrize("browser", [True, False])
def test_the_browser_suite_fails_without_a_browser(tmp_path: Path, *, browser: bool) -> None:
    checkout = Checkout(tmp_path)
    shutil.copy(ROOT / "run-tests", checkout.folder)
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for name, code in (("apt-get", 1), ("dpkg", 1), ("browser", 0)):  # the test must not install packages
        (stubs / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (stubs / name).chmod(0o755)
    done = subprocess.run(
        [str(checkout.folder / "run-tests"), "browser"],
        env={
            **os.environ,
            "PATH": f"{stubs}:{os.environ['PATH']}",
            "STALLTOP_PYTHON": str(checkout.python),
            "STALLTOP_CHROMIUM": str(stubs / ("browser" if browser else "none")),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert ("all passed: browser" in done.stdout) == browser, done
    assert (done.returncode == 0) == browser
    assert f"== browser: {'ok' if browser else 'FAILED'}" in done.stdout
    assert browser or "cannot run the browser tests" in done.stderr
