"""Tests that stalltop recognizes a real container, made and run by Podman."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.systems.guest import Guest, ended, need, output, splits_add_up, tenant, told

IMAGE, NAME = "localhost/gpu-program", "llm-finetune"


def _root_files(guest: Guest) -> Path:
    """Make a tar file of a root file system with the demo's caller, its libraries and the C library."""
    root, built = guest.folder / "root", guest.built
    for library in {word for file in built.folder.iterdir() for word in output("ldd", str(file)).split()}:
        if library.startswith("/lib"):
            place = root / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)
    shutil.copytree(built.folder, root / str(built.folder).lstrip("/"))
    output("tar", "-C", str(root), "-cf", str(guest.folder / "root.tar"), ".")
    return guest.folder / "root.tar"


def podman(guest: Guest) -> str:
    """Check that stalltop shows the container with the name and the CPU quota that Podman gave it."""
    # After the last container has ended, Podman leaves its lock file and its slice, so the step removes them.
    guest.later(Path("/dev/shm/libpod_lock").unlink, True)
    output("podman", "import", str(_root_files(guest)), IMAGE)
    guest.later(ended, "systemctl", "stop", "machine.slice")
    guest.later(output, "podman", "system", "prune", "--all", "--force")
    guest.later(ended, "podman", "kill", NAME)
    command = (
        *("podman", "run", "--rm", "--interactive", "--network=none", f"--name={NAME}"),
        *("--label=team=vision", "--cpus=0.2", IMAGE),
    )
    guest.caller(command, name="train.py").start("!20000 cudaLaunchKernel:4 cudaStreamSynchronize", threads=2)
    identity = output("podman", "inspect", "--format", "{{.Id}}", NAME).strip()
    window = told("once", "--no-state", "--json", "--seconds", "10")
    one = tenant(window, NAME)
    need(one["kind"] == "container" and one["runtime"] == "podman", f"the tenant is {one}")
    need(
        one["container_id"] == identity, f"the container id is {one['container_id']}, Podman says {identity}"
    )
    use = next(use for use in window["tenant_use"] if use["tenant"] == one["id"])
    need(use["cpu_quota"] == 0.2 and use["throttled_ns"], f"quota: {use}")
    rows = splits_add_up(window)
    chains = [found["summary"] for found in window["chains"]]
    return f"{NAME} ({identity[:12]}) in {one['cgroup_path']}, {rows} operations; {'; '.join(chains)}"
