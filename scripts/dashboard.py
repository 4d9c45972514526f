"""Writes deploy/grafana-dashboard.json, for Grafana 9 or newer: ``python scripts/dashboard.py``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
DASHBOARD: Final = ROOT / "deploy" / "grafana-dashboard.json"
_HOST: Final = 'instance=~"$host"'
_TENANT: Final = f'{_HOST}, tenant=~"$tenant"'
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


class DashboardPanel(NamedTuple):
    """A panel: one query over time, or a table of its newest values."""

    title: str
    query: str
    legend: str
    unit: str
    """Unit in Grafana's terms."""
    wide: bool = False
    table: bool = False
    stacked: bool = False


PANELS: Final = (
    DashboardPanel(
        "Open problems: time lost per second",
        f"sum by (instance, cause, severity, tenant, culprit) (stalltop_problem{{{_TENANT}}})",
        "{{tenant}} ← {{culprit}} ({{cause}})",
        "s",
        wide=True,
        table=True,
    ),
    DashboardPanel(
        "Time lost by problems",
        f"sum by (tenant, culprit, cause) (stalltop_problem{{{_TENANT}}})",
        "{{tenant}} ← {{culprit}} ({{cause}})",
        "s",
        wide=True,
    ),
    DashboardPanel(
        "p99 of calls",
        "histogram_quantile(0.99, sum by (tenant, operation, le) (rate(stalltop_call_duration_seconds_bucket"
        f"{{{_TENANT}}}[$__rate_interval])))",
        "{{tenant}} {{operation}}",
        "s",
    ),
    DashboardPanel(
        "Calls",
        f"sum by (tenant) (rate(stalltop_calls_total{{{_TENANT}}}[$__rate_interval]))",
        "{{tenant}}",
        "ops",
    ),
    DashboardPanel(
        "Errors",
        f"sum by (tenant, operation) (rate(stalltop_errors_total{{{_TENANT}}}[$__rate_interval])) > 0",
        "{{tenant}} {{operation}}",
        "ops",
    ),
    DashboardPanel(
        "Where the time goes",
        f"sum by (part) (rate(stalltop_time_seconds_total{{{_TENANT}}}[$__rate_interval]))",
        "{{part}}",
        "s",
        stacked=True,
    ),
    DashboardPanel(
        "Who takes whose CPU",
        "topk(10, sum by (tenant, culprit) (rate(stalltop_lost_seconds_total"
        f'{{{_TENANT}, part="runqueue", culprit!="itself"}}[$__rate_interval])))',
        "{{tenant}} ← {{culprit}}",
        "s",
    ),
    DashboardPanel(
        "Activity of tenants on GPUs",
        "sum by (instance, gpu, tenant) (rate(stalltop_device_active_seconds_total"
        f"{{{_TENANT}}}[$__rate_interval]))",
        "{{instance}} GPU {{gpu}} {{tenant}}",
        "percentunit",
    ),
    DashboardPanel(
        "GPU utilization",
        f"stalltop_device_utilization_ratio{{{_HOST}}}",
        "{{instance}} GPU {{gpu}}",
        "percentunit",
    ),
    DashboardPanel(
        "GPU memory",
        f"stalltop_device_memory_used_bytes{{{_HOST}}}",
        "{{instance}} GPU {{gpu}} {{GPU_I_ID}}",
        "bytes",
    ),
    DashboardPanel(
        "GPU power", f"stalltop_device_power_watts{{{_HOST}}}", "{{instance}} GPU {{gpu}}", "watt"
    ),
    DashboardPanel(
        "Own cost: CPU time of the probes",
        f"sum by (instance) (rate(stalltop_probe_cpu_seconds_total{{{_HOST}}}[$__rate_interval]))",
        "{{instance}}",
        "percentunit",
    ),
    DashboardPanel(
        "Not counted",
        f"sum by (instance, reason) (rate(stalltop_missed_total{{{_HOST}}}[$__rate_interval])) > 0",
        "{{instance}} {{reason}}",
        "ops",
    ),
    DashboardPanel(
        "Age of the newest data",
        f"time() - stalltop_window_end_timestamp_seconds{{{_HOST}}}",
        "{{instance}}",
        "s",
    ),
)


def _variable(name: str, label: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: DashboardPanel, x: int, y: int) -> dict[str, Any]:
    target = {
        "refId": "A",
        "datasource": _SOURCE,
        "expr": panel.query,
        "legendFormat": panel.legend,
        **({"instant": True, "format": "table"} if panel.table else {"range": True}),
    }
    stacking = {"custom": {"stacking": {"mode": "normal"}, "fillOpacity": 60}} if panel.stacked else {}
    hidden = {"Time": True, "job": True}
    return {
        "id": number,
        "title": panel.title,
        "type": "table" if panel.table else "timeseries",
        "datasource": _SOURCE,
        "gridPos": {"x": x, "y": y, "w": 24 if panel.wide else 12, "h": 8},
        "targets": [target],
        "fieldConfig": {"defaults": {"unit": panel.unit, **stacking}, "overrides": []},
        "options": {},
        **(
            {"transformations": [{"id": "organize", "options": {"excludeByName": hidden}}]}
            if panel.table
            else {}
        ),
    }


def dashboard() -> dict[str, Any]:
    """Returns the dashboard as Grafana's JSON model."""
    placed, x, y = [], 0, 0
    for number, panel in enumerate(PANELS, start=1):
        if panel.wide and x:
            x, y = 0, y + 8
        placed.append(_panel(number, panel, x, y))
        x = 0 if panel.wide or x else 12
        y += 0 if x else 8
    source = {"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}
    variables = [
        source,
        _variable("host", "Host", "label_values(stalltop_build_info, instance)"),
        _variable("tenant", "Tenant", 'label_values(stalltop_calls_total{instance=~"$host"}, tenant)'),
    ]
    return {
        "title": "stalltop: who slows whom on GPUs",
        "uid": "stalltop",
        "tags": ["gpu", "stalltop"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": placed,
    }


def dashboard_text() -> str:
    """Returns the content of the file."""
    return json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n"


def filled(query: str, rate: str = "1m") -> str:
    """Returns a query as Grafana sends it with everything chosen."""
    return query.replace("$__rate_interval", rate).replace("$host", ".*").replace("$tenant", ".*")


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard_text(), encoding="utf-8")
