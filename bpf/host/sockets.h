/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Counts retransmitted TCP segments by the inode number of the socket, which /proc/PID/fd shows. */
#ifndef STALLTOP_SOCKETS_H
#define STALLTOP_SOCKETS_H

#ifdef WITH_SOCKETS

#define AF_INET6 10
#define MAPPED_PREFIX 0xffff0000U /* third word of ::ffff:a.b.c.d, an address whose packets go over IPv4 */

BPF_F_TABLE("hash", struct socket_key, u64, retransmits_of, HOST_ENTRIES, 0);

/* Raw tracepoint tcp_retransmit_skb(sock, buffer, ...). */
int segment_sent_again(struct bpf_raw_tracepoint_args *ctx)
{
	u64 sock = ctx->args[0], socket = 0, inode = 0, *count, none = 0;
	struct socket_key key = {.family = 4};
	u32 peer[4] = {};
	u16 family = 0;

	READ(family, sock, SOCK___SK_COMMON + SOCK_COMMON_SKC_FAMILY);
	if (family == AF_INET6) {
		READ(peer, sock, SOCK___SK_COMMON + SOCK_COMMON_SKC_V6_DADDR);
		/* Both supported machines are little-endian. */
		if (peer[0] || peer[1] || peer[2] != MAPPED_PREFIX)
			key.family = 6;
	}
	READ(socket, sock, SOCK_SK_SOCKET);
	if (socket)
		READ(inode, socket, SOCKET_ALLOC_VFS_INODE + INODE_I_INO);
	key.inode = inode;
	count = retransmits_of.lookup_or_try_init(&key, &none);
	if (count)
		__sync_fetch_and_add(count, 1);
	else
		drop();
	return 0;
}

#endif
#endif
