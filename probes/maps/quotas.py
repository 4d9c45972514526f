"""Reads which processes and cgroups have so many records in the Linux kernel that they get no more
(``bpf/base/pools.h``)."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from stalltop.probes.layout import ACCOUNT, ACCOUNT_KEY, Pool
from stalltop.probes.maps.raw import RawQuota
from stalltop.probes.programs.bpf_calls import delete_all, look_at_all
from stalltop.probes.programs.loading import Programs


class Quotas:
    """Reads the accounts of processes and cgroups. Used from one thread at a time."""

    def __init__(self, programs: Programs) -> None:
        self._maps = programs.accounts, programs.cgroup_accounts
        self._sizes = programs.pools.sizes
        self._programs = programs
        self._owners = programs.owners
        self._refused: dict[tuple[int, int], NDArray[np.uint32]] = {}
        """Numbers of refusals by account at the previous read; accounts without any are left out."""
        self._unused = set[tuple[int, int]]()
        """Accounts that had no records at the previous read."""

    def read(self) -> list[RawQuota]:
        """Returns who was refused records since the previous read, those that were refused most first.

        Cgroups in which no process has a slot or a thread record are left out. Also removes the accounts of
        processes that have ended, and of cgroups without records.
        """
        of_each = [look_at_all(accounts, ACCOUNT_KEY, ACCOUNT) for accounts in self._maps]
        keys, values = (np.concatenate(parts) for parts in zip(*of_each, strict=True))
        names = list(zip(keys["tgid"].tolist(), keys["cgroup_id"].tolist(), strict=True))
        found, refused = [], {}
        for row in np.flatnonzero(values["refused"].any(axis=1)).tolist():
            name, now = names[row], values["refused"][row]
            more = now - self._refused.get(name, np.zeros_like(now))
            refused[name] = now
            tgid = name[0] or self._process_in(name[1])
            for pool in map(Pool, np.flatnonzero(more).tolist() if tgid else ()):
                used = int(values["used"][row, pool])
                found.append(RawQuota(tgid, name[1], pool, used, self._sizes[pool], int(more[pool])))
        self._refused = refused
        self._remove_unused(names, keys, np.flatnonzero(~values["used"].any(axis=1)).tolist())
        return sorted(found, key=lambda quota: -quota.refused)

    def _process_in(self, cgroup_id: int) -> int:
        """Returns a process of a cgroup that has records; 0 if there is none."""
        for records, column in ((self._programs.threads, "account_cgroup_id"), (self._owners, "cgroup_id")):
            tgids = records["tgid"][records[column] == cgroup_id]
            if tgids.any():
                return int(tgids[tgids != 0][0])
        return 0

    def _remove_unused(self, names: list[tuple[int, int]], keys: NDArray[np.void], unused: list[int]) -> None:
        # If an account is removed just when it is used again, one record is not counted. So the accounts of
        # living processes stay, and those of cgroups that were in use a moment ago.
        gone = [
            row
            for row in unused
            if names[row] in self._unused and not (names[row][0] and os.path.exists(f"/proc/{names[row][0]}"))
        ]
        for accounts, is_process in zip(self._maps, (True, False), strict=True):
            some = keys[[row for row in gone if bool(names[row][0]) == is_process]]
            if some.size:
                delete_all(accounts, some)
        self._unused = {names[row] for row in unused}
