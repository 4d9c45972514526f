"""Tests that hosts with another release of stalltop are part of the fleet.

``first_messages.json`` has what the first release with a fleet sent for one window, in base64: its summary,
the window, the change of a problem, and the window merged.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from stalltop.fleet import subjects
from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.local_server import LocalServer
from stalltop.fleet.messages.problem_message import decoded_change
from stalltop.fleet.messages.summary_message import decoded, encoded
from stalltop.fleet.messages.window_message import END, ID, START, decoded_window
from stalltop.fleet.rollup import TIERS, advance, batches
from stalltop.fleet.server_place import Rack
from stalltop.fleet.streams import make_streams
from stalltop.model.fleet.host_summary import HostAddress
from tests.unit.fleet.clients import agent, run, until, watching
from tests.windows.full import full_window

OLD = HostAddress("prod", "r1", "old")
NEW = HostAddress("prod", "r1", "new")


def first_messages() -> dict[str, bytes]:
    text = Path(__file__).with_name("first_messages.json").read_text()
    return {name: base64.b64decode(content) for name, content in json.loads(text).items()}


def test_an_old_host_is_part_of_a_new_fleet(server: LocalServer) -> None:
    access, old = ServerAccess((server.url,)), first_messages()
    window = decoded_window(old["window"])

    async def send(client: Client) -> None:
        await make_streams(client)
        js = client.jetstream()
        await client.publish(subjects.of_host(subjects.SUMMARY, OLD), old["summary"])
        headers = {ID: "old:1", START: repr(window.start), END: repr(window.end)}
        await js.publish(subjects.of_host(subjects.WINDOW, OLD), old["window"], headers=headers)
        await js.publish(subjects.of_host(subjects.PROBLEM, OLD), old["change"])
        await js.publish(subjects.rolled("10s", "prod", "before"), old["merged"])

    run(access, send)
    with agent(access, NEW) as made, watching(access, "prod") as watch:
        made.take(full_window())
        until(lambda: made.sent == 1 and len(watch.view().hosts) == 2)
        view = watch.view()
    assert {host.address.host: host.state for host in view.hosts} == {"old": "live", "new": "live"}
    (problem,) = [one for one in view.problems if one.cause == "cpu_contention"]
    assert {host.host for host in problem.hosts} == {"old", "new"}

    async def roll(client: Client) -> None:
        while await advance(client, TIERS[0], Rack("prod", "r1"), 4e9):
            pass

    run(access, roll)

    async def calls(client: Client) -> int:
        found = await batches(client, TIERS[0], cluster="prod")
        return sum(int(one.rows.calls.sum()) for batch in found for one in batch.windows)

    assert run(access, calls) == 3 * int(window.rows.calls.sum())  # also of what was merged before
    assert [decoded_change(old["change"]).problem.id] == [one.id for one in decoded(old["summary"]).problems]


def test_what_old_hosts_do_not_say_is_empty() -> None:
    told = decoded(first_messages()["summary"])
    assert told.problems
    assert {problem.line for problem in told.problems} == {""}
    assert decoded_change(first_messages()["change"]).problem.line == ""
    assert told.devices
    assert {device.reasons for device in told.devices} == {()}
    assert told.ranks_left_out == 0


def test_an_old_fleet_reads_what_a_new_host_sends() -> None:
    old = _plain(first_messages()["summary"])
    new = _plain(encoded(decoded(first_messages()["summary"])))
    # Readers of the first release take these fields by name, and the values of records by place.
    assert old.keys() <= new.keys()
    for name in ("tenants", "problems", "devices", "ranks", "gaps"):
        for before, now in zip(old[name], new[name], strict=True):
            assert now[: len(before)] == before


def _plain(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(content[1:]))
    return found
