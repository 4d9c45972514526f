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
 * Accounts of processes and of cgroups are in two hashes, so that nobody who starts very many processes can leave
 * others without any account.
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
BPF_F_TABLE("hash", struct account_key, struct account, cgroup_accounts, CGROUP_ACCOUNTS, 0);
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

INLINE struct account *account_of(struct account_key *key)
{
	return key->tgid ? accounts.lookup(key) : cgroup_accounts.lookup(key);
}

/* Returns the account of process `tgid`, or, if that is 0, of a cgroup; NULL if there are too many accounts. */
INLINE struct account *open_account(u64 cgroup_id, u32 tgid)
{
	struct account_key key = {.cgroup_id = cgroup_id, .tgid = tgid};
	struct account *account = account_of(&key), *fresh;
	u64 only = 0;

	if (account)
		return account;
	fresh = no_account.lookup(KEY(only));
	if (!fresh)
		return NULL;
	if (tgid)
		accounts.insert(&key, fresh);
	else
		cgroup_accounts.insert(&key, fresh);
	return account_of(&key);
}

/* Returns whether `account` has fewer than `most` records of `pool`; if not, counts a refusal. */
INLINE int is_below(struct account *account, u32 pool, s64 most)
{
	if (account->used[pool] < most)
		return 1;
	__sync_fetch_and_add(&account->refused[pool], 1);
	return 0;
}

/*
 * Returns whether process `tgid`, whose cgroup is `cgroup_id`, may take a record of `pool`. If so, the record is
 * counted as taken. If there are too many processes, or too many cgroups, to count the records of each, the quota of
 * the other one decides.
 */
INLINE int may_take(u32 pool, u32 tgid, u64 cgroup_id)
{
	struct account *process, *cgroup;
	s64 left = left_of(pool);

	if (left <= 0)
		return 0;
	process = open_account(0, tgid);
	if (process && !is_below(process, pool, left))
		return 0;
	cgroup = open_account(cgroup_id, 0);
	if (cgroup && !is_below(cgroup, pool, CGROUP_SHARE * left))
		return 0;
	if (!process && !cgroup)
		return 0;
	if (process)
		__sync_fetch_and_add(&process->used[pool], 1);
	if (cgroup)
		__sync_fetch_and_add(&cgroup->used[pool], 1);
	add_left(pool, -1);
	return 1;
}

/* Counts `number` records of `pool` as no longer in the account of process `tgid` or, if that is 0, of a cgroup. */
INLINE void credit(u32 pool, u32 tgid, u64 cgroup_id, u32 number)
{
	struct account_key key = {.cgroup_id = cgroup_id, .tgid = tgid};
	struct account *account = account_of(&key);
	u64 place = pool;
	u32 used;

	if (!account)
		return;
	BELOW(place, POOLS);
	used = account->used[place];
	if (used)
		__sync_fetch_and_add(&account->used[place], -(used < number ? used : number));
}

/* Counts a record of `pool` as free again. The arguments are those with which it was taken. */
INLINE void is_free(u32 pool, u32 tgid, u64 cgroup_id)
{
	credit(pool, tgid, 0, 1);
	credit(pool, 0, cgroup_id, 1);
	add_left(pool, 1);
}

#endif
