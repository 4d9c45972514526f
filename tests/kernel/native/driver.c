/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the functions of traced.c: one command per line of stdin, answered by a line with "ok" and the command's
 * numbers. The answer means that the command is done and its calls are counted.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int plain(void), pushing(void), comparing(void), marked(void), jumping(void);
int failing(int), outer(int), recursive(int), hanging(int), sized(void *, uint64_t), sized32(void *, uint32_t);
int64_t waiting(int64_t);
int leaving(jmp_buf *), leaving_deeper(jmp_buf *), calling_back(void (*)(void *), void *);
int copying(void *, const void *, uint64_t, int), copying_struct(const void *);
int copying_area(void *, uint64_t, const void *, uint64_t, uint64_t, uint64_t, int, uint64_t);
int collective(const void *, void *, uint64_t, int);

struct extent {
	size_t width, height, depth;
};
struct pitched {
	void *pointer;
	size_t pitch, width, height;
};
int extending(void *, struct extent), filling(struct pitched, int, struct extent);

static char own_path[4096];
static long child_calls;
static pid_t child;
static int hang_pipe[2];
static pthread_t hanging_thread;

static const struct {
	const char *name;
	int (*function)(void);
} FUNCTIONS[] = {
	{ "plain", plain }, { "pushing", pushing }, { "comparing", comparing },
	{ "marked", marked }, { "jumping", jumping },
};

static int (*named(const char *name))(void)
{
	for (size_t i = 0; i < sizeof(FUNCTIONS) / sizeof(*FUNCTIONS); i++)
		if (!strcmp(name, FUNCTIONS[i].name))
			return FUNCTIONS[i].function;
	exit(2);
}

struct work {
	int (*function)(void);
	long calls;
	pthread_barrier_t *together;
};

static void *do_work(void *data)
{
	struct work *work = data;

	pthread_barrier_wait(work->together);
	for (long i = 0; i < work->calls; i++)
		work->function();
	return NULL;
}

static void threads(int n, int (*function)(void), long calls)
{
	pthread_barrier_t together;
	struct work work = { function, calls, &together };
	pthread_t thread[n];

	pthread_barrier_init(&together, NULL, n);
	for (int i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, do_work, &work))
			exit(3);
	for (int i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
}

static void *in_thread(void *command);

static void run_in_thread(const char *command)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, (void *)command))
		exit(3);
	pthread_join(thread, NULL);
}

static void *hang(void *unused)
{
	(void)unused;
	hanging(hang_pipe[0]);
	return NULL;
}

static void end_thread(void *unused)
{
	(void)unused;
	pthread_exit(NULL);
}

static void end_process(void *unused)
{
	(void)unused;
	_exit(0);
}

static void run_again(void *unused)
{
	(void)unused;
	execl(own_path, own_path, "again", (char *)NULL);
	exit(4);
}

static void have_child(void *unused)
{
	(void)unused;
	child = fork();
}

/* Calls plain() with a stack pointer far below that of main(). */
static __attribute__((noinline)) void call_deeper(long calls)
{
	volatile char below[4096];

	below[0] = 0;
	for (long i = 0; i < calls; i++)
		plain();
	below[1] = below[0];
}

static void let_child_call(void)
{
	if (child == 0) {
		for (long i = 0; i < child_calls; i++)
			plain();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void *in_thread(void *command)
{
	if (!strcmp(command, "exit"))
		calling_back(end_thread, NULL);
	else if (!strcmp(command, "exec"))
		calling_back(run_again, NULL);
	return NULL;
}

static __attribute__((noinline)) void jump_out(long times, int (*leave)(jmp_buf *), int then_call)
{
	jmp_buf back;

	for (volatile long i = 0; i < times; i++)
		if (!setjmp(back))
			leave(&back);
		else if (then_call)
			plain();
}

/* Makes calls and prints the exact time of each in ns, by this program's clock. */
static void timed(long calls, long ns)
{
	struct timespec start, end;

	for (long i = 0; i < calls; i++) {
		clock_gettime(CLOCK_MONOTONIC, &start);
		waiting(ns * (1 + i % 20));
		clock_gettime(CLOCK_MONOTONIC, &end);
		printf(" %lld", (end.tv_sec - start.tv_sec) * 1000000000LL + end.tv_nsec - start.tv_nsec);
	}
}

static void sizes(void)
{
	uint64_t parameters[20] = { 0 };
	char *unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	sized(NULL, 1000);
	sized(NULL, 24);
	sized(parameters, 1 << 20);              /* fails, so its bytes do not count */
	sized32(NULL, 300);
	copying(NULL, NULL, 4096, 1);
	copying(NULL, NULL, 100, 2);
	copying(NULL, NULL, 7, 77);              /* an unknown direction */
	copying_area(NULL, 0, NULL, 0, 640, 480, 3, 2);
	extending(NULL, (struct extent){ 11, 7, 3 });
	filling((struct pitched){ 0 }, 1, (struct extent){ 13, 5, 2 });
	parameters[2] = 64;
	parameters[3] = 32;
	parameters[4] = 2;
	parameters[5] = 1;
	copying_struct(parameters);
	copying_struct(unreadable);              /* size and direction cannot be read */
	collective(NULL, NULL, 1000, 7);         /* float32 */
	collective(NULL, NULL, 1000, 9);         /* bfloat16 */
	collective(NULL, NULL, 1000, 0);         /* int8 */
	collective(NULL, NULL, 1000, 99);        /* an unknown type */
}

int main(int argc, char **argv)
{
	char line[256], name[64];
	long n, m;

	setvbuf(stdin, NULL, _IONBF, 0);
	if (readlink("/proc/self/exe", own_path, sizeof(own_path) - 1) < 0 || pipe(hang_pipe))
		return 1;
	if (argc > 1 && strcmp(argv[1], "again"))
		return 1;
	printf("ok\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		fputs("ok", stdout);
		if (sscanf(line, "call %63s %ld", name, &n) == 2) {
			int (*function)(void) = named(name);

			for (long i = 0; i < n; i++)
				function();
		} else if (sscanf(line, "threads %ld %63s %ld", &n, name, &m) == 3) {
			threads(n, named(name), m);
		} else if (sscanf(line, "fail %ld", &n) == 1) {
			failing(n);
		} else if (sscanf(line, "outer %ld", &n) == 1) {
			outer(n);
		} else if (sscanf(line, "recursive %ld", &n) == 1) {
			recursive(n);
		} else if (sscanf(line, "timed %ld %ld", &n, &m) == 2) {
			timed(n, m);
		} else if (!strcmp(line, "hang\n")) {
			if (pthread_create(&hanging_thread, NULL, hang, NULL))
				return 3;
		} else if (sscanf(line, "hang_here %ld", &n) == 1) {
			hanging(0); /* until the next byte of stdin */
			call_deeper(n);
		} else if (!strcmp(line, "unhang\n")) {
			if (write(hang_pipe[1], "", 1) != 1)
				return 3;
			pthread_join(hanging_thread, NULL);
		} else if (sscanf(line, "longjmp %ld", &n) == 1) {
			jump_out(n, leaving, 0);
		} else if (sscanf(line, "longjmp_deeper %ld", &n) == 1) {
			jump_out(n, leaving_deeper, 0);
		} else if (sscanf(line, "longjmp_then_call %ld", &n) == 1) {
			jump_out(n, leaving, 1);
		} else if (!strcmp(line, "exit_thread_inside\n")) {
			run_in_thread("exit");
		} else if (!strcmp(line, "exit_inside\n")) {
			calling_back(end_process, NULL);
		} else if (!strcmp(line, "exec_inside\n") || !strcmp(line, "exec_thread_inside\n")) {
			if (line[5] == 't')
				run_in_thread("exec");
			calling_back(run_again, NULL);
		} else if (sscanf(line, "fork %ld", &child_calls) == 1) {
			have_child(NULL);
			let_child_call();
			printf(" %d", child);
		} else if (sscanf(line, "fork_inside %ld", &child_calls) == 1) {
			calling_back(have_child, NULL);
			let_child_call();
			printf(" %d", child);
		} else if (!strcmp(line, "sizes\n")) {
			sizes();
		} else if (!strcmp(line, "tid\n")) {
			printf(" %ld", syscall(SYS_gettid));
		} else {
			return 2;
		}
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}
