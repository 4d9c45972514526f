/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Shares the records of each pool among processes and containers, so that none of them can take so many that
 * others get none.
 *
 * A process may take one more record of a pool while it has fewer than are left. The processes of a cgroup may
 * take one more while together they have fewer than CGROUP_SHARE times as many as are left. So a process gets at
 * most half of a pool and a cgroup at most four fifths, if no others need records, and each of n greedy processes
 * 1 / (n + 1) (dynamic thresholds: Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet
 * switches", 1998). A process that creates cgroups of its own is limited in each of them separately.
 *
 * A pool that is empty is not asked for a record: the queues of Linux take a lock even then.
 */
#ifndef STALLTOP_POOLS_H
#define STALLTOP_POOLS_H

#include "base/bounds.h"
#include "base/layout.h"
#include "base/numbers.h"

#define CGROUP_SHARE 4

/* By enum pool: the number of free records. */
BPF_F_TABLE("array", u32, s64, left_in, POOLS, BPF_F_MMAPABLE);
BPF_F_TABLE("hash", struct account_key, struct account, accounts, ACCOUNTS, 0);
/* An empty struct account, from which new elements are copied. */
BPF_F_TABLE("array", u32, struct account, no_account, 1, 0);

/* Adds `number` to the number of free records of `pool`. */
INLINE void add_left(u64 pool, s64 number)
{
	s64 *left = left_in.lookup(KEY(pool));

	if (left)
		__sync_fetch_and_add(left, number);
}

/* Returns the number of free records of `pool`. */
INLINE s64 left_of(u64 pool)
{
	s64 *left = left_in.lookup(KEY(pool));

	return left ? *(volatile s64 *)left : 0;
}

INLINE struct account *open_account(u64 cgroup_id, u32 tgid)
{
	struct account_key key = {.cgroup_id = cgroup_id, .tgid = tgid};
	struct account *account = accounts.lookup(&key), *fresh;
	u64 only = 0;

	if (account)
		return account;
	fresh = no_account.lookup(KEY(only));
	if (!fresh)
		return NULL;
	accounts.insert(&key, fresh);
	return accounts.lookup(&key);
}

/*
 * Returns whether process `tgid`, whose cgroup is `cgroup_id`, may take a record of `pool`. If so, the record is
 * counted as taken. If there are too many processes to count the records of each, the quota of the cgroup decides.
 */
INLINE int may_take(u32 pool, u32 tgid, u64 cgroup_id)
{
	struct account *process, *cgroup;
	s64 left = left_of(pool);

	if (left <= 0)
		return 0;
	cgroup = open_account(cgroup_id, 0);
	if (!cgroup)
		return 0;
	process = open_account(0, tgid);
	if (process && process->used[pool] >= left) {
		__sync_fetch_and_add(&process->refused[pool], 1);
		return 0;
	}
	if (cgroup->used[pool] >= CGROUP_SHARE * left) {
		__sync_fetch_and_add(&cgroup->refused[pool], 1);
		return 0;
	}
	if (process)
		__sync_fetch_and_add(&process->used[pool], 1);
	__sync_fetch_and_add(&cgroup->used[pool], 1);
	add_left(pool, -1);
	return 1;
}

INLINE void credit(u32 pool, u32 tgid, u64 cgroup_id)
{
	struct account_key key = {.cgroup_id = cgroup_id, .tgid = tgid};
	struct account *account = accounts.lookup(&key);
	u64 place = pool;

	if (!account)
		return;
	BELOW(place, QUOTA_POOLS);
	if (account->used[place])
		__sync_fetch_and_add(&account->used[place], -1);
}

/* Counts a record of `pool` as free again. The arguments are those with which it was taken. */
INLINE void is_free(u32 pool, u32 tgid, u64 cgroup_id)
{
	credit(pool, tgid, 0);
	credit(pool, 0, cgroup_id);
	add_left(pool, 1);
}

#endif
