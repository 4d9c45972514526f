/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* BCC brings the whole of this header with it, under a name of its own. */
#include <bcc/bpf.h>
