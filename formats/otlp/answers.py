"""What receivers say in their answers."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from stalltop.model.text.clean import clean


def refused(signal: str, answer: bytes) -> str:
    """Returns what the receiver did not take of a request that it accepted otherwise; '' if it took all.
    ``signal``: ``metrics`` or ``logs``."""
    try:
        if signal == "metrics":
            part = ExportMetricsServiceResponse.FromString(answer).partial_success
            number, what = part.rejected_data_points, "points"
        else:
            part = ExportLogsServiceResponse.FromString(answer).partial_success
            number, what = part.rejected_log_records, "records"
    except DecodeError:
        return ""
    return f"{number} {what} refused: {clean(part.error_message.encode())[:200]}" if number else ""
