/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes calls that last from BEGIN to END. A line of stdin has triples NAME BEGIN END, with times in ns of
 * CLOCK_MONOTONIC. The answer is "ok" and the time before and after each call by this program's clock. If BEGIN
 * or END is in the past, the program does not wait for that moment.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default"), noinline))

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void until(int64_t ns)
{
	struct timespec time = { ns / 1000000000, ns % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
		;
}

EXPORT int busy(int64_t end_ns)
{
	until(end_ns);
	return 0;
}

EXPORT int idle(int64_t end_ns)
{
	until(end_ns);
	return 0;
}

int main(void)
{
	static char line[1 << 20];

	setvbuf(stdin, NULL, _IONBF, 0);
	printf("ok\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		fputs("ok", stdout);
		for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
			int64_t begin = atoll(strtok(NULL, " \n")), end = atoll(strtok(NULL, " \n"));

			until(begin);
			begin = now();
			if (strcmp(word, "busy"))
				idle(end);
			else
				busy(end);
			printf(" %lld %lld", (long long)begin, (long long)now());
		}
		fputs("\n", stdout);
		fflush(stdout);
	}
	return 0;
}
