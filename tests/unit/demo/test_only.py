"""Tests that a demo leaves out other programs of the host, but keeps the charges for time that they took from
its tenants."""

from __future__ import annotations

from dataclasses import replace

from stalltop.demo.only import only
from stalltop.demo.simulated.host import EVERYTHING
from stalltop.demo.simulated.windows import SimulatedSource
from stalltop.model.window import Window


def window() -> Window:
    """Returns a window in which notebook-anna takes the CPUs of chat-server."""
    times = iter([0.0, 21.0, 22.0])
    source = SimulatedSource(1, 4, 8, plot=EVERYTHING, clock=lambda: next(times))
    source.read()
    return source.read()


def test_only_the_wanted_tenants_have_calls() -> None:
    whole = window()
    kept = only(whole, lambda tenant: tenant.name == "chat-server")
    (chat,) = (tenant.id for tenant in whole.tenants.values() if tenant.name == "chat-server")
    assert {key.tenant for key in kept.rows.keys} == {chat}
    assert 0 < len(kept.rows) < len(whole.rows)
    assert len(kept.rows.histograms.totals()) == len(kept.rows)
    assert {call.tenant for call in kept.open_calls} <= {chat}
    assert {call.tenant for call in kept.calls.kept} <= {chat}
    assert {count.tenant for count in kept.kernels} == {chat}
    assert kept.coverage.missing == ()
    assert kept.coverage.processes == 1


def test_a_culprit_that_is_not_wanted_keeps_its_name() -> None:
    kept = only(window(), lambda tenant: tenant.name == "chat-server")
    culprits = {kept.tenants[charge.culprit_tenant].name for charge in kept.evidence.charges}
    assert culprits == {"notebook-anna"}


def test_a_window_with_wanted_tenants_only_stays_as_it_is() -> None:
    whole = window()
    assert only(whole, lambda tenant: True).rows is whole.rows
    none = only(replace(whole, open_calls=()), lambda tenant: False)
    assert len(none.rows) == 0
