/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that wait, each in another way. A line "NAME TIMES ARGUMENT" of stdin calls the function NAME; the
 * answer is "ok" and the sum of the calls' times in ns by this process's clock. The process writes to an unlinked
 * file in its current directory.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default"), noinline))
#define INLINE static inline __attribute__((always_inline))
#define WAIT_MS 5
#define PAGE 4096L

static int pipe_ends[2], socket_ends[2], epoll_fd, disk_fd, faults_fd;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static char *untouched;

static void rest(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&time, NULL);
}

/* Runs in another thread and ends a wait of the main thread. */
static void *end_wait(void *name)
{
	rest(WAIT_MS);
	if (!strcmp(name, "wait_pipe")) {
		if (write(pipe_ends[1], "", 1) != 1)
			exit(3);
	} else if (write(socket_ends[1], "", 1) != 1) {
		exit(3);
	}
	return NULL;
}

static void *hold(void *both_know)
{
	pthread_mutex_lock(&held);
	pthread_barrier_wait(both_know);
	rest(WAIT_MS);
	pthread_mutex_unlock(&held);
	return NULL;
}

static void *serve_faults(void *unused)
{
	struct uffd_msg message;

	(void)unused;
	while (read(faults_fd, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_zeropage page = { .range = { message.arg.pagefault.address & -PAGE, PAGE } };

		rest(WAIT_MS);
		if (ioctl(faults_fd, UFFDIO_ZEROPAGE, &page))
			exit(3);
	}
	return NULL;
}

EXPORT int wait_sleep(long unused)
{
	(void)unused;
	rest(WAIT_MS);
	return 0;
}

EXPORT int wait_lock(long unused)
{
	(void)unused;
	pthread_mutex_lock(&held);
	pthread_mutex_unlock(&held);
	return 0;
}

EXPORT int wait_pipe(long unused)
{
	char byte;

	(void)unused;
	return read(pipe_ends[0], &byte, 1) != 1;
}

EXPORT int wait_child(long unused)
{
	pid_t child = vfork();

	(void)unused;
	if (!child) {
		rest(WAIT_MS);
		_exit(0);
	}
	return waitpid(child, NULL, 0) != child;
}

EXPORT int wait_socket(long unused)
{
	char byte;

	(void)unused;
	return recv(socket_ends[0], &byte, 1, 0) != 1;
}

EXPORT int wait_epoll(long unused)
{
	struct epoll_event event;

	(void)unused;
	return epoll_wait(epoll_fd, &event, 1, WAIT_MS) != 0;
}

INLINE int poll_pipe(void)
{
	struct pollfd one = { .fd = pipe_ends[0], .events = POLLIN };

	return poll(&one, 1, WAIT_MS) != 0;
}

EXPORT int wait_poll(long unused)
{
	(void)unused;
	return poll_pipe();
}

EXPORT int wait_poll_elsewhere(long unused) /* like wait_poll, but traced in another layer */
{
	(void)unused;
	return poll_pipe();
}

EXPORT int wait_disk(long unused)
{
	static char data[1 << 16];

	(void)unused;
	data[0]++;
	return pwrite(disk_fd, data, sizeof(data), 0) != sizeof(data) || fsync(disk_fd);
}

EXPORT int wait_read(long unused) /* reads what wait_disk has written */
{
	static char data[1 << 16];

	(void)unused;
	posix_fadvise(disk_fd, 0, 0, POSIX_FADV_DONTNEED);
	return pread(disk_fd, data, sizeof(data), 0) != sizeof(data);
}

EXPORT int wait_memory(long unused)
{
	(void)unused;
	untouched += PAGE;
	return *(volatile char *)untouched;
}

EXPORT int run(long ms)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000L + (now.tv_nsec - start.tv_nsec) / 1000000L < ms);
	return 0;
}

EXPORT int around(long unused)
{
	return wait_sleep(unused) + wait_socket(unused);
}

static const struct {
	const char *name;
	int (*function)(long);
	int ended_by_another;
} FUNCTIONS[] = {
	{ "wait_sleep", wait_sleep, 0 }, { "wait_lock", wait_lock, 0 },     { "wait_pipe", wait_pipe, 1 },
	{ "wait_child", wait_child, 0 }, { "wait_socket", wait_socket, 1 }, { "wait_epoll", wait_epoll, 0 },
	{ "wait_poll", wait_poll, 0 },   { "wait_disk", wait_disk, 0 },     { "wait_memory", wait_memory, 0 },
	{ "run", run, 0 },               { "around", around, 1 },           { "wait_poll_elsewhere", wait_poll_elsewhere, 0 },
	{ "wait_read", wait_read, 0 },
};

static void prepare(void)
{
	char path[] = "stalltop-test-XXXXXX";
	struct epoll_event event = { .events = EPOLLIN };
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register area = { .range = { 0, 4096 * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;

	epoll_fd = epoll_create1(0);
	disk_fd = mkstemp(path);
	if (disk_fd >= 0)
		unlink(path);
	if (pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, socket_ends) || disk_fd < 0 ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipe_ends[0], &event))
		exit(3);
	untouched = mmap(NULL, area.range.len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	area.range.start = (uint64_t)untouched;
	faults_fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (faults_fd < 0)
		return; /* userfaultfd is not permitted here; only wait_memory needs it */
	if (ioctl(faults_fd, UFFDIO_API, &api) || ioctl(faults_fd, UFFDIO_REGISTER, &area) ||
	    pthread_create(&thread, NULL, serve_faults, NULL))
		exit(3);
}

static long long time_of(int which, long argument)
{
	struct timespec start, end;
	pthread_barrier_t both;
	pthread_t other;
	int helped = FUNCTIONS[which].ended_by_another || FUNCTIONS[which].function == wait_lock;

	pthread_barrier_init(&both, NULL, 2);
	if (FUNCTIONS[which].function == wait_lock) {
		if (pthread_create(&other, NULL, hold, &both))
			exit(3);
		pthread_barrier_wait(&both);
	} else if (helped && pthread_create(&other, NULL, end_wait, (void *)FUNCTIONS[which].name)) {
		exit(3);
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	if (FUNCTIONS[which].function(argument))
		exit(4);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (helped)
		pthread_join(other, NULL);
	return (end.tv_sec - start.tv_sec) * 1000000000LL + end.tv_nsec - start.tv_nsec;
}

int main(void)
{
	char line[256], name[64];
	long times, argument;

	setvbuf(stdin, NULL, _IONBF, 0);
	prepare();
	printf("ok\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		long long sum = 0;
		size_t which = 0;

		if (sscanf(line, "%63s %ld %ld", name, &times, &argument) != 3)
			return 2;
		while (which < sizeof(FUNCTIONS) / sizeof(*FUNCTIONS) && strcmp(FUNCTIONS[which].name, name))
			which++;
		if (which == sizeof(FUNCTIONS) / sizeof(*FUNCTIONS))
			return 2;
		while (times--)
			sum += time_of(which, argument);
		printf("ok %lld\n", sum);
		fflush(stdout);
	}
	return 0;
}
