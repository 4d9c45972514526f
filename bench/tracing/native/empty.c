/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* Empty programs for an entry and a return probe: every tool with such a pair of probes pays at least this. */

int call_begins(void *ctx)
{
	return 0;
}

int call_returns(void *ctx)
{
	return 0;
}
