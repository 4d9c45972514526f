"""The wire format of a digest (``record_format``), and its subjects.

Workers of ``stalltop rollup`` publish a digest of each rack, and one of each cluster, every second. No stream
keeps them: the next one comes after a second.
"""

from __future__ import annotations

from typing import Final

from stalltop.fleet.messages.record_format import RecordFormat
from stalltop.fleet.subjects import DIGEST, VERSION, token
from stalltop.model.fleet.fleet_digest import FleetDigest, bounded

FORMAT_VERSION: Final = 1
_RACK, _CLUSTER = "rack", "all"
_LEVEL: Final = 1
"""zlib's level: a fifth larger than at 6, in a third of the time."""
_FORMAT: Final = RecordFormat(
    FleetDigest, "digest", version=FORMAT_VERSION, most_bytes=32 << 20, most_items=1 << 17
)
decoded_digest = _FORMAT.decoded


def encoded_digest(digest: FleetDigest) -> bytes:
    """Returns ``digest`` as a message, with as many ranks and jobs as it has room for. Raises ValueError if a
    figure is not finite."""
    return _FORMAT.encoded(bounded(digest), _LEVEL)


def of_rack(cluster: str, rack: str) -> str:
    """Returns the subject of digests of a rack."""
    return ".".join((VERSION, DIGEST, _RACK, token(cluster), token(rack)))


def of_racks(cluster: str) -> str:
    """Returns the subjects of digests of all racks of a cluster."""
    return ".".join((VERSION, DIGEST, _RACK, token(cluster), "*"))


def of_cluster(cluster: str = "") -> str:
    """Returns the subject of digests of a cluster; '': the subjects of all clusters."""
    return ".".join((VERSION, DIGEST, _CLUSTER, token(cluster) if cluster else "*"))
