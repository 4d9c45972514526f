"""Problems as OTLP log records: one when a problem begins, when its severity changes, and when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from stalltop.formats.metrics.labels import WindowLabels
from stalltop.formats.otlp.resources import host_resource, key_values, tenant_resource
from stalltop.formats.text.chains import explained, name_of
from stalltop.model.chain import Chain, Severity
from stalltop.model.text.glyphs import UNICODE
from stalltop.model.text.style import Style
from stalltop.model.window import Window

Change = Literal["opened", "changed", "closed"]

EVENT: Final = "stalltop.problem"
_STYLE: Final = Style(100, colour=False, glyphs=UNICODE)
_NUMBERS: Final[Mapping[Severity, int]] = {
    "critical": logs_pb2.SEVERITY_NUMBER_ERROR2,
    "high": logs_pb2.SEVERITY_NUMBER_ERROR,
    "medium": logs_pb2.SEVERITY_NUMBER_WARN,
    "low": logs_pb2.SEVERITY_NUMBER_INFO2,
    "info": logs_pb2.SEVERITY_NUMBER_INFO,
}


class ProblemLog:
    """Makes requests from windows in order. The problems of the first window are written as opened."""

    def __init__(self, version: str, given: Mapping[str, str]) -> None:
        """``given``: further attributes of the host."""
        self._version = version
        self._given = given
        self._open: dict[str, Chain] = {}

    def request(self, window: Window) -> bytes:
        """Returns the changes since the window before; b'' if there are none. Problems of severity ``info``
        are facts, not faults, and are left out."""
        now = {one.identity: one for one in window.chains if one.open and one.severity != "info"}
        changes: list[tuple[Chain, Change]] = []
        for key, chain in now.items():
            before = self._open.get(key)
            if before is None:
                changes.append((chain, "opened"))
            elif before.severity != chain.severity:
                changes.append((chain, "changed"))
        changes += [(chain, "closed") for key, chain in self._open.items() if key not in now]
        self._open = now
        if not changes:
            return b""
        made, labels = ExportLogsServiceRequest(), WindowLabels(window)
        host = host_resource(window.host, self._version, self._given)
        for chain, change in changes:
            tenant = window.tenants.get(chain.tenant)
            own = {} if tenant is None else tenant_resource(tenant)
            resource = made.resource_logs.add(resource=Resource(attributes=key_values({**host, **own})))
            scope = resource.scope_logs.add(scope=InstrumentationScope(name="stalltop"))
            scope.log_records.append(_record(chain, change, window, labels))
        return bytes(made.SerializeToString())


def _record(chain: Chain, change: Change, window: Window, labels: WindowLabels) -> LogRecord:
    now = round(window.end * 1e9)
    remedy = chain.remedy
    attributes: dict[str, str | int | float] = {
        "stalltop.problem.change": change,
        "stalltop.problem.id": chain.identity,
        "stalltop.problem.cause": chain.cause,
        "stalltop.problem.severity": chain.severity,
        "stalltop.problem.victim": name_of(chain.tenant, window),
        "stalltop.problem.culprit": labels.problem(chain).by.culprit,
        "stalltop.problem.confidence": chain.confidence,
        "stalltop.problem.lost": chain.lost_ms_per_s / 1e3,
        "stalltop.problem.since": chain.since,
        "stalltop.problem.fix": "" if remedy is None else remedy.command,
        "process.pid": chain.pid,
        "process.executable.name": chain.process,
    }
    closed = change == "closed"
    body = f"ended: {chain.summary}" if closed else "\n".join(explained(chain, window, _STYLE))
    return LogRecord(
        time_unix_nano=now,
        observed_time_unix_nano=now,
        severity_number=logs_pb2.SEVERITY_NUMBER_INFO if closed else _NUMBERS[chain.severity],  # type: ignore[arg-type]
        severity_text=chain.severity,
        event_name=EVENT,
        body=AnyValue(string_value=body),
        attributes=key_values({name: value for name, value in attributes.items() if value not in ("", 0)}),
    )
