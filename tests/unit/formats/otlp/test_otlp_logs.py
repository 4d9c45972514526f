"""Tests the OTLP log records of problems, read by the official classes of the protocol."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1 import logs_pb2

from stalltop.formats.otlp.logs import EVENT, ProblemLog
from stalltop.model.chain import Chain
from tests.unit.serving.notify.problems import NOW, problem, with_problems
from tests.windows.hostile import hostile_window


def values(pairs: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in pairs}


def records(request: bytes) -> list[tuple[dict[str, Any], dict[str, Any], Any]]:
    """Returns resource, attributes and record of each log record."""
    return [
        (values(resource.resource.attributes), values(record.attributes), record)
        for resource in ExportLogsServiceRequest.FromString(request).resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


def changes(log: ProblemLog, *chains: Chain) -> list[tuple[str, str]]:
    return [
        (one["stalltop.problem.id"], one["stalltop.problem.change"])
        for _, one, _ in records(log.request(with_problems(*chains)))
    ]


def test_a_record_says_who_why_and_what_to_do() -> None:
    ((resource, attributes, record),) = records(
        ProblemLog("1", {}).request(with_problems(problem(tenant="cri:bb")))
    )
    assert resource["k8s.namespace.name"] == "prod"
    assert resource["k8s.pod.name"] == "llm-0"
    assert resource["host.name"] == "gpu7"
    assert record.event_name == EVENT
    assert (record.severity_text, record.severity_number) == ("high", logs_pb2.SEVERITY_NUMBER_ERROR)
    assert record.time_unix_nano == round(NOW * 1e9)
    assert attributes["stalltop.problem.cause"] == "cpu_contention"
    assert attributes["stalltop.problem.culprit"] == "itself"
    assert attributes["stalltop.problem.lost"] == 0.516
    assert attributes["stalltop.problem.fix"] == "taskset -cp 3 21741"
    assert attributes["process.pid"] == 100
    said = record.body.string_value
    assert said.startswith("HIGH      train waits for a CPU")
    assert "has its CPU (encode 21741)" in said
    assert "$ taskset -cp 3 21741" in said


def test_only_changes_are_written() -> None:
    log = ProblemLog("1", {})
    assert changes(log) == []
    assert changes(log, problem()) == [("cpu_contention:docker:aa", "opened")]
    assert changes(log, problem(lost=900.0)) == []
    assert changes(log, problem(severity="critical")) == [("cpu_contention:docker:aa", "changed")]
    assert changes(log, problem(open_=False)) == [("cpu_contention:docker:aa", "closed")]
    assert changes(log, problem(open_=False)) == []
    assert changes(log, problem(severity="info")) == []


def test_the_end_is_information() -> None:
    log = ProblemLog("1", {})
    log.request(with_problems(problem()))
    ((_, _, record),) = records(log.request(with_problems()))
    assert record.severity_number == logs_pb2.SEVERITY_NUMBER_INFO
    assert record.body.string_value == "ended: train waits for a CPU"


def test_names_that_users_choose_bring_no_control_characters() -> None:
    made = records(ProblemLog("1", {}).request(hostile_window()))
    for resource, attributes, record in made:
        for text in (*resource.values(), *attributes.values(), *record.body.string_value.split("\n")):
            assert not isinstance(text, str) or text.isprintable()
    assert made
