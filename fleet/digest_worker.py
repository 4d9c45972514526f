"""Makes the digests of racks and of clusters, by any number of workers that may end at any time.

Each worker says every second that it is there, so all of them know each other. Of those that are there, one
has each rack and each cluster: the one with the greatest hash of both names. If two have the same one for a
moment, both publish the same digest, which does no harm. Whoever has a rack reads the summaries of its hosts;
whoever has a cluster reads the digests of its racks.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import DeliverPolicy

from stalltop.fleet import subjects
from stalltop.fleet.connection import FleetError
from stalltop.fleet.messages.digest_message import (
    decoded_digest,
    encoded_digest,
    of_cluster,
    of_rack,
    of_racks,
)
from stalltop.fleet.messages.summary_message import taken
from stalltop.fleet.rollup import racks_in
from stalltop.fleet.server_place import Rack
from stalltop.fleet.stored import READ_SECONDS
from stalltop.fleet.streams import make_streams
from stalltop.fleet.watch import stamp
from stalltop.model.fleet.fleet_digest import FleetDigest, RankedHost, digest_of, merged, without_jobs
from stalltop.model.fleet.fleet_state import FORGET_SECONDS, SILENT_SECONDS, FleetState
from stalltop.model.fleet.fleet_view import HostLine
from stalltop.model.fleet.host_summary import HostAddress, HostSummary
from stalltop.model.fleet.server_clock import ServerClock

PRESENCE: Final = f"{subjects.VERSION}.{subjects.JOB}.here"
"""Subject on which workers say that they are there."""
GONE_SECONDS: Final = 3.5
"""A worker that has not said anything for this long is gone."""
LIST_SECONDS: Final = 5.0
"""How often the racks are listed."""
QUIET_SECONDS: Final = 4.0
"""Without a message of a rack for this long, although its hosts send, the worker subscribes anew."""
AT_ONCE: Final = 8
"""Racks between two turns of the event loop."""
_ENDED_SUMMARIES: Final = 10
"""So many summaries without ranks of a host that had some are passed on: its job has ended. One digest may be
lost."""
_CLUSTER_DELAY: Final = 0.25
"""Digests of clusters are made this long after those of racks, s, so that these have arrived."""


class RackPart:
    """The hosts of a rack."""

    stream: Final = "ST1_SUM"

    def __init__(self, rack: Rack, clock: ServerClock, known: Iterable[HostLine] = ()) -> None:
        """``clock`` is told when messages come. ``known``: hosts of the rack in a digest of another worker,
        which may be silent."""
        self.subject = subjects.every(subjects.SUMMARY, *rack)
        self.target = of_rack(*rack)
        self.heard = time.monotonic()
        """When the last message came."""
        self.complete = False
        """Whether the last summary of each host has come. A digest before that would lack hosts."""
        self._clock = clock
        self._state = FleetState()
        self._new: list[tuple[str, bytes, float]] = []
        """Subject, content, and when the server received it."""
        self._ending: dict[HostAddress, int] = {}
        """By host that has or had ranks: how many summaries without ranks are still passed on."""
        for line in known:
            self._state.silent(line.address, line.at)

    @property
    def hosts(self) -> int:
        """Number of hosts that are known."""
        return len(self._state) + len(self._new)

    async def take(self, message: Msg) -> None:
        """Takes a summary."""
        at, pending = stamp(message)
        self.complete |= not pending
        self.heard = time.monotonic()
        self._clock.take(at, time.time())
        self._new.append((message.subject, message.data, at))

    def digest(self, now: float) -> FleetDigest:
        """Returns the rack at the Unix time ``now``, on the server's clock."""
        new, self._new = self._new, []
        ranked = []
        for subject, content, at in new:
            with contextlib.suppress(ValueError):
                address = subjects.address_in(subject)
                summary = taken(self._state, address, content, at)
                if summary is not None and self._is_passed_on(address, summary):
                    ranked.append(
                        RankedHost(address, at, replace(summary, tenants=(), devices=summary.rank_devices))
                    )
        return digest_of(self._state.view(now, jobs=False), ranked)

    def _is_passed_on(self, address: HostAddress, summary: HostSummary) -> bool:
        """Returns whether the digest of the cluster needs to know what a host says about its ranks."""
        if summary.ranks:
            self._ending[address] = _ENDED_SUMMARIES
            return True
        left = self._ending.pop(address, 0)
        if left > 1:
            self._ending[address] = left - 1
        return left > 0


class ClusterPart:
    """The racks of a cluster."""

    stream: Final = ""
    """No stream has digests."""
    complete: Final = True

    def __init__(self, cluster: str) -> None:
        self.subject = of_racks(cluster)
        self.target = of_cluster(cluster)
        self._new: dict[str, bytes] = {}
        self._racks: dict[str, FleetDigest] = {}
        self._ranks = FleetState()

    async def take(self, message: Msg) -> None:
        """Takes the digest of a rack."""
        self._new[message.subject] = message.data

    def digest(self, now: float) -> FleetDigest:
        """Returns the cluster at the Unix time ``now``, on the server's clock."""
        new, self._new = self._new, {}
        for subject, content in new.items():
            with contextlib.suppress(ValueError):
                self._racks[subject] = one = decoded_digest(content)
                for host in one.ranked:
                    self._ranks.take(host.address, host.summary, host.at)
        for subject, one in list(self._racks.items()):
            if now - one.now > FORGET_SECONDS:
                del self._racks[subject]
            elif now - one.now > GONE_SECONDS + SILENT_SECONDS:
                self._racks[subject] = _silenced(one)
        return merged(list(self._racks.values()), self._ranks.view(now).jobs)


def _silenced(rack: FleetDigest) -> FleetDigest:
    """Returns the digest of a rack of which nothing has come for long."""
    said = "no worker of stalltop rollup reads this rack"
    lines = tuple(
        line._replace(state="silent", severity="", lost_ms_per_s=0.0, calls_per_s=0.0, said=said)
        for line in rack.hosts
    )
    return FleetDigest(rack.now, lines)


def _is_quiet(part: RackPart) -> bool:
    """Returns whether hosts send, but nothing comes: the server lost the subscription when it restarted."""
    if time.monotonic() - part.heard < QUIET_SECONDS:
        return False
    part.heard = time.monotonic()
    return True


class DigestWorker:
    """One of the workers. ``say`` gets lines for the user."""

    def __init__(self, client: Client, say: Callable[[str], object]) -> None:
        self._client = client
        self._say = say
        self._name = secrets.token_hex(8)
        self._there: dict[str, float] = {}
        """By name of a worker: when it last said that it is there, by ``time.monotonic()``."""
        self._listed: set[Rack] = set()
        self._listed_at = float("-inf")
        self._racks: dict[Rack, RackPart] = {}
        self._clusters: dict[str, ClusterPart] = {}
        self._reading: dict[str, Subscription] = {}
        """Subscriptions by subject."""
        self._last: dict[str, bytes] = {}
        """The newest digest of each cluster, from any worker, by subject."""
        self._clock = ServerClock()
        self._too_large: set[str] = set()
        """Subjects of digests that the server does not take with jobs, of which that is said."""
        self.published = 0
        """Digests published."""

    async def run(self) -> None:
        """Works until it is cancelled."""
        await self._client.subscribe(PRESENCE, cb=self._heard)
        await self._client.subscribe(of_cluster(), cb=self._seen)
        while True:
            began = time.monotonic()
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await self._client.publish(PRESENCE, self._name.encode())
                await self._list()
                await self._divide()
                await self._publish(self._racks.values())
                await asyncio.sleep(_CLUSTER_DELAY)
                await self._publish(self._clusters.values())
            await asyncio.sleep(max(began + 1.0 - time.monotonic(), 0.01))

    async def _heard(self, message: Msg) -> None:
        if len(message.data) <= 64:
            self._there[message.data.decode("ascii", "replace")] = time.monotonic()

    async def _seen(self, message: Msg) -> None:
        self._last[message.subject] = message.data

    async def _list(self) -> None:
        if time.monotonic() - self._listed_at >= LIST_SECONDS:
            self._listed_at = time.monotonic()
            try:
                self._listed = {*await racks_in(self._client, RackPart.stream, subjects.SUMMARY)}
            except nats.js.errors.NotFoundError:  # streams in memory end with the server
                with contextlib.suppress(FleetError):
                    await make_streams(self._client)

    def _mine(self, *names: str) -> bool:
        """Returns whether this worker has the rack or the cluster with these names."""

        def weight(worker: str) -> bytes:
            return hashlib.blake2b("\0".join((worker, *names)).encode(), digest_size=8).digest()

        return max(self._there, key=weight) == self._name

    async def _divide(self) -> None:
        """Takes what this worker has now, and leaves what it has no more."""
        now = time.monotonic()
        self._there[self._name] = now
        self._there = {name: at for name, at in self._there.items() if now - at < GONE_SECONDS}
        racks = {rack for rack, part in self._racks.items() if part.hosts} | self._listed
        mine = [rack for rack in sorted(racks) if self._mine(*rack)]
        known = self._known() if any(rack not in self._racks for rack in mine) else {}
        self._racks = {
            rack: self._racks.get(rack) or RackPart(rack, self._clock, known.get(rack, ())) for rack in mine
        }
        clusters = self._clusters.keys() | {rack.cluster for rack in self._listed}
        self._clusters = {
            cluster: self._clusters.get(cluster) or ClusterPart(cluster)
            for cluster in sorted(clusters)
            if self._mine(cluster)
        }
        held: list[RackPart | ClusterPart] = [*self._racks.values(), *self._clusters.values()]
        parts = {part.subject: part for part in held}
        listed = (part for rack, part in self._racks.items() if rack in self._listed)
        quiet = {part.subject for part in listed if _is_quiet(part)}
        for subject in self._reading.keys() - (parts.keys() - quiet):
            await self._reading.pop(subject).unsubscribe()
        for subject in parts.keys() - self._reading.keys():
            self._reading[subject] = await self._read(parts[subject])

    async def _read(self, part: RackPart | ClusterPart) -> Subscription:
        if not part.stream:
            return await self._client.subscribe(part.subject, cb=part.take)
        return await self._client.jetstream(timeout=READ_SECONDS).subscribe(
            part.subject,
            stream=part.stream,
            cb=part.take,
            ordered_consumer=True,
            deliver_policy=DeliverPolicy.LAST_PER_SUBJECT,
        )

    def _known(self) -> dict[Rack, list[HostLine]]:
        """Returns the silent hosts in the newest digests, by rack."""
        found: dict[Rack, list[HostLine]] = {}
        for content in self._last.values():
            with contextlib.suppress(ValueError):
                for line in decoded_digest(content).hosts:
                    if line.state == "silent":
                        found.setdefault(Rack(line.cluster, line.rack), []).append(line)
        return found

    async def _publish(self, parts: Iterable[RackPart | ClusterPart]) -> None:
        for at, part in enumerate([part for part in parts if part.complete]):
            digest = part.digest(self._clock.now(time.time()))
            content, most = encoded_digest(digest), self._client.max_payload
            if len(content) > most:
                if part.target not in self._too_large:
                    said = f"a digest of {len(content):,} bytes is more than the server takes"
                    self._say(f"{part.target}: {said}: it is sent without jobs and ranks")
                self._too_large.add(part.target)
                content = encoded_digest(without_jobs(digest))
            else:
                self._too_large.discard(part.target)
            if len(content) > most:
                self._say(f"{part.target}: also without jobs, {len(content):,} bytes are too much: not sent")
            elif digest.hosts:
                await self._client.publish(part.target, content)
                self.published += 1
            if at % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        await self._client.flush()
