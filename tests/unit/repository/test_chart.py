"""Tests the Helm chart: its objects, the commands in them, and that every value is documented."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from stalltop.cli import main as cli
from tests.unit.repository.chart import CHART, rendered, template
from tests.unit.repository.checkout import ROOT

EVERYTHING: dict[str, Any] = {
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "otlpUrl": "http://otel-collector:4318",
    "image": {"repository": "registry.example.com/stalltop", "tag": "2.0"},
}
LEAST: dict[str, Any] = {"metrics": {"enabled": False}, "runtimeClassName": ""}
MONITORED: dict[str, Any] = {"serviceMonitor": {"enabled": True}}


def containers(**changes: Any) -> dict[str, dict[str, Any]]:
    (daemon,) = (one for one in rendered(**changes) if one["kind"] == "DaemonSet")
    return {one["name"]: one for one in daemon["spec"]["template"]["spec"]["containers"]}


@pytest.mark.parametrize(
    ("changes", "kinds", "names"),
    [
        ({}, ["DaemonSet", "Service"], {"stalltop", "metrics"}),
        (EVERYTHING, ["DaemonSet", "Service", "ServiceMonitor"], {"stalltop", "metrics", "otlp"}),
        (LEAST, ["DaemonSet"], {"stalltop"}),
        (MONITORED, ["DaemonSet", "Service", "ServiceMonitor"], {"stalltop", "metrics"}),
    ],
)
def test_values_choose_objects_and_containers(
    changes: dict[str, Any], kinds: list[str], names: set[str]
) -> None:
    objects = rendered(**changes)
    assert [one["kind"] for one in objects] == kinds
    assert {one["metadata"]["namespace"] for one in objects} == {"monitoring"}
    assert set(containers(**changes)) == names


@pytest.mark.parametrize("changes", [{}, EVERYTHING, LEAST])
def test_every_container_runs_a_valid_command_and_mounts_what_exists(changes: dict[str, Any]) -> None:
    (daemon,) = (one for one in rendered(**changes) if one["kind"] == "DaemonSet")
    pod = daemon["spec"]["template"]["spec"]
    volumes = {one["name"] for one in pod["volumes"]}
    for container in pod["containers"]:
        options = cli.parsed([str(one) for one in container["args"]])
        assert options.command in ("record", "metrics")
        assert {one["name"] for one in container["volumeMounts"]} <= volumes
        assert {"socket", "cgroups"} <= {one["name"] for one in container["volumeMounts"]}
    assert pod["hostPID"] is True
    assert pod["automountServiceAccountToken"] is False


def test_the_image_has_the_version_of_the_chart_unless_told_otherwise() -> None:
    assert containers()["stalltop"]["image"] == f"stalltop:{cli.program_version()}"
    assert containers(**EVERYTHING)["metrics"]["image"] == "registry.example.com/stalltop:2.0"


def test_the_monitor_finds_the_service_which_finds_the_pods() -> None:
    daemon, service, monitor = rendered(**EVERYTHING)
    labels = daemon["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    (port,) = service["spec"]["ports"]
    assert port["name"] == monitor["spec"]["endpoints"][0]["port"]
    assert port["targetPort"] in {one["name"] for one in containers()["metrics"]["ports"]}


def test_services_of_the_compose_file_run_valid_commands_on_the_host() -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    assert set(services) == {"record", "metrics"}
    for name, service in services.items():
        assert cli.parsed([str(one) for one in service["command"]]).command == name
        assert (service["privileged"], service["pid"], service["cgroup"]) == (True, "host", "host")
        assert "/run/stalltop:/run/stalltop" in service["volumes"]


def test_there_is_no_rbac() -> None:
    kinds = {one["kind"] for one in rendered(**EVERYTHING)}
    assert not kinds & {"ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}


def test_every_value_is_used_and_documented() -> None:
    used = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    lines = (CHART / "values.yaml").read_text().splitlines()
    tops = [line.split(":")[0] for line in lines if re.match(r"\w", line)]
    for name in tops:
        assert f".Values.{name}" in used
    assert sum("#" in line for line in lines) > len(tops)


def test_templates_stay_as_simple_as_the_renderer() -> None:
    for text in ("{{ range .Values.x }}", '{{ include "a" . }}', "{{.Values.x}}", "{{ if .Values.x }}"):
        with pytest.raises((ValueError, KeyError)):
            template(text, {"Values": {"x": True}})
