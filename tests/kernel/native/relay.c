/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs processes and threads that make traced calls, wake each other and compete for a CPU. The first argument
 * chooses one of the programs below; each answers on stdout with "ok" and its numbers.
 *
 *     relay TIMES     this process calls and passes a token to a source, which sleeps for REST_MS and passes it
 *                     to a worker, which computes for WORK_MS and passes it back: "ok SOURCE WORKER" (PIDs) at
 *                     the start, "ok" at the end
 *     locks TIMES     three threads of this process pass the token as the processes of "relay" do, through
 *                     condition variables
 *     caller TIMES    a child wakes this process ten times and then makes calls: "ok CHILD", then "ok"
 *     server TIMES    this process makes one call and forks a child: "ok CHILD"; after a line on stdin, it rests and
 *                     wakes the child TIMES times, and each time the child makes a call, rests and answers: "ok";
 *                     after the next line, this process makes two calls and rests before each: "ok"
 *     gaps TIMES US   makes calls and computes for US microseconds between two calls: "ok", then "ok CALLS_NS
 *                     GAPS_NS WALL_NS", by its own clock
 *     spin MS TIMES   for every line on stdin, makes TIMES calls that compute for MS of wall time: "ok"
 *     many TIMES      makes calls with a nested call, and one more call for each SIGUSR1, in its handler: "ok", then
 *                     "ok WALL_NS"
 *     limits TIMES    makes calls and waits TIMES times in each of three ways between them: by epoll_wait and by
 *                     ppoll for REST_MS, without data; and by poll for a child, which answers after REST_MS:
 *                     "ok CHILD", then "ok"
 *     shared TIMES    makes calls and waits TIMES times between them to share a read-write lock, which another
 *                     thread holds for REST_MS each time: "ok", then "ok"
 *     crowd MS THREADS  makes one call that computes for MS in each of THREADS threads at once: "ok", then "ok"
 *     hog             computes for ever: "ok"
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default"), noinline))
#define REST_MS 4
#define WORK_MS 3

static long long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void compute(clockid_t clock, long long ns)
{
	long long end = now(clock) + ns;

	while (now(clock) < end)
		;
}

static void rest(void)
{
	struct timespec time = { 0, REST_MS * 1000000L };

	nanosleep(&time, NULL);
}

EXPORT int inner(void)
{
	__asm__ volatile("");
	return 0;
}

EXPORT int outer(void)
{
	return inner() + 0 * getppid();
}

EXPORT int spin(long ms)
{
	compute(CLOCK_MONOTONIC, ms * 1000000LL);
	return 0;
}

static void say(const char *words)
{
	printf("%s\n", words);
	fflush(stdout);
}

static void take(int from)
{
	char byte;

	if (read(from, &byte, 1) != 1)
		_exit(0);
}

static void give(int to)
{
	if (write(to, "", 1) != 1)
		_exit(0);
}

static void child_changed(int number)
{
	(void)number;
}

static void relay(long times)
{
	int start[2], middle[2], end[2];
	pid_t source, worker;

	if (pipe(start) || pipe(middle) || pipe(end))
		exit(3);
	source = fork();
	if (!source) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			take(start[0]);
			rest();
			give(middle[1]);
		}
	}
	worker = fork();
	if (!worker) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			take(middle[0]);
			compute(CLOCK_THREAD_CPUTIME_ID, WORK_MS * 1000000LL);
			give(end[1]);
		}
	}
	signal(SIGCHLD, child_changed); /* PyTorch's loader has such a handler; it interrupts waits */
	printf("ok %d %d\n", source, worker);
	fflush(stdout);
	take(0); /* wait for the line with which the test says that it has read the PIDs */
	while (times--) {
		inner();
		give(start[1]);
		take(end[0]);
	}
	inner();
	say("ok");
	take(0);
	kill(source, SIGKILL);
	kill(worker, SIGKILL);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed[3] = { PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER };
static int turn;

static void wait_for(int own)
{
	pthread_mutex_lock(&lock);
	while (turn != own)
		pthread_cond_wait(&changed[own], &lock);
	pthread_mutex_unlock(&lock);
}

static void pass_to(int next)
{
	pthread_mutex_lock(&lock);
	turn = next;
	pthread_mutex_unlock(&lock);
	pthread_cond_signal(&changed[next]);
}

static void *work(void *data)
{
	int own = *(int *)data;

	for (;;) {
		wait_for(own);
		if (own == 1)
			rest();
		else
			compute(CLOCK_THREAD_CPUTIME_ID, WORK_MS * 1000000LL);
		pass_to((own + 1) % 3);
	}
	return NULL;
}

static void locks(long times)
{
	static int one = 1, two = 2;
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, &one) || pthread_create(&thread, NULL, work, &two))
		exit(3);
	say("ok");
	take(0);
	while (times--) {
		inner();
		pass_to(1);
		wait_for(0);
	}
	inner();
	say("ok");
	take(0);
}

static void caller(long times)
{
	int there[2], back[2];
	pid_t child;

	if (pipe(there) || pipe(back))
		exit(3);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int i = 0; i < 10; i++) {
			take(there[0]);
			rest();
			give(back[1]);
		}
		while (times--)
			inner();
		give(back[1]);
		pause();
	}
	printf("ok %d\n", child);
	fflush(stdout);
	take(0);
	inner();
	for (int i = 0; i < 10; i++) {
		give(there[1]);
		take(back[0]);
	}
	take(back[0]);
	say("ok");
	take(0);
	kill(child, SIGKILL);
}

static void server(long times)
{
	int there[2], back[2];
	pid_t child;

	if (pipe(there) || pipe(back))
		exit(3);
	inner();
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		inner();
		for (;;) {
			take(there[0]);
			inner();
			rest();
			give(back[1]);
		}
	}
	printf("ok %d\n", child);
	fflush(stdout);
	take(0);
	while (times--) {
		rest();
		give(there[1]);
		take(back[0]);
	}
	say("ok");
	take(0);
	for (int i = 0; i < 2; i++) {
		rest();
		inner();
	}
	say("ok");
	take(0);
	kill(child, SIGKILL);
}

static void gaps(long times, long us)
{
	long long calls = 0, between = 0, first = 0, begun, ended = 0;

	say("ok");
	take(0);
	while (times--) {
		if (ended)
			compute(CLOCK_MONOTONIC, us * 1000LL);
		begun = now(CLOCK_MONOTONIC);
		if (ended)
			between += begun - ended;
		else
			first = begun;
		inner();
		ended = now(CLOCK_MONOTONIC);
		calls += ended - begun;
	}
	printf("ok %lld %lld %lld\n", calls, between, ended - first);
	fflush(stdout);
	take(0);
}

static void at_signal(int number)
{
	(void)number;
	inner();
}

static void many(long times)
{
	struct sigaction action = { .sa_handler = at_signal, .sa_flags = SA_RESTART };
	sigset_t signals;
	long long begun;

	/* Handle signals only while the clock runs. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	sigaction(SIGUSR1, &action, NULL);
	say("ok");
	take(0);
	begun = now(CLOCK_MONOTONIC);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
	while (times--)
		outer();
	sigprocmask(SIG_BLOCK, &signals, NULL);
	printf("ok %lld\n", now(CLOCK_MONOTONIC) - begun);
	fflush(stdout);
	take(0);
}

static void limits(long times)
{
	int there[2], back[2], quiet[2], loop = epoll_create1(0);
	struct timespec limit = { 0, REST_MS * 1000000L };
	struct epoll_event event = { .events = EPOLLIN };
	pid_t child;

	if (loop < 0 || pipe(there) || pipe(back) || pipe(quiet) || epoll_ctl(loop, EPOLL_CTL_ADD, quiet[0], &event))
		exit(3);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;) {
			take(there[0]);
			rest();
			give(back[1]);
		}
	}
	printf("ok %d\n", child);
	fflush(stdout);
	take(0);
	while (times--) {
		struct pollfd nothing = { quiet[0], POLLIN, 0 }, answer = { back[0], POLLIN, 0 };

		inner();
		epoll_wait(loop, &event, 1, REST_MS);
		ppoll(&nothing, 1, &limit, NULL);
		give(there[1]);
		poll(&answer, 1, 10000);
		take(back[0]);
	}
	inner();
	say("ok");
	take(0);
	kill(child, SIGKILL);
}

static pthread_rwlock_t shared_lock = PTHREAD_RWLOCK_INITIALIZER;
static int to_holder[2], from_holder[2];

static void *hold(void *data)
{
	for (;;) {
		take(to_holder[0]);
		pthread_rwlock_wrlock(&shared_lock);
		give(from_holder[1]);
		rest();
		pthread_rwlock_unlock(&shared_lock);
	}
	return data;
}

static void shared(long times)
{
	pthread_t thread;

	if (pipe(to_holder) || pipe(from_holder) || pthread_create(&thread, NULL, hold, NULL))
		exit(3);
	say("ok");
	take(0);
	while (times--) {
		inner();
		give(to_holder[1]);
		take(from_holder[0]);
		pthread_rwlock_rdlock(&shared_lock);
		pthread_rwlock_unlock(&shared_lock);
	}
	inner();
	say("ok");
	take(0);
}

static void *spin_once(void *ms)
{
	spin(*(long *)ms);
	return NULL;
}

static void crowd(long ms, int threads)
{
	pthread_t thread[64];

	say("ok");
	take(0);
	for (int i = 0; i < threads && i < 64; i++)
		if (pthread_create(&thread[i], NULL, spin_once, &ms))
			exit(3);
	for (int i = 0; i < threads && i < 64; i++)
		pthread_join(thread[i], NULL);
	say("ok");
	take(0);
}

int main(int count, char **words)
{
	const char *what = count > 1 ? words[1] : "";
	long times = count > 2 ? atol(words[2]) : 0;

	if (!strcmp(what, "relay")) {
		relay(times);
	} else if (!strcmp(what, "locks")) {
		locks(times);
	} else if (!strcmp(what, "caller")) {
		caller(times);
	} else if (!strcmp(what, "server")) {
		server(times);
	} else if (!strcmp(what, "limits")) {
		limits(times);
	} else if (!strcmp(what, "shared")) {
		shared(times);
	} else if (!strcmp(what, "gaps")) {
		gaps(times, count > 3 ? atol(words[3]) : 0);
	} else if (!strcmp(what, "many")) {
		many(times);
	} else if (!strcmp(what, "spin") && count > 3) {
		for (;;) {
			say("ok");
			take(0);
			for (int i = atoi(words[3]); i; i--)
				spin(times);
		}
	} else if (!strcmp(what, "crowd") && count > 3) {
		crowd(times, atoi(words[3]));
	} else if (!strcmp(what, "hog")) {
		say("ok");
		for (;;)
			compute(CLOCK_MONOTONIC, 1000000);
	} else {
		return 2;
	}
	return 0;
}
