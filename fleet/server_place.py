"""Which part of a fleet a NATS server has: all of it, the hosts of one rack, or what is beyond the racks.

The domain of JetStream in the server's configuration says that, and the server tells it every client. So each
program that makes or reads streams knows what belongs there, also when it makes streams in memory again after
a restart. The domain of a rack's server is ``CLUSTER/RACK``, that of the servers beyond the racks is
``stalltop-hub``; a server with another domain, or with none, has the whole fleet.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from nats.aio.client import Client
from nats.js.client import JetStreamContext

from stalltop.fleet.subjects import name_in, token

HUB_DOMAIN: Final = "stalltop-hub"


class Rack(NamedTuple):
    """A rack of a cluster."""

    cluster: str
    rack: str

    @property
    def text(self) -> str:
        """As a user reads it, such as ``prod/r7``."""
        return f"{self.cluster}/{self.rack}"

    @property
    def domain(self) -> str:
        """The domain of JetStream of the rack's server."""
        return f"{token(self.cluster)}/{token(self.rack)}"


class ServerPlace(NamedTuple):
    """The part of a fleet that a server has."""

    rack: Rack | None = None
    """The rack whose server it is."""
    hub: bool = False
    """Whether it is beyond the racks, which keep their past themselves."""

    @property
    def whole(self) -> bool:
        """Whether the server has the whole fleet."""
        return self.rack is None and not self.hub

    @property
    def text(self) -> str:
        """What the server keeps, for users."""
        if self.rack is not None:
            return f"the server of the rack {self.rack.text}"
        return "a server beyond the racks, which keep their past" if self.hub else "a server of a whole fleet"


def place_in(domain: str) -> ServerPlace:
    """Returns the place of a server with this domain of JetStream; '': it has none."""
    names = domain.split("/")
    if len(names) != 2:
        return ServerPlace(hub=domain == HUB_DOMAIN)
    try:
        return ServerPlace(Rack(*map(name_in, names)))
    except ValueError:
        return ServerPlace()


def place_of(client: Client) -> ServerPlace:
    """Returns the place of the server that ``client`` is connected to."""
    # nats-py offers no other way to what the server says when a client connects. A request for it would need
    # a permission of its own.
    return place_in(str(client._server_info.get("domain") or ""))


def jetstream_of(client: Client, rack: Rack, seconds: float) -> JetStreamContext:
    """Returns JetStream as it keeps the past of ``rack``: that of the server that ``client`` is connected to,
    or that of the rack's server. ``seconds``: longest wait for an answer."""
    place = place_of(client)
    if place.whole or place.rack == rack:
        return client.jetstream(timeout=seconds)
    return client.jetstream(timeout=seconds, domain=rack.domain)
