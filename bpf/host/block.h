/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Counts requests to block devices, by the process that submitted them.
 *
 * A bio is stored in a hash when it is submitted, and looked up as the first bio of its request. Other bios
 * may be merged into the same request: the request is counted once, for its first bio. The hash is an LRU
 * hash, so that bios that never complete are evicted.
 */
#ifndef STALLTOP_BLOCK_H
#define STALLTOP_BLOCK_H

#ifdef WITH_BLOCK

/*
 * The lower bits of a request's flags hold its operation (linux/blk_types.h). An operation with bit 0 set
 * writes to the device.
 */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_OP_FLUSH 2

struct submitted {
	u64 cgroup_id;
	u64 submit_ns;
	u64 issue_ns;
	u64 idle_ns;
	u32 tgid;
	u32 reserved;
};

BPF_F_TABLE("lru_hash", u64, struct submitted, bios, HOST_ENTRIES, 0);
/* By cgroup: when a request from a kernel thread for that cgroup was last submitted or completed. */
BPF_F_TABLE("lru_hash", u64, u64, active, HOST_ENTRIES, 0);
BPF_F_TABLE("hash", struct io_key, struct io, io_of, HOST_ENTRIES, 0);

/* Returns the cgroup to which the block controller charges a bio; 0 if it has none. */
INLINE u64 block_cgroup(const void *bio)
{
	void *group = NULL, *at = NULL;
	u64 id = 0;

#ifdef BIO_BI_BLKG
	READ(group, bio, BIO_BI_BLKG);
	if (!group)
		return 0;
	READ(at, group, BLKCG_GQ_BLKCG);
	READ(at, at, BLKCG_CSS + CGROUP_SUBSYS_STATE_CGROUP);
	READ(at, at, CGROUP_KN);
	READ(id, at, KERNFS_NODE_ID);
#endif
	return id;
}

/*
 * Returns the time in ns since a kernel thread's request for the cgroup was last submitted or completed.
 * Called at each submission and each completion of such a request; stores `now` as the time of the last one.
 */
INLINE u64 idle_since(u64 cgroup_id, u64 now)
{
	u64 *last = active.lookup(&cgroup_id), idle = 0;

	if (!last)
		count_lost(HOST_ACTIVE);
	else if (*last < now)
		idle = now - *last;
	active.update(&cgroup_id, &now);
	return idle;
}

/* Raw tracepoint block_bio_queue(bio). */
int bio_queued(struct bpf_raw_tracepoint_args *ctx)
{
	u64 bio = ctx->args[0];
	struct submitted note = {.submit_ns = bpf_ktime_get_ns()};
	u32 flags = 0;

	READ(flags, bpf_get_current_task(), TASK_STRUCT_FLAGS);
	if (flags & PF_KTHREAD) {
		/*
		 * A kernel thread submits requests for a process: to write pages back, or after a limit has
		 * held them back.
		 */
		note.cgroup_id = block_cgroup((void *)bio);
		note.idle_ns = note.cgroup_id ? idle_since(note.cgroup_id, note.submit_ns) : 0;
	} else {
		note.cgroup_id = bpf_get_current_cgroup_id();
		note.tgid = own_tgid();
	}
	bios.update(&bio, &note);
	return 0;
}

/* Raw tracepoint block_rq_issue(request): the request is given to the device. */
int request_issued(struct bpf_raw_tracepoint_args *ctx)
{
	u64 request = ctx->args[0], key = 0, parent = 0, now = bpf_ktime_get_ns();
	struct submitted *note, fresh = {.submit_ns = now, .issue_ns = now};

	READ(key, request, REQUEST_BIO);
	if (!key)
		key = request; /* a request without a bio, such as a flush of the device's cache */
	note = bios.lookup(&key);
	if (note) {
		note->issue_ns = now;
		return 0;
	}
	if (key != request) {
		/*
		 * If a bio was split, its first part points to the rest. The rest is the bio that was stored.
		 */
		READ(parent, key, BIO_BI_PRIVATE);
		note = parent ? bios.lookup(&parent) : NULL;
		if (note) {
			fresh = *note;
			fresh.issue_ns = now;
		}
	}
	bios.update(&key, &fresh);
	return 0;
}

/* Raw tracepoint block_rq_complete(request, error, bytes): the request, or a part of it, is complete. */
int request_done(struct bpf_raw_tracepoint_args *ctx)
{
	u64 request = ctx->args[0], key = 0, now = bpf_ktime_get_ns(), ns;
	u32 part = ctx->args[2], left = 0, operation = 0;
	s32 major = 0, minor = 0;
	struct submitted *note;
	struct io_key whose = {};
	struct io *io, none = {};
	void *disk = NULL;

	READ(left, request, REQUEST___DATA_LEN);
	READ(key, request, REQUEST_BIO);
	if (!key)
		key = request;
	note = bios.lookup(&key);
	if (part < left)
		return 0;
	if (!note)
		count_lost(HOST_FORGOTTEN);
	if (!note || !note->issue_ns)
		return 0;
	READ(disk, request, REQUEST_Q);
	READ(disk, disk, REQUEST_QUEUE_DISK);
	if (!disk)
		return 0;
	READ(major, disk, GENDISK_MAJOR);
	READ(minor, disk, GENDISK_FIRST_MINOR);
	READ(operation, request, REQUEST_CMD_FLAGS);
	whose.cgroup_id = note->cgroup_id;
	whose.tgid = note->tgid;
	whose.device = major << 20 | minor;
	operation &= REQ_OP_MASK;
	whose.write = operation & 1 || operation == REQ_OP_FLUSH;
	if (!note->tgid && note->cgroup_id)
		idle_since(note->cgroup_id, now);
	io = io_of.lookup_or_try_init(&whose, &none);
	if (!io) {
		drop();
		return 0;
	}
	ns = now - note->submit_ns;
	__sync_fetch_and_add(&io->requests, 1);
	if (operation == REQ_OP_READ || operation == REQ_OP_WRITE)
		__sync_fetch_and_add(&io->bytes, part); /* other operations, such as discards, move no data */
	__sync_fetch_and_add(&io->queued_ns, note->issue_ns - note->submit_ns);
	__sync_fetch_and_add(&io->service_ns, now - note->issue_ns);
	__sync_fetch_and_add(&io->idle_ns, note->idle_ns);
	if (ns > io->max_ns)
		io->max_ns = ns;
	bios.delete(&key);
	return 0;
}

#endif
#endif
