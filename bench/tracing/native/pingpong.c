/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes that send a byte back and forth through pipes, so that each byte wakes the other process:
 * pingpong ROUNDS CPU CPU, with a CPU for each process. Prints the wall time, and the CPU time of both
 * processes together, ns.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(3);
}

static void play(int from, int to, long rounds, int first)
{
	char byte = 0;

	for (; rounds; rounds--) {
		if (first && write(to, &byte, 1) != 1)
			_exit(4);
		if (read(from, &byte, 1) != 1)
			_exit(4);
		if (!first && write(to, &byte, 1) != 1)
			_exit(4);
	}
}

static long long ns_of(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long cpu_of_child(void)
{
	struct rusage used;

	getrusage(RUSAGE_CHILDREN, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000LL +
	       (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL;
}

int main(int count, char **words)
{
	int there[2], back[2], status;
	long long wall, cpu;
	long rounds;
	pid_t child;

	if (count != 4 || (rounds = atol(words[1])) <= 0)
		return 2;
	if (pipe(there) || pipe(back))
		return 3;
	child = fork();
	if (child < 0)
		return 3;
	if (!child) {
		stay_on(atoi(words[3]));
		play(there[0], back[1], rounds, 0);
		_exit(0);
	}
	stay_on(atoi(words[2]));
	wall = ns_of(CLOCK_MONOTONIC);
	cpu = ns_of(CLOCK_PROCESS_CPUTIME_ID);
	play(back[0], there[1], rounds, 1);
	wall = ns_of(CLOCK_MONOTONIC) - wall;
	cpu = ns_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	if (waitpid(child, &status, 0) != child || status)
		return 4;
	printf("%lld %lld\n", wall, cpu + cpu_of_child());
	return 0;
}
