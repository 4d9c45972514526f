/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * Empty programs for the tracepoints of a switch and of a wake-up. A tool that follows threads of its choice costs all
 * others at least as much as these.
 */

int thread_switches(void *ctx)
{
	return 0;
}

int thread_wakes(void *ctx)
{
	return 0;
}
