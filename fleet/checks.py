"""Whether a NATS server is fit for a fleet: its version, its streams, and what the user may do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Final

import nats.errors
from nats.aio.client import Client

from stalltop.fleet import subjects
from stalltop.fleet.connection import ConnectionListener, FleetError, ServerAccess, close, connected
from stalltop.fleet.digest_watch import WAIT_SECONDS
from stalltop.fleet.messages.digest_message import of_cluster
from stalltop.fleet.messages.rolled_message import decoded_batch
from stalltop.fleet.rollup import TIERS
from stalltop.fleet.server_place import Rack, place_of
from stalltop.fleet.stored import READ_SECONDS
from stalltop.fleet.streams import ANSWER_SECONDS, make_streams, missing_streams, plans_of, subject_in
from stalltop.fleet.subjects import STREAMS
from stalltop.model.finding import Finding
from stalltop.model.fleet.fleet_view import FleetView
from stalltop.model.text.words import numbered

LEAST_VERSION: Final = (2, 10, 23)
"""Earlier servers could lose whole streams when they were killed."""
_MOST_NAMED: Final = 5
_FULL: Final = 0.9
_MERGED_SECONDS: Final = 60.0
"""The newest merged window is younger than this if a worker runs, and clocks are as they should be."""


async def server_findings(access: ServerAccess, *, make: bool, replicas: int) -> list[Finding]:
    """Returns what is found about the server. ``make``: make missing streams, with ``replicas`` copies.
    Raises FleetError if the server cannot be reached."""
    refused: list[str] = []
    client = await connected(access, "stalltop fleet check", ConnectionListener(refused=refused.append))
    try:
        return [
            _version(client),
            Finding("place", "ok", place_of(client).text),
            _encryption(access),
            *await _streams(client, make, replicas),
            await _workers(client),
            await _isolation(client, refused),
        ]
    finally:
        await close(client)


def _version(client: Client) -> Finding:
    version = client.connected_server_version
    text = f"nats-server {version.major}.{version.minor}.{version.patch}"
    if (version.major, version.minor, version.patch) >= LEAST_VERSION:
        return Finding("server", "ok", text)
    least = ".".join(map(str, LEAST_VERSION))
    return Finding("server", "warn", f"{text} is older than {least}", f"install {least} or later")


def _encryption(access: ServerAccess) -> Finding:
    if access.tls() is not None:
        return Finding("TLS", "ok", "the connection is encrypted")
    remedy = "give the server a certificate, and give its authority here with --tls-ca"
    return Finding("TLS", "warn", f"{access.shown} is reached without TLS", remedy)


async def _streams(client: Client, make: bool, replicas: int) -> list[Finding]:
    """Returns a finding about each stream."""
    try:
        made = await make_streams(client, replicas) if make else ()
        missing = await missing_streams(client)
    except FleetError as error:
        return [Finding("streams", "fail", error.reason, error.remedy)]
    js, place = client.jetstream(timeout=ANSWER_SECONDS), place_of(client)
    found, plans = [], plans_of(place)
    for plan in STREAMS:
        if plan not in plans:
            with contextlib.suppress(nats.errors.Error):
                await js.stream_info(plan.name)
                said = "a server beyond the racks has it: all racks send their messages here"
                found.append(Finding(plan.name, "warn", said, f"nats stream rm {plan.name}"))
            continue
        if plan.name in missing:
            remedy = "stalltop fleet check --make-streams"
            found.append(Finding(plan.name, "fail", f"there is no stream for {plan.about}", remedy))
            continue
        info = await js.stream_info(plan.name)
        limit, used = info.config.max_bytes or -1, info.state.bytes
        text, subject = (
            f"{info.state.messages:,} messages, {used / (1 << 20):,.0f} MiB",
            subject_in(plan, place),
        )
        if info.config.subjects != [subject]:
            said = f"it keeps {', '.join(info.config.subjects or ())}, not {subject}"
            found.append(
                Finding(plan.name, "warn", said, f"nats stream edit {plan.name} --subjects '{subject}'")
            )
        elif limit <= 0:
            found.append(Finding(plan.name, "warn", f"{text}, without a limit", "give it max_bytes"))
        elif used > _FULL * limit:
            said = f"{text} of {limit >> 20:,} MiB: the oldest are dropped before their time"
            found.append(Finding(plan.name, "warn", said, "raise max_bytes, or have fewer hosts on a server"))
        else:
            text += f" of {limit >> 20:,} MiB" + (", made now" if plan.name in made else "")
            found.append(Finding(plan.name, "ok", text))
    return found


async def _workers(client: Client) -> Finding:
    """Says whether a worker of ``stalltop rollup`` makes digests; at the server of a rack, whether one merges
    windows."""
    rack = place_of(client).rack
    if rack is not None:
        return await _merging(client, rack)
    subscription = await client.subscribe(of_cluster())
    try:
        await subscription.next_msg(WAIT_SECONDS)
    except nats.errors.Error:
        text = "no worker makes digests: nothing is merged, and screens read the summary of every host"
        return Finding("rollup", "warn", text, "start stalltop rollup")
    finally:
        with contextlib.suppress(nats.errors.Error):
            await subscription.unsubscribe()
    return Finding("rollup", "ok", "windows are merged, and screens read digests")


async def _merging(client: Client, rack: Rack) -> Finding:
    """Says whether the windows of ``rack`` are merged."""
    end = 0.0
    with contextlib.suppress(nats.errors.Error, TimeoutError, ValueError):
        js = client.jetstream(timeout=READ_SECONDS)
        last = await js.get_last_msg(TIERS[0].target, TIERS[0].subject(rack))
        end = max((one.end for one in decoded_batch(last.data or b"").windows), default=0.0)
    if time.time() - end < _MERGED_SECONDS:
        return Finding("rollup", "ok", "windows are merged")
    said = "nothing was merged lately: no worker merges windows, or no host of the rack sends any"
    return Finding("rollup", "warn", said, "see whether stalltop rollup and the agents run")


async def _isolation(client: Client, refused: list[str]) -> Finding:
    """Says whether this user sees hosts of every cluster, which only an administrator should."""
    subscription = await client.subscribe(subjects.every(subjects.SUMMARY))
    await client.flush()
    await asyncio.sleep(0.1)  # the server tells a refusal after the subscription
    if refused:
        return Finding("rights", "ok", "this user does not see every host: the server limits it")
    await subscription.unsubscribe()
    return Finding(
        "rights",
        "warn",
        "this user sees every host; if agents and teams connect as this user, they do, too",
        "give agents and teams users of their own: deploy/nats/permissions.conf",
    )


def host_findings(view: FleetView) -> list[Finding]:
    """Returns what is found about the hosts: those that are silent, cannot be read, or have another clock."""
    if not view.hosts:
        return [Finding("hosts", "warn", "no host sends anything", "start stalltop agent on each host")]
    groups = {
        "silent hosts": [host for host in view.hosts if host.state == "silent"],
        "unreadable hosts": [host for host in view.hosts if host.state == "unreadable"],
        "clocks": [host for host in view.hosts if host.clock_ahead is not None],
        "windows": [host for host in view.hosts if host.summary is not None and host.summary.gaps],
    }
    remedies = {
        "silent hosts": "see whether the agent runs there",
        "unreadable hosts": "use one release of stalltop on all hosts",
        "clocks": "synchronise the clocks, for example by chrony",
        "windows": "let stalltop record run there, or raise --buffer of its agent",
    }
    found = [Finding("hosts", "ok", f"{numbered(len(view.hosts), 'host')} are known")]
    for name, hosts in groups.items():
        if hosts:
            named = ", ".join(host.address.text for host in hosts[:_MOST_NAMED])
            more = f" and {len(hosts) - _MOST_NAMED:,} more" if len(hosts) > _MOST_NAMED else ""
            found.append(Finding(name, "warn", f"{named}{more}: {hosts[0].remarks[0]}", remedies[name]))
    return found
