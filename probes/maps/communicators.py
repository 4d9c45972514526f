"""Compares the ranks of NCCL communicators on this host: which ranks enter a collective late, and which do
not enter it at all.

The nth collective of a communicator is the same operation in all its ranks. The times of the last entries of
each rank are kept. A collective is compared once all local ranks have entered it.
"""

from __future__ import annotations

import platform
import time
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stalltop.model.hosts.collectives import chosen, entries_text
from stalltop.model.hosts.nccl_hash import nccl_hashes
from stalltop.model.window import U64
from stalltop.probes.layout import ENTRIES, HANDLE, MEMBERS, MemberState, Pool
from stalltop.probes.maps.raw import RawRank
from stalltop.probes.programs.bpf_calls import delete
from stalltop.probes.programs.loading import Programs

_SIGNED_CHAR: Final = platform.machine() == "x86_64"
"""Whether ``char`` has a sign in C: on x86-64, but not on ARM."""
_OLDEST_FROM_END: Final = ENTRIES - 1
"""Number of a rank's latest entries with reliable times. The BPF programs may be overwriting the entry before
these."""


class OldRank(NamedTuple):
    """A rank of a communicator that is older than the probes."""

    tgid: int
    handle: int
    """NCCL's address of the communicator in its process."""


class Adoption(NamedTuple):
    """What is known of such a communicator from elsewhere."""

    nccl_hash: int
    """By which NCCL names the communicator."""
    rank: int
    ranks: int
    before: int
    """Number of collectives that the rank had entered before the probes were attached."""


class Communicators:
    """Reads the members of ``bpf/cuda/communicators.h``. Used from one thread at a time."""

    def __init__(self, programs: Programs) -> None:
        self._members = programs.members
        self._heaps = programs.heaps
        self._member_of = programs.member_of
        self._pools = programs.pools
        self._seen = np.zeros(MEMBERS, np.int64)
        """By record: the number of collectives that were already reported."""
        self._compared = dict[int, int]()
        """By communicator: the number of the first collective that was not compared yet."""
        self._adopted = dict[int, Adoption]()
        """By record."""
        self._adopted_ids = np.zeros(MEMBERS, np.uint64)
        """By record: the communicator of an adopted rank; 0 for others."""
        self._before = np.zeros(MEMBERS, np.int64)
        """By record: ``Adoption.before``."""

    def read(self) -> list[RawRank]:
        """Returns how each rank kept up with the other ranks since the previous read."""
        states = self._members["state"].copy()
        used = np.flatnonzero((states == MemberState.LIVE) | (states == MemberState.OVER))
        gone = used[(states[used] == MemberState.OVER) | self._another_program(used)]
        ids = self._members["id"][used] | self._adopted_ids[used]
        known = np.unique(ids[ids != 0]).tolist()
        found = [rank for each in known for rank in self._read_one(each, used[ids == each], gone)]
        for index in gone.tolist():
            self._free(index)
        self._compared = {each: upto for each, upto in self._compared.items() if each in known}
        return found

    def unknown(self) -> set[int]:
        """Returns the processes that enter collectives of communicators that were made before the probes were
        attached."""
        return {old.tgid for old in self.old()}

    def old(self) -> dict[OldRank, int]:
        """Returns how many collectives each rank of such a communicator has entered since it was first seen.
        Ranks that were adopted are left out."""
        members = self._members
        old = (members["state"] == MemberState.LIVE) & (members["id"] == 0) & (self._adopted_ids == 0)
        return {
            OldRank(int(members["tgid"][at]), int(members["handle"][at])): int(members["entered"][at])
            for at in np.flatnonzero(old).tolist()
        }

    def adopt(self, old: OldRank, known: Adoption) -> None:
        """From now on, reports the rank ``old`` as one of the communicator ``known``."""
        members = self._members
        same = (members["state"] == MemberState.LIVE) & (members["tgid"] == old.tgid)
        for at in np.flatnonzero(same & (members["handle"] == old.handle) & (members["id"] == 0)).tolist():
            self._adopted[at] = known
            self._adopted_ids[at] = self._id_of(known.nccl_hash)
            self._before[at] = known.before
            self._seen[at] = members["entered"][at] + known.before

    def _id_of(self, nccl_hash: int) -> int:
        """Returns the id of the communicator with this hash: that of a local rank that has seen it being
        made, or the hash itself."""
        named = f"{nccl_hash:#x}"
        for at in np.flatnonzero(self._members["id"]).tolist():
            if named in _hashes(self._members["unique_id"][at].tobytes()).split():
                return int(self._members["id"][at])
        return nccl_hash

    def tgids(self) -> set[int]:
        """Returns the processes with a rank."""
        return set(self._members["tgid"][self._members["state"] != MemberState.FREE].tolist()) - {0}

    def release(self, *tgids: int) -> None:
        """Forgets the ranks of processes that have ended."""
        states = self._members["state"]
        own = np.isin(self._members["tgid"], tgids) & (states != MemberState.FREE)
        for index in np.flatnonzero(own).tolist():
            self._free(index)

    def _another_program(self, used: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Returns which of the records ``used`` belong to an earlier program of their process, from before an
        exec."""
        heap = self._members["heap"][used]
        followed = heap < len(self._heaps)
        heaps = self._heaps[np.where(followed, heap, 0)]
        other: NDArray[np.bool_] = (heaps["over"] != 0) | (heaps["tgid"] != self._members["tgid"][used])
        return followed & other

    def _read_one(self, communicator: int, places: NDArray[np.intp], gone: NDArray[np.intp]) -> list[RawRank]:
        # The BPF programs write the time of an entry before they count the entry. The count is read before
        # the copy is made, so the copy has the times of all counted entries.
        before = self._before[places]
        entered = self._members["entered"][places].astype(np.int64) + before
        members = self._members[places]
        now_ns, unix_ns = time.monotonic_ns(), time.time_ns()
        after = self._members["entered"][places].astype(np.int64) + before
        joined, late_ns, last = self._compare(communicator, members["entries_ns"], before, entered, after)
        added = entered - self._seen[places]
        self._seen[places] = entered
        most = int(entered.max())
        ranks = []
        for row, place in enumerate(places.tolist()):
            count, earlier = int(entered[row]), int(before[row])
            own = count - earlier
            newest = members["entries_ns"][row, (own - 1) % ENTRIES] if own else members["made_ns"][row]
            over = place in gone
            known = self._adopted.get(place)
            hashes = _hashes(members["unique_id"][row].tobytes())
            ranks.append(
                RawRank(
                    communicator,
                    int(members["tgid"][row]),
                    int(members["cgroup_id"][row]),
                    known.rank if known is not None else int(members["rank"][row]),
                    known.ranks if known is not None else int(members["ranks"][row]),
                    len(places),
                    int(added[row]),
                    joined,
                    int(late_ns[row]),
                    int(last[row]),
                    0 if over else most - count,
                    max(now_ns - int(newest), 0),
                    count,
                    _entries(members["entries_ns"][row], count, int(added[row]), earlier, unix_ns - now_ns),
                    f"{known.nccl_hash:#x}" if known is not None else hashes,
                )
            )
        return ranks

    def _compare(
        self,
        communicator: int,
        entries_ns: U64,
        before: NDArray[np.int64],
        entered: NDArray[np.int64],
        after: NDArray[np.int64],
    ) -> tuple[int, NDArray[np.int64], NDArray[np.int64]]:
        """Returns the number of collectives that were compared. Also returns, for each member, its lateness
        in ns, added up over these collectives, and how often it entered last."""
        nothing = np.zeros(len(entered), np.int64)
        if len(entered) < 2:
            return 0, nothing, nothing
        upto = int(np.min(entered))
        oldest = max(int(np.max(after)) - _OLDEST_FROM_END, int(np.max(before)))
        first = max(self._compared.get(communicator, 0), oldest)
        if first >= upto:
            return 0, nothing, nothing
        self._compared[communicator] = upto
        places = (np.arange(first, upto) - before[:, np.newaxis]) % ENTRIES
        times = np.take_along_axis(entries_ns, places, axis=1).astype(np.int64)
        late = times - times.min(axis=0)
        last = np.bincount(times.argmax(axis=0), minlength=len(entered))
        return upto - first, late.sum(axis=1), last.astype(np.int64)

    def _free(self, index: int) -> None:
        member = self._members[index]
        key = np.zeros(1, HANDLE)
        key["handle"], key["tgid"] = member["handle"], member["tgid"]
        if member["state"] == MemberState.LIVE:
            delete(self._member_of, key.tobytes())
        tgid, cgroup_id = int(member["tgid"]), int(member["cgroup_id"])
        self._members["state"][index] = MemberState.FREE
        self._members["tgid"][index] = 0
        self._seen[index] = 0
        self._adopted.pop(index, None)
        self._adopted_ids[index] = self._before[index] = 0
        self._pools.free(Pool.MEMBERS, [index], [tgid], [cgroup_id])


def _entries(entries_ns: U64, count: int, added: int, before: int, to_unix_ns: int) -> str:
    """Returns when a rank, which has entered ``count`` collectives, entered the chosen ones of the last
    ``added``. It entered ``before`` collectives before the probes were attached. ``to_unix_ns`` is to be
    added to times in ``entries_ns``."""
    numbers = chosen(count - min(added, _OLDEST_FROM_END), count)
    return entries_text((n, int(entries_ns[(n - before) % ENTRIES]) + to_unix_ns) for n in numbers)


@lru_cache(maxsize=256)
def _hashes(unique_id: bytes) -> str:
    return nccl_hashes(unique_id, signed=_SIGNED_CHAR)
