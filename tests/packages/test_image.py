"""Tests the root file system of the image, which is built here without a container runtime: what
``docker run --privileged --pid=host`` would run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kernel.harness import Workplace
from tests.packages.trees import Tree
from tests.unit.repository.checkout import ROOT

pytestmark = pytest.mark.timeout(3600)
CONTAINER = "ab" * 32


def test_the_image_traces_a_tenant_of_the_host(image: Path, workplace: Workplace) -> None:
    tree = Tree(image, {})
    caller = workplace.caller(cgroup=workplace.cgroup("docker", CONTAINER), load="cudaMalloc")
    caller.do("start 1 0 cudaMalloc:1:4096 cudaFree:1 ~1000")
    window = json.loads(tree.output("stalltop", "once", "--own", "--seconds", "3", "--json"))
    assert not window["probes"]["tracing"], window["probes"]
    rows = {one["operation"]: one for one in window["operations"] if one["tenant"] == f"docker:{CONTAINER}"}
    assert rows["cudaMalloc"]["pid"] == caller.pid
    assert rows["cudaMalloc"]["calls"] > 100


def test_the_containerfile_and_the_script_install_the_same_packages(image: Path) -> None:
    wanted = [
        line
        for line in (ROOT / "deploy" / "image-packages").read_text().splitlines()
        if line[:1] not in ("", "#")
    ]
    assert "/tmp/image-packages" in (ROOT / "deploy" / "Containerfile").read_text()
    installed = Tree(image, {}).output("dpkg-query", "-W", "-f", "${Package}\n").split()
    assert {*wanted, "stalltop", "python3-bpfcc"} <= set(installed)
    # The list of packages that apt keeps is 60 MB.
    assert not list((image / "var/lib/apt/lists").glob("*Packages*"))
