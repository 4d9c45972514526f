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
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from stalltop.fleet import subjects
from stalltop.fleet.digest_message import decoded_digest, encoded_digest, of_cluster, of_rack, of_racks
from stalltop.fleet.rollup import Rack, racks_in
from stalltop.fleet.stored import READ_SECONDS
from stalltop.fleet.summary_message import taken
from stalltop.model.fleet.fleet_digest import FleetDigest, digest_of, merged
from stalltop.model.fleet.fleet_state import FORGET_SECONDS, SILENT_SECONDS, FleetState

PRESENCE: Final = f"{subjects.VERSION}.{subjects.JOB}.here"
"""Subject on which workers say that they are there."""
GONE_SECONDS: Final = 3.5
"""A worker that has not said anything for this long is gone."""
LIST_SECONDS: Final = 5.0
"""How often the racks are listed, and the server's clock is read."""
AT_ONCE: Final = 8
"""Racks between two turns of the event loop."""
_CLUSTER_DELAY: Final = 0.25
"""Digests of clusters are made this long after those of racks, s, so that these have arrived."""


class RackPart:
    """The hosts of a rack. Of each host, only its newest message is decoded."""

    def __init__(self, rack: Rack, known: FleetDigest | None) -> None:
        """``known``: a digest of another worker, which may name silent hosts."""
        self.subject = subjects.every(subjects.SUMMARY, *rack)
        self.target = of_rack(*rack)
        self._state = FleetState()
        self._new: dict[str, tuple[bytes, float]] = {}
        """By subject: the message, and when it came, by this host's clock."""
        for line in known.hosts if known is not None else ():
            if (line.cluster, line.rack) == rack:
                self._state.silent(line.address, line.at)

    @property
    def hosts(self) -> int:
        """Number of hosts that are known."""
        return len(self._state) + len(self._new)

    async def take(self, message: Msg) -> None:
        """Takes a summary."""
        self._new[message.subject] = message.data, time.time()

    def digest(self, ahead: float) -> FleetDigest:
        """Returns the rack now. ``ahead``: the server's clock minus this host's, s."""
        new, self._new = self._new, {}
        for subject, (content, came) in new.items():
            with contextlib.suppress(ValueError):
                taken(self._state, subjects.address_in(subject), content, came + ahead)
        return digest_of(self._state.view(time.time() + ahead, jobs=False))


class ClusterPart:
    """The racks of a cluster."""

    def __init__(self, cluster: str) -> None:
        self.subject = of_racks(cluster)
        self.target = of_cluster(cluster)
        self._new: dict[str, bytes] = {}
        self._racks: dict[str, FleetDigest] = {}
        self._ranks = FleetState()

    async def take(self, message: Msg) -> None:
        """Takes the digest of a rack."""
        self._new[message.subject] = message.data

    def digest(self, ahead: float) -> FleetDigest:
        """Returns the cluster now. ``ahead``: the server's clock minus this host's, s."""
        new, self._new = self._new, {}
        for subject, content in new.items():
            with contextlib.suppress(ValueError):
                self._racks[subject] = one = decoded_digest(content)
                for host in one.ranked:
                    self._ranks.take(host.address, host.summary, host.at)
        now = time.time() + ahead
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


class DigestWorker:
    """One of the workers. ``say`` gets lines for the user."""

    def __init__(self, client: Client, say: Callable[[str], object]) -> None:
        self._client = client
        self._say = say
        self._name = secrets.token_hex(8)
        self._there: dict[str, float] = {}
        """By name of a worker: when it last said that it is there, by ``time.monotonic()``."""
        self._listed: list[Rack] = []
        self._listed_at = float("-inf")
        self._racks: dict[Rack, RackPart] = {}
        self._clusters: dict[str, ClusterPart] = {}
        self._reading: dict[str, Subscription] = {}
        """Subscriptions by subject."""
        self._last: dict[str, bytes] = {}
        """The newest digest of each cluster, from any worker, by subject."""
        self._samples: deque[float] = deque(maxlen=6)
        """Differences of the server's clock to this host's, s."""
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
        if time.monotonic() - self._listed_at < LIST_SECONDS:
            return
        self._listed_at = time.monotonic()
        self._listed = await racks_in(self._client, "ST1_SUM", subjects.SUMMARY)
        if self._listed:
            # The newest summary has come just now, so its time is that of the server's clock.
            every = subjects.every(subjects.SUMMARY)
            newest = await self._client.jetstream(timeout=READ_SECONDS).get_last_msg("ST1_SUM", every)
            if newest.time is not None:
                self._samples.append(newest.time.timestamp() - time.time())

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
        racks = {rack for rack, part in self._racks.items() if part.hosts} | {*self._listed}
        self._racks = {
            rack: self._racks.get(rack) or RackPart(rack, self._known(rack.cluster))
            for rack in sorted(racks)
            if self._mine(*rack)
        }
        clusters = self._clusters.keys() | {rack.cluster for rack in self._listed}
        self._clusters = {
            cluster: self._clusters.get(cluster) or ClusterPart(cluster)
            for cluster in sorted(clusters)
            if self._mine(cluster)
        }
        held: list[RackPart | ClusterPart] = [*self._racks.values(), *self._clusters.values()]
        parts = {part.subject: part for part in held}
        for subject in self._reading.keys() - parts.keys():
            await self._reading.pop(subject).unsubscribe()
        for subject in parts.keys() - self._reading.keys():
            self._reading[subject] = await self._client.subscribe(subject, cb=parts[subject].take)

    def _known(self, cluster: str) -> FleetDigest | None:
        with contextlib.suppress(ValueError, LookupError):
            return decoded_digest(self._last[of_cluster(cluster)])
        return None

    async def _publish(self, parts: Iterable[RackPart | ClusterPart]) -> None:
        for at, part in enumerate(list(parts)):
            digest = part.digest(max(self._samples, default=0.0))
            content = encoded_digest(digest)
            if len(content) > self._client.max_payload:
                self._say(f"{part.target}: a digest of {len(content):,} bytes is more than the server takes")
            elif digest.hosts:
                await self._client.publish(part.target, content)
                self.published += 1
            if at % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)
        await self._client.flush()
