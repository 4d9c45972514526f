/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes quick and slow calls: one command per line of stdin, answered by a line with "ok" and, for each slow call,
 * the TID of the caller, the time just before and just after the call by this program's clock, and its number.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default"), noinline, noclone))

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Computes for `ns`. */
EXPORT int work(int64_t ns, int returned, uint64_t bytes)
{
	int64_t end = now() + ns;

	while (now() < end)
		;
	__asm__ volatile("" : : "r"(bytes));
	return returned;
}

/* Sleeps for half of `ns` and computes for the rest. */
EXPORT int rest(int64_t ns)
{
	struct timespec half = { 0, ns / 2 };
	int64_t end = now() + ns;

	nanosleep(&half, NULL);
	while (now() < end)
		;
	return 0;
}

EXPORT int around(int64_t ns)
{
	work(ns, 0, 0);
	return rest(ns);
}

static char *answer;
static size_t answered;
static FILE *answers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct job {
	long calls, every;
	int64_t quick_ns, slow_ns;
	pthread_barrier_t *together;
};

static void *do_job(void *data)
{
	struct job *job = data;

	if (job->together)
		pthread_barrier_wait(job->together);
	for (long i = 1; i <= job->calls; i++) {
		int64_t before = now(), after;

		if (!job->every || i % job->every) {
			work(job->quick_ns, 0, 0);
			continue;
		}
		work(job->slow_ns, i, 1000 + i);
		after = now();
		pthread_mutex_lock(&lock);
		fprintf(answers, " %ld %lld %lld %ld", syscall(SYS_gettid), (long long)before, (long long)after, i);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(void)
{
	char line[256];
	long n;
	struct job job;

	setvbuf(stdin, NULL, _IONBF, 0);
	printf("ok\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		long long quick, slow;

		memset(&job, 0, sizeof(job));
		answers = open_memstream(&answer, &answered);
		if (sscanf(line, "mixed %ld %ld %lld %lld %ld", &job.calls, &job.every, &quick, &slow, &n) == 5) {
			pthread_barrier_t together;
			pthread_t thread[64];

			job.quick_ns = quick;
			job.slow_ns = slow;
			if (n > 1) {
				job.together = &together;
				pthread_barrier_init(&together, NULL, n);
				for (long i = 0; i < n; i++)
					if (pthread_create(&thread[i], NULL, do_job, &job))
						return 3;
				for (long i = 0; i < n; i++)
					pthread_join(thread[i], NULL);
			} else {
				do_job(&job);
			}
		} else if (sscanf(line, "rest %ld %lld", &n, &slow) == 2) {
			for (long i = 0; i < n; i++)
				rest(slow);
		} else if (sscanf(line, "around %ld %lld", &n, &slow) == 2) {
			for (long i = 0; i < n; i++)
				around(slow);
		} else {
			return 2;
		}
		fclose(answers);
		printf("ok%s\n", answer);
		free(answer);
		fflush(stdout);
	}
	return 0;
}
