"""The wire format of a host's summary (``record_format``)."""

from __future__ import annotations

from typing import Final

from stalltop.fleet.messages.record_format import OtherVersionError, RecordFormat
from stalltop.model.fleet.fleet_state import FleetState
from stalltop.model.fleet.host_summary import HostAddress, HostSummary

_FORMAT: Final = RecordFormat(HostSummary, "summary", version=1, most_bytes=64 << 10, most_items=256)
encoded = _FORMAT.encoded


def decoded(content: bytes) -> HostSummary:
    """Returns the summary in a message. Raises OtherVersionError, and ValueError if it is no summary."""
    summary = _FORMAT.decoded(content)
    if not summary.seconds > 0:
        raise ValueError("seconds is not above 0")
    return summary


def taken(state: FleetState, address: HostAddress, content: bytes, at: float) -> HostSummary | None:
    """Gives ``state`` the summary in a message that came at ``at`` (Unix time, s), and returns it; None if it
    cannot be read, which ``state`` is told."""
    try:
        summary = decoded(content)
        state.take(address, summary, at)
    except OtherVersionError as error:
        state.refuse(address, str(error), at)
    except ValueError as error:
        state.refuse(address, f"sends no summary: {error}", at)
    else:
        return summary
    return None
