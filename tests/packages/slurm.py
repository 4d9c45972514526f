"""Runs a Slurm of one node in a Debian tree, with the prolog and epilog that stalltop's package installs."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from stalltop.demo.build import Built
from tests.kernel.harness import wait_until
from tests.packages.trees import Tree, TreeProcess, copied_tree

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")
USER = "alice"
GPUS = 2
STAND_IN = "/opt/stand-in"
"""Folder in the tree with the stand-in CUDA libraries and the program that calls them."""

_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser=root
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
ReturnToService=2
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
GresTypes=gpu
Prolog=/usr/share/stalltop/slurm/prolog
Epilog=/usr/share/stalltop/slurm/epilog
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=gpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def slurm_tree(image: Path, built: Built) -> Tree:
    """Makes a tree with stalltop, Slurm, a user, and the stand-in CUDA libraries."""
    path = copied_tree(image, "bookworm.slurm", *PACKAGES)
    # The tree stands for the host: its users and its /run.
    tree = Tree(path, {"STALLTOP_HOST_ROOT": "/", "STALLTOP_CACHE_DIR": "/var/cache/stalltop"})
    tree.output("useradd", "--create-home", USER)
    shutil.copytree(built.folder, path / STAND_IN.lstrip("/"))
    for folder in ("etc/slurm", "run/munge", "var/spool/slurmctld", "var/spool/slurmd", "gpus"):
        (path / folder).mkdir(parents=True, exist_ok=True)
    null = os.makedev(1, 3)
    for number in range(GPUS):  # Slurm gives out device files, whatever they are.
        os.mknod(path / f"gpus/gpu{number}", stat.S_IFCHR | 0o666, null)
    host = socket.gethostname().partition(".")[0]
    controller, daemon = _free_port(), _free_port()
    (path / "etc/slurm/slurm.conf").write_text(
        _CONFIGURATION.format(host=host, controller=controller, daemon=daemon, cpus=os.cpu_count(), gpus=GPUS)
    )
    (path / "etc/slurm/gres.conf").write_text(f"NodeName={host} Name=gpu File=/gpus/gpu[0-{GPUS - 1}]\n")
    # Without systemd, slurmd makes its cgroups itself.
    (path / "etc/slurm/cgroup.conf").write_text("CgroupMountpoint=/sys/fs/cgroup\nIgnoreSystemd=yes\n")
    for folder in ("run/munge", "etc/munge", "var/log/munge", "var/lib/munge"):
        tree.output("chown", "-R", "munge:munge", f"/{folder}")
    return tree


@contextlib.contextmanager
def slurm(tree: Tree) -> Iterator[None]:
    """Runs Slurm's daemons, until its node is idle and after that until the ``with`` block is left."""
    running: list[TreeProcess] = []
    try:
        running.append(tree.start("munged", "--foreground", user="munge"))
        wait_until((tree.path / "run/munge/munge.socket.2").exists, what="munged")
        running.append(tree.start("slurmctld", "-D"))
        running.append(tree.start("slurmd", "-D"))

        def idle() -> bool:
            gone = [one.said() for one in running if one.process.poll() is not None]
            assert not gone, gone
            return tree.output("sh", "-c", "sinfo --noheader --format %T || true").strip() == "idle"

        wait_until(idle, step=0.5, what="an idle node")
        yield
    finally:
        with contextlib.suppress(AssertionError):
            tree.output("scancel", "--partition=gpu")
            wait_until(lambda: not jobs(tree), step=0.5, what="the end of all jobs")
        for one in reversed(running):
            one.stop()


def jobs(tree: Tree) -> list[str]:
    """Returns the numbers of all jobs that have not ended."""
    return tree.output("squeue", "--noheader", "--format", "%i").split()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
