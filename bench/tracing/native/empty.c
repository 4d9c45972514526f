/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Empty programs for an entry and a return probe. A tool that times calls with a pair of probes costs at
 * least as much as these empty programs.
 */

int call_begins(void *ctx)
{
	return 0;
}

int call_returns(void *ctx)
{
	return 0;
}
