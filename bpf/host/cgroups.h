/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Notes the path of each new cgroup of v2. Calls are counted by the id of their cgroup, and a container may have ended,
 * and its cgroup be gone, before the monitor lists cgroups.
 */
#ifndef STALLTOP_CGROUPS_H
#define STALLTOP_CGROUPS_H

#ifdef WITH_CGROUPS

BPF_F_TABLE("hash", u64, struct cgroup_path, made_cgroups, MADE_CGROUPS, 0);
/* An empty struct cgroup_path, from which new elements are copied. */
BPF_F_TABLE("array", u32, struct cgroup_path, no_path, 1, 0);

/* Raw tracepoint cgroup_mkdir(cgroup, path); the path is that within the hierarchy. */
int cgroup_made(struct bpf_raw_tracepoint_args *ctx)
{
	u32 hierarchy = 0, only = 0;
	struct cgroup_path *path;
	void *at = NULL;
	u64 id = 0;

	READ(at, ctx->args[0], CGROUP_ROOT);
	if (READ(hierarchy, at, CGROUP_ROOT_HIERARCHY_ID) || hierarchy)
		return 0; /* v1, whose ids are other numbers */
	READ(at, ctx->args[0], CGROUP_KN);
	if (READ(id, at, KERNFS_NODE_ID))
		return 0;
	path = no_path.lookup(&only);
	if (!path || made_cgroups.update(&id, path)) {
		drop();
		return 0;
	}
	path = made_cgroups.lookup(&id);
	/* A path that is cut off could be that of another tenant. */
	if (path && bpf_probe_read_kernel_str(path->text, sizeof(path->text), (void *)ctx->args[1]) >=
			    (int)sizeof(path->text))
		made_cgroups.delete(&id);
	return 0;
}

#endif
#endif
