"""Tests that state files and programs on a file system that does not answer delay nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stalltop.probes.confined.link import Confined
from stalltop.probes.confined.names import ConfinedNames
from stalltop.probes.file_state import program_identity
from stalltop.probes.tenants.tenants import Tenants
from tests.kernel.children import until
from tests.kernel.hanging_files import hanging_files
from tests.manual_clock import ManualClock
from tests.unit.probes.tenants.fake_host import FakeHost

OF_USER = "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{}.scope"
OF_ROOT = "/system.slice/docker-{}.scope"
HERS, HIS = "a1" * 32, "b2" * 32


@pytest.fixture
def confined() -> Iterator[Confined]:
    confined = Confined(patience_seconds=1.0)
    yield confined
    confined.close()


def test_others_get_names_while_the_file_system_of_a_user_hangs(tmp_path: Path, confined: Confined) -> None:
    host, clock = FakeHost(tmp_path / "host"), ManualClock()
    host.write("etc/passwd", "eve:x:1000:1000::/home/eve:/bin/sh\n")
    host.write(f"var/lib/docker/containers/{HIS}/config.v2.json", {"Name": "/his"})
    source = host.write("content", json.dumps({"Name": "/hers"}))
    folder = host.root / f"home/eve/.local/share/docker/containers/{HERS}"
    folder.parent.mkdir(parents=True)
    hers, his = host.cgroup(OF_USER.format(HERS)), host.cgroup(OF_ROOT.format(HIS))
    names = ConfinedNames(confined, host.root, clock)
    with hanging_files(folder, "config.v2.json", source) as hanging:
        hanging.hang()
        tenants = Tenants(host.root, clock, sources=names)
        assert tenants.find(7, hers).name == HERS[:12]
        assert until(lambda: names.unanswering() == [1000], tenants.refresh)
        assert until(lambda: tenants.find(8, his).name == "his", tenants.refresh)
        (missing,) = tenants.missing()
        assert missing.reason == "files or daemons of user 1000 do not answer: ids are shown"
        hanging.answer()
        clock.now += 60.0
        assert until(lambda: tenants.find(7, hers).name == "hers" or _tick(clock), tenants.refresh)
        tenants.close()


def _tick(clock: ManualClock) -> bool:
    clock.now += 1.0
    return False


def test_the_program_of_a_process_is_identified_while_its_file_system_hangs(tmp_path: Path) -> None:
    sleep = shutil.which("sleep")
    assert sleep is not None
    found: list[object] = []
    with (
        hanging_files(tmp_path / "hanging", "sleep", Path(sleep)) as hanging,
        subprocess.Popen([hanging.path, "600"]) as program,
    ):
        assert until(lambda: Path(f"/proc/{program.pid}/comm").read_text() == "sleep\n")
        before = program_identity(program.pid)
        hanging.hang()
        asking = threading.Thread(target=lambda: found.append(program_identity(program.pid)), daemon=True)
        asking.start()
        asking.join(60.0)
        hanging.answer()
        program.kill()
    assert before is not None
    assert found == [before]
