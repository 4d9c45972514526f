"""Tests what is installed elsewhere: the objects of the Helm chart against the schemas of Kubernetes, and the
Debian package in a clean tree, which is also the root file system of the image."""

from __future__ import annotations

import subprocess
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.unit.repository.chart import rendered
from tests.unit.repository.checkout import ROOT

VERSIONS = ("1.25", "1.36")
"""The oldest that the chart accepts, and a recent one."""
EVERYTHING: dict[str, Any] = {"serviceMonitor": {"enabled": True}, "otlpUrl": "http://otel-collector:4318"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("changes", [{}, EVERYTHING, {"metrics": {"enabled": False}}])
def test_objects_of_the_chart_match_the_schemas_of_kubernetes(changes: dict[str, Any], version: str) -> None:
    # ServiceMonitor is not an object of Kubernetes itself.
    checked = [one for one in rendered(**changes) if one["kind"] != "ServiceMonitor"]
    assert checked
    for one in checked:
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_objects_of_the_daemonset_file_match_the_schemas_of_kubernetes(version: str) -> None:
    for one in yaml.safe_load_all((ROOT / "deploy" / "stalltop-daemonset.yaml").read_text()):
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.timeout(3600)
def test_the_debian_package_installs_traces_and_leaves_nothing() -> None:
    done = subprocess.run([ROOT / "scripts" / "deb-test"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok: traced window" in done.stdout
