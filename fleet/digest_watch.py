"""Follows a fleet for a screen: the digests of its clusters if workers of ``stalltop rollup`` make them, else
the summaries of all hosts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

import nats.errors
from nats.aio.msg import Msg

from stalltop.fleet.connection import ServerAccess
from stalltop.fleet.messages.digest_message import FORMAT_VERSION, decoded_digest, of_cluster
from stalltop.fleet.watch import FleetWatch
from stalltop.model.fleet.fleet_digest import FleetDigest, digest_of, merged
from stalltop.model.fleet.host_summary import HostAddress

WAIT_SECONDS: Final = 1.5
"""A digest comes within this time if there are any."""
STALE_SECONDS: Final = 6.0
"""If no digest has come for this long, summaries are read instead: no worker is left."""
JOIN_SECONDS: Final = 30.0


class DigestWatch(FleetWatch):
    """Keeps the digest of the fleet."""

    def __init__(
        self,
        access: ServerAccess,
        *,
        cluster: str = "",
        namespace: str = "",
        say: Callable[[str], object] = bool,
    ) -> None:
        """``cluster``: only its hosts; '': all. ``namespace``: only what its members may see; there are no
        digests of that."""
        super().__init__(access, cluster=cluster, namespace=namespace, say=say)
        self._digests: dict[str, tuple[bytes, float]] = {}
        """The newest message of each cluster, and when it came, by ``time.monotonic()``."""
        self._decoded: dict[str, tuple[bytes, FleetDigest]] = {}
        self._of = "" if namespace else of_cluster(cluster)
        self._cluster = cluster

    def digest(self) -> FleetDigest:
        """Returns the fleet now. Any thread may call this, one at a time."""
        if not self._fresh():
            return digest_of(self.view())
        for subject, (content, _) in list(self._digests.items()):
            if self._decoded.get(subject, (b"",))[0] is not content:
                with contextlib.suppress(ValueError):
                    self._decoded[subject] = content, decoded_digest(content)
        return merged([digest for _, digest in self._decoded.values()])

    def tenant_hosts(self, namespace: str, name: str) -> tuple[HostAddress, ...]:
        """Returns the hosts that have a tenant, the worst first. Reads the last summary of each host if none
        are at hand. Raises FleetError."""
        if not self._fresh():
            return self.view().with_tenant(namespace, name)
        summaries = FleetWatch(self._access, cluster=self._cluster)
        try:
            summaries.start()
            summaries.join(JOIN_SECONDS)
            return summaries.view().with_tenant(namespace, name)
        finally:
            summaries.stop()

    @property
    def clusters(self) -> int:
        """Number of clusters whose digests come; 0: summaries are read."""
        return len(self._digests) if self._fresh() else 0

    def _fresh(self) -> bool:
        """Returns whether digests come. Forgets clusters whose digests do not come any more."""
        oldest = time.monotonic() - STALE_SECONDS
        for subject, (_, came) in list(self._digests.items()):
            if came < oldest:
                self._digests.pop(subject, None)
                self._decoded.pop(subject, None)
        return bool(self._digests)

    # ---- in the loop

    async def _begin(self, began: float) -> None:
        async def take(message: Msg) -> None:
            if message.data[:1] != bytes((FORMAT_VERSION,)):
                return  # of workers of another release: summaries are read instead
            self._digests[message.subject] = message.data, time.monotonic()
            self._all_known(began)

        if self._of:
            with contextlib.suppress(nats.errors.Error):
                await self.client.subscribe(self._of, cb=take)
                await self.client.flush()
            until = time.monotonic() + WAIT_SECONDS
            while not self._digests and time.monotonic() < until:
                await asyncio.sleep(0.05)
        if not self._digests:
            await self._subscribe(began)

    async def _check(self) -> None:
        """Reads summaries while no digests come."""
        if not self._of or not self._fresh():
            await super()._check()
        elif self._subscription is not None:
            await self._unsubscribe()
