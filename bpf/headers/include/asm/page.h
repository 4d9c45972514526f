/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Named by the headers of BCC; nothing of it is used. */
#ifndef STALLTOP_PAGE_H
#define STALLTOP_PAGE_H
#endif
