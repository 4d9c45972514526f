"""Tests what is installed elsewhere: the objects of the Helm chart against the schemas of Kubernetes, the job
of Nomad, and the Debian package in a clean tree."""

from __future__ import annotations

import subprocess
from typing import Any

import hcl2
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


def test_tasks_of_the_nomad_job_are_the_services_of_the_compose_file() -> None:
    def plain(value: Any) -> Any:  # Some versions of the parser keep the quotes of strings.
        if isinstance(value, dict):
            return {name.strip('"'): plain(one) for name, one in value.items()}
        if isinstance(value, list):
            return [plain(one) for one in value]
        return value.strip('"') if isinstance(value, str) else value

    with (ROOT / "deploy" / "stalltop.nomad.hcl").open() as file:
        (job,) = plain(hcl2.load(file))["job"]
    assert job["stalltop"]["type"] == "system"
    (group,) = job["stalltop"]["group"]
    tasks = {name: task for one in group["host"]["task"] for name, task in one.items()}
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    assert set(tasks) == set(services)
    for name, task in tasks.items():
        (config,), service = task["config"], services[name]
        assert config["args"] == [str(one) for one in service["command"]]
        assert config["volumes"] == service["volumes"]
        assert (config["privileged"], config["pid_mode"], config["cgroupns"]) == (True, "host", "host")
        assert config.get("network_mode") == service.get("network_mode")
    (variables,) = tasks["record"]["env"]
    assert variables.items() >= services["record"]["environment"].items()


@pytest.mark.timeout(3600)
def test_the_debian_package_installs_traces_and_leaves_nothing() -> None:
    done = subprocess.run([ROOT / "scripts" / "deb-test"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok: traced window" in done.stdout
