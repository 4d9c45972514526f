"""Tests the sample tenants with the windows of the tracer of the host."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from stalltop.demo.source import TracedTenants
from stalltop.demo.tenants import DemoTenants
from stalltop.model.tenant import Tenant
from tests.tui.sources import MadeSource, numbered


def test_problems_of_the_tracer_are_left_out_because_they_are_those_of_strangers() -> None:
    whole = numbered(0)
    (mine,) = (tenant for tenant in whole.tenants.values() if tenant.id == whole.rows.keys[0].tenant)
    assert whole.chains

    def runs(tenant: Tenant) -> bool:
        return tenant.id == mine.id

    tenants = SimpleNamespace(
        names={mine.container_id: "my-tenant"},
        runs=runs,
        join=lambda: None,
        close=lambda: None,
        scenario=SimpleNamespace(timetable=()),
    )
    for everyone in (True, False):
        traced = MadeSource(lambda number: replace(numbered(number), normals={whole.rows.keys[0]: (1, 2)}))
        source = TracedTenants(cast(DemoTenants, tenants), everyone=everyone, traced=traced)
        window = source.read()
        assert (window.chains, window.normals) == ((), {})
        assert window.tenants[mine.id].name == "my-tenant"
        assert ({key.tenant for key in window.rows.keys} == {mine.id}) is not everyone
        source.close()
        assert traced.closed.is_set()
