/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Empty. The headers of BCC include a file with this name, but need nothing from it. */
#ifndef STALLTOP_IF_PACKET_H
#define STALLTOP_IF_PACKET_H
#endif
