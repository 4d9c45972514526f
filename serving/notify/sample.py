"""A made-up problem, to test receivers."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

from stalltop.model.chain import Chain, Fix, Link
from stalltop.model.evidence import HOST_LAYER
from stalltop.model.telling import Tellings
from stalltop.model.tenant import Tenant
from stalltop.model.text.clean import clean
from stalltop.model.window import Rows, Window
from stalltop.serving.notify.alerts import alerts_of
from stalltop.serving.notify.ledger import DueMessage, ToldAlert
from stalltop.serving.notify.wording import WordedMessage, worded


def sample_window(now: float) -> Window:
    """Returns a window of this host that ends at the Unix time ``now``, with one made-up problem."""
    victim, other = Tenant("test:train", "train (a test)"), Tenant("test:encode", "encode (a test)")
    lost = 516e6
    chain = Chain(
        id="cpu_contention:test",
        cause="cpu_contention",
        title="CPU contention",
        severity="high",
        summary="A test of alerts: there is no problem.",
        tenant=victim.id,
        pid=0,
        process="",
        layer=HOST_LAYER,
        operation="",
        lost_ms_per_s=lost / 1e6,
        confidence=0.9,
        links=(
            Link("effect", "a test: train is slow", 1.0, lost, victim.id, depth=0),
            Link("culprit", "a test: encode takes its CPU", 1.0, lost, other.id, process="encode"),
        ),
        fixes=(Fix("Nothing needs to be done: this is a test.", "true", look=True),),
        since=now - 60.0,
        seen=now,
    )
    host = clean(platform.node()) or "localhost"
    tenants = {one.id: one for one in (victim, other)}
    return Window(now - 1.0, 1.0, host, Rows.empty(), tenants, chains=(chain,))


def sampled(window: Window, tellings: Tellings, recording: Path) -> tuple[WordedMessage, WordedMessage]:
    """Returns the messages about the problem of ``sample_window``: that it begins and that it ends."""
    (alert,) = alerts_of(window)
    opened = worded(
        DueMessage(alert.id, "opened", alert, None),
        window.host,
        tellings,
        recording if recording.exists() else None,
    )
    told = ToldAlert(alert.severity, alert.lost_ms_per_s, alert.since, window.end, opened.sentence)
    closed = worded(DueMessage(alert.id, "closed", None, told), window.host, tellings, None)
    return replace(opened, test=True), replace(closed, test=True)
