"""Tests when ./stalltop sets up its environment, with which Python, and that an interrupted set-up is
repaired. A stand-in replaces the interpreter."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.setup.checkout import ROOT, Checkout

TOOLS = (
    *("sh", "basename", "cat", "cksum", "cp", "dirname", "flock", "id", "mkdir", "mktemp", "paste"),
    *("readlink", "rm", "sed", "sleep", "tail", "tr"),
)
"""Programs that the launcher calls besides Python."""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_the_second_start_does_no_set_up(checkout: Checkout) -> None:
    assert checkout.run("check").returncode == 0
    assert checkout.uses() == ["pip", "run check"]
    second = checkout.run("once", "--json")
    assert checkout.uses() == ["pip", "run check", "run once --json"]
    assert second.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serve", "--help"), "usage: stalltop serve"),
        (("export", "--to", "parquet", "-h"), "usage: stalltop export"),
        (("help", "query"), "usage: stalltop query"),
        (("--help",), "usage: stalltop [COMMAND]"),
        (("-V",), "stalltop "),
    ],
)
def test_help_installs_nothing(checkout: Checkout, arguments: tuple[str, ...], said: str) -> None:
    done = checkout.run(*arguments)
    assert done.returncode == 0
    assert done.stdout.startswith(said)
    assert done.stderr == ""
    assert checkout.uses() == []
    checkout.run("check")
    assert checkout.run(*arguments).stderr == ""
    assert checkout.uses() == ["pip", "run check", f"run {' '.join(arguments)}"]


def test_changed_dependencies_are_installed(checkout: Checkout) -> None:
    checkout.run("check")
    project = checkout.folder / "pyproject.toml"
    project.write_text(
        project.read_text().replace("dependencies = [\n", 'dependencies = [\n  "another",\n', 1)
    )
    checkout.run("check")
    assert checkout.uses() == ["pip", "run check"] * 2


def test_a_command_with_packages_of_its_own_adds_them_to_the_environment(checkout: Checkout) -> None:
    checkout.run("check")
    there = checkout.folder / ".venv/there"
    there.touch()
    said = checkout.run("serve", "--port", "0").stderr
    assert checkout.uses() == ["pip", "run check", "pip", "run serve --port 0"]
    assert "for this command" in said
    assert there.exists()  # the environment was not made again
    checkout.run("check")
    checkout.run("serve")
    assert checkout.uses()[4:] == ["run check", "run serve"]


@pytest.mark.parametrize(
    ("command", "group"), [("serve", "serve"), ("mcp", "mcp"), ("agent", "fleet"), ("rollup", "fleet")]
)
def test_a_command_with_packages_of_its_own_may_be_the_first(
    checkout: Checkout, command: str, group: str
) -> None:
    checkout.run(command)
    checkout.run("check")
    assert checkout.uses() == ["pip", f"run {command}", "run check"]
    assert (checkout.folder / ".venv" / f"{group}.ready").exists()


def test_packages_of_an_export_format_are_installed_at_its_first_use(checkout: Checkout) -> None:
    csv, parquet = "export x --to csv", "export x --to parquet -o y"
    for command in (csv, parquet, csv, "export x --to=parquet"):
        checkout.run(*command.split())
    assert checkout.uses() == [
        *("pip", f"run {csv}", "pip", f"run {parquet}"),
        *(f"run {csv}", "run export x --to=parquet"),
    ]


def test_a_failed_installation_of_a_command_s_packages_affects_no_other_command(checkout: Checkout) -> None:
    checkout.run("check")
    checkout.flag("no-network").touch()
    assert checkout.run("serve").returncode == 1
    assert checkout.run("check").returncode == 0
    assert checkout.uses() == ["pip", "run check", "pip", "run check"]


def test_a_group_of_packages_can_include_another(tmp_path: Path) -> None:
    project = (
        '[project]\nname = "stalltop"\ndependencies = ["one"]\n'
        '[project.optional-dependencies]\nserve = ["two"]\ntest = ["stalltop[serve]", "three[x]>1"]\n'
    )
    (tmp_path / "pyproject.toml").write_text(project)
    script = f"root={tmp_path}; . {ROOT}/scripts/environment.sh; requirements test; requirements run"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["one", "two", "three[x]>1", "one"]


def test_without_a_network_an_incomplete_environment_is_not_used(checkout: Checkout) -> None:
    checkout.flag("no-network").touch()
    failed = checkout.run("check")
    assert failed.returncode == 1
    assert "check the network" in failed.stderr
    assert checkout.uses() == ["pip"]
    checkout.flag("no-network").unlink()
    assert checkout.run("check").returncode == 0
    assert checkout.uses() == ["pip", "pip", "run check"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_an_interrupted_set_up_is_repaired_by_the_next_start(checkout: Checkout, how: int) -> None:
    checkout.flag("slow").write_text("100")
    process = checkout.popen("check")
    until(lambda: checkout.uses() == ["pip"])

    def ended() -> bool:
        # repeated, as users do: the shell that stands for pip ignores a signal while it starts `sleep`
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        return process.poll() is not None

    until(ended)
    process.communicate(timeout=30)
    assert process.returncode != 0
    checkout.flag("slow").unlink()
    assert checkout.run("check").returncode == 0
    assert checkout.uses() == ["pip", "pip", "run check"]


def test_two_first_starts_at_once_set_up_once(checkout: Checkout) -> None:
    checkout.flag("slow").write_text("1")
    both = [checkout.popen("check"), checkout.popen("check")]
    for process in both:
        process.communicate(timeout=60)
        assert process.returncode == 0
    assert sorted(checkout.uses()) == ["pip", "run check", "run check"]


class Pythons:
    """The interpreters of a system: its own, others in the same folder, and others in PATH. All are copies of
    the stand-in."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        self.system, self.path = (checkout.folder.parent / name for name in ("system", "path"))
        for folder in (self.system, self.path):
            folder.mkdir()

    def have(self, folder: Path, *versions: str) -> None:
        for version in versions:
            shutil.copy(self.checkout.python, folder / f"python{version}")

    def owns(self, version: str) -> None:
        self.have(self.system, version)
        (self.system / "python3").symlink_to(f"python{version}")

    def start(self, **variables: str) -> subprocess.CompletedProcess[str]:
        # PATH has neither this machine's Python nor apt or dnf, so the launcher cannot install packages even
        # as root.
        for name in TOOLS:
            found = shutil.which(name)
            assert found
            if not (self.path / name).exists():
                (self.path / name).symlink_to(found)
        system = {"STALLTOP_SYSTEM_PYTHON": str(self.system / "python3"), "PATH": str(self.path)}
        return subprocess.run(
            [str(self.checkout.folder / "stalltop"), "check"],
            env={"HOME": str(self.path), **system, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def used(self) -> str:
        """The interpreter that made the environment, as the stamp file in the environment says."""
        stamp = (self.checkout.folder / ".venv/run.ready").read_text()
        return str(Path(stamp.split()[0]).relative_to(self.checkout.folder.parent))


@pytest.fixture
def pythons(checkout: Checkout) -> Pythons:
    return Pythons(checkout)


def test_the_systems_own_python_comes_first_and_sees_the_systems_packages(pythons: Pythons) -> None:
    pythons.owns("3.11")
    pythons.have(pythons.system, "3.13")
    pythons.have(pythons.path, "3.12")
    assert pythons.start().returncode == 0
    assert pythons.used == "system/python3.11"
    assert "--system-site-packages" in pythons.checkout.flag("venv").read_text()


@pytest.mark.parametrize("own", ["3.8", "3.9", "3.10"])
def test_beside_an_old_system_python_the_newest_is_used_without_system_packages(
    pythons: Pythons, own: str
) -> None:
    pythons.owns(own)
    pythons.have(pythons.system, "3.11", "3.12")
    pythons.have(pythons.path, "3.13")
    assert pythons.start().returncode == 0
    assert pythons.used == "system/python3.12"
    assert "--system-site-packages" not in pythons.checkout.flag("venv").read_text()
    pythons.start()  # the second start finds the same Python and makes no new environment
    assert pythons.checkout.uses() == ["pip", "run check", "run check"]


def test_a_python_in_path_is_used_if_none_beside_the_system_s_is_new_enough(pythons: Pythons) -> None:
    pythons.owns("3.9")
    pythons.have(pythons.path, "3.10", "3.11", "3.12")
    assert pythons.start().returncode == 0
    assert pythons.used == "path/python3.12"


def test_a_python_in_path_that_does_not_run_is_ignored(pythons: Pythons) -> None:
    pythons.owns("3.9")
    pythons.have(pythons.path, "3.11")
    # pyenv leaves such a shim in PATH for every version that any of its users has.
    (pythons.path / "shim").write_text("#!/bin/sh\nexit 127\n")
    (pythons.path / "shim").chmod(0o755)
    (pythons.path / "python3.13").symlink_to("shim")
    assert pythons.start().returncode == 0
    assert pythons.used == "path/python3.11"


def test_stalltop_python_has_priority_over_all_others(pythons: Pythons) -> None:
    pythons.owns("3.11")
    pythons.have(pythons.path, "3.12")
    named = pythons.path / "python3.12"
    assert pythons.start(STALLTOP_PYTHON=str(named)).returncode == 0
    assert pythons.used == "path/python3.12"


@pytest.mark.parametrize(
    ("manager", "said"),
    [
        ("apt-get", "sudo apt-get install python3.11 python3.11-venv"),
        ("dnf", "sudo dnf install python3.12"),
        ("", "not installed: python3.12"),
    ],
)
def test_with_old_pythons_only_the_launcher_says_what_to_install(
    pythons: Pythons, manager: str, said: str
) -> None:
    pythons.owns("3.10")
    if manager:
        (pythons.path / manager).write_text("#!/bin/sh\nexit 1\n")
        (pythons.path / manager).chmod(0o755)
    (pythons.path / "id").write_text("#!/bin/sh\necho 1000\n")
    (pythons.path / "id").chmod(0o755)
    done = pythons.start()
    assert done.returncode == 3
    assert said in done.stderr
    assert "needs Python 3.11 or newer" in done.stderr
    assert f"STALLTOP_PYTHON=/path/to/python3 {pythons.checkout.folder}/stalltop" in done.stderr
    assert pythons.checkout.uses() == []


# Stand-ins for programs of a system on which apt was interrupted: installing fails until dpkg has configured
# everything.
PACKAGES = {
    "id": "echo 0",
    "dpkg": 'echo "dpkg $*" >>LOG; touch LOG.ended',
    "apt-get": 'echo "a line of apt"; echo "apt-get $1" >>LOG; [ "$1" = update ] || [ -e LOG.ended ]',
}


def test_an_interrupted_installation_of_packages_is_completed_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for name, line in PACKAGES.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line.replace('LOG', str(log))}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", f"root=/nonexistent; . {ROOT}/scripts/environment.sh; install_packages python3-bpfcc"],
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "XDG_DATA_HOME": str(tmp_path / "data"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    logged = list((tmp_path / "data").rglob("*.log"))
    assert done.stderr == f"stalltop: installing python3-bpfcc (log: {logged[0]})\n"
    assert "a line of apt" in logged[0].read_text()
    assert log.read_text().splitlines() == [
        "apt-get install",
        "dpkg --configure -a",
        "apt-get update",
        "apt-get install",
    ]


def test_the_launcher_runs_through_a_link_and_from_another_folder(checkout: Checkout, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "stalltop"
    link.parent.mkdir()
    link.symlink_to(checkout.folder / "stalltop")
    environment = {**os.environ, "STALLTOP_PYTHON": str(checkout.python)}
    subprocess.run([link, "check"], cwd="/", env=environment, check=True, timeout=60, capture_output=True)
    assert checkout.uses() == ["pip", "run check"]


def as_nobody() -> None:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
class TestWithoutRoot:
    @pytest.fixture
    def theirs(self, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
        # The user nobody must be able to enter this folder: the checkout belongs to root, the folder with the
        # data and the log to nobody.
        folder = tmp_path_factory.mktemp("theirs")
        for parent in (folder, *folder.parents):
            if parent.stat().st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
                parent.chmod(parent.stat().st_mode | 0o755)
        checkout = Checkout(folder)
        (folder / "data").mkdir()
        for path in (folder, folder / "data"):
            os.chown(path, 65534, 65534)
        return checkout

    def test_the_environment_goes_to_the_users_own_folder(self, theirs: Checkout) -> None:
        process = theirs.popen("check", before=as_nobody)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert theirs.uses() == ["pip", "run check"]
        assert not (theirs.folder / ".venv").exists()

    def test_missing_packages_are_named_with_a_remedy(self, theirs: Checkout) -> None:
        theirs.flag("no-venv").touch()
        process = theirs.popen("check", before=as_nobody)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 3
        assert "sudo apt-get install python3-venv" in err
        assert theirs.uses() == []
