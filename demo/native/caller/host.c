/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "host.h"
#include "caller.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096u
/* fills a page of the pipe, and is still small enough to be written atomically (PIPE_BUF) */
#define BATCH_BYTES PAGE
#define CONNECT_SECONDS 20
#define DATAGRAMS 64 /* number of datagrams that are sent by one system call */
#define COMPUTE_STEP_NS 20000

struct action {
    void (*act)(const struct action *action);
    char name[256];
    uint64_t number[3];
    int file;
    uint64_t file_bytes;
    pthread_mutex_t *lock;
};

static char files[4096] = ".";

void choose_files(const char *folder)
{
    snprintf(files, sizeof files, "%s", folder);
}

static uint64_t cpu_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000ull + (uint64_t)used.tv_nsec;
}

void compute(uint64_t ns)
{
    /*
     * Reading the thread's CPU time takes a system call, and a program that computes would make no system
     * calls. So it is read only once per step.
     */
    for (uint64_t end = cpu_ns() + ns, now; (now = cpu_ns()) < end;) {
        uint64_t step = end - now < COMPUTE_STEP_NS ? end - now : COMPUTE_STEP_NS;
        for (uint64_t until = now_ns() + step; now_ns() < until;)
            ;
    }
}

void rest(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

__attribute__((noreturn)) static void give_up(const struct action *action)
{
    fprintf(stderr, "caller: %s: %s\n", action->name, strerror(errno));
    _exit(4);
}

/* Returns a random number below `below`, all equally likely. Uses xorshift64*, which is seeded per thread. */
static uint64_t random_below(uint64_t below)
{
    static __thread uint64_t state;
    if (!state)
        state = (((uint64_t)(uintptr_t)&state) * 0x9e3779b97f4a7c15ull ^ now_ns()) | 1;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return below ? (state * 0x2545f4914f6cdd1dull >> 11) % below : 0;
}

static void *buffer(uint64_t bytes)
{
    static __thread void *memory;
    static __thread uint64_t room;
    if (room < bytes) {
        free(memory);
        if (posix_memalign(&memory, PAGE, bytes))
            abort();
        memset(memory, 1, bytes);
        room = bytes;
    }
    return memory;
}

/* Returns a random offset in the file: a multiple of the page size, with room for `bytes` after it. */
static off_t place(const struct action *action, uint64_t bytes)
{
    return (off_t)(random_below((action->file_bytes - bytes) / PAGE + 1) * PAGE);
}

static void give(const struct action *action)
{
    if (write(action->file, buffer(BATCH_BYTES), BATCH_BYTES) != BATCH_BYTES)
        give_up(action);
}

static void take(const struct action *action)
{
    for (uint64_t had = 0; had < BATCH_BYTES;) {
        ssize_t got = read(action->file, buffer(BATCH_BYTES), BATCH_BYTES - had);
        if (got <= 0 && errno != EINTR)
            give_up(action);
        had += got > 0 ? (uint64_t)got : 0;
    }
}

static void read_pieces(const struct action *action)
{
    uint64_t bytes = action->number[0];
    for (uint64_t n = 0; n < action->number[1]; n++)
        if (pread(action->file, buffer(bytes), bytes, place(action, bytes)) != (ssize_t)bytes)
            give_up(action);
}

static void write_pieces(const struct action *action)
{
    uint64_t bytes = action->number[0];
    for (uint64_t n = 0; n < action->number[1]; n++)
        if (pwrite(action->file, buffer(bytes), bytes, place(action, bytes)) != (ssize_t)bytes)
            give_up(action);
}

static void save_pieces(const struct action *action)
{
    write_pieces(action);
    if (fsync(action->file))
        give_up(action);
}

static void touch(const struct action *action)
{
    uint64_t bytes = action->number[0] * PAGE;
    off_t start = place(action, bytes);
    if (action->number[1])
        /*
         * drops the whole file: if only a range were dropped, folios that reach beyond it would stay in
         * memory
         */
        posix_fadvise(action->file, 0, 0, POSIX_FADV_DONTNEED);
    const volatile char *pages = mmap(NULL, bytes, PROT_READ, MAP_SHARED, action->file, start);
    if (pages == MAP_FAILED)
        give_up(action);
    madvise((void *)pages, bytes, MADV_RANDOM);
    for (uint64_t at = 0; at < bytes; at += PAGE)
        (void)pages[at];
    munmap((void *)pages, bytes);
}

static void use_memory(const struct action *action)
{
    uint64_t bytes = action->number[0];
    volatile char *pages =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        give_up(action);
    for (uint64_t at = 0; at < bytes; at += PAGE)
        pages[at] = 1;
    munmap((void *)pages, bytes);
}

static void lock(const struct action *action)
{
    int error = pthread_mutex_lock(action->lock);
    if (error == EOWNERDEAD)
        error = pthread_mutex_consistent(action->lock);
    if (error) {
        errno = error;
        give_up(action);
    }
    compute(action->number[0] * 1000);
    if (action->number[1])
        rest(action->number[1] * 1000);
    pthread_mutex_unlock(action->lock);
}

static void ask(const struct action *action)
{
    uint64_t bytes = action->number[1], sent = 0;
    char answer;
    if (send(action->file, &bytes, sizeof bytes, MSG_MORE | MSG_NOSIGNAL) != sizeof bytes)
        give_up(action);
    while (sent < bytes) {
        ssize_t more = send(action->file, buffer(bytes), bytes - sent, MSG_NOSIGNAL);
        if (more <= 0)
            give_up(action);
        sent += (uint64_t)more;
    }
    if (recv(action->file, &answer, 1, MSG_WAITALL) != 1)
        give_up(action);
}

static void flood(const struct action *action)
{
    static __thread struct mmsghdr messages[DATAGRAMS];
    static char data[64];
    struct iovec piece = {data, sizeof data};
    for (int i = 0; i < DATAGRAMS; i++)
        messages[i].msg_hdr = (struct msghdr){.msg_iov = &piece, .msg_iovlen = 1};
    for (uint64_t left = action->number[1]; left;) {
        int sent = sendmmsg(action->file, messages, left < DATAGRAMS ? (unsigned)left : DATAGRAMS, 0);
        /* ECONNREFUSED reports that the other end refused earlier datagrams. That does no harm. */
        if (sent < 0 && errno != ECONNREFUSED)
            give_up(action);
        left -= sent > 0 ? (uint64_t)sent : 0;
    }
}

static void serve(const struct action *action)
{
    int peer = accept4(action->file, NULL, NULL, SOCK_CLOEXEC), on = 1;
    if (peer < 0)
        give_up(action);
    setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (uint64_t left; recv(peer, &left, sizeof left, MSG_WAITALL) == sizeof left;) {
        while (left) {
            ssize_t got = recv(peer, buffer(1 << 16), left < 1 << 16 ? left : 1 << 16, 0);
            if (got <= 0)
                break;
            left -= (uint64_t)got;
        }
        if (left || send(peer, "", 1, MSG_NOSIGNAL) != 1)
            break;
    }
    close(peer);
}

static void path_of(const struct action *action, char *path, size_t room)
{
    if (*action->name == '/')
        snprintf(path, room, "%s", action->name);
    else
        snprintf(path, room, "%s/%s", files, action->name);
}

static const char *open_queue(struct action *action)
{
    char path[4400];
    path_of(action, path, sizeof path);
    if (mkfifo(path, 0600) && errno != EEXIST)
        return "cannot make the queue";
    action->file = open(path, O_RDWR | O_CLOEXEC);
    uint64_t depth = action->number[0] ? action->number[0] : 8;
    if (action->file < 0 || fcntl(action->file, F_SETPIPE_SZ, (int)(depth * BATCH_BYTES)) < 0)
        return "cannot open the queue";
    return NULL;
}

static const char *open_with(struct action *action, int flags, uint64_t bytes)
{
    char path[4400];
    struct stat found;
    path_of(action, path, sizeof path);
    action->file = open(path, flags | O_CLOEXEC);
    if (action->file < 0 || fstat(action->file, &found))
        return "cannot open the file";
    action->file_bytes = (uint64_t)found.st_size;
    if (!bytes || bytes % PAGE || bytes > action->file_bytes)
        return "not whole pages, or more than the file has";
    action->number[1] += !action->number[1] && action->act != touch;
    return NULL;
}

static const char *open_direct(struct action *action)
{
    return open_with(action, O_RDONLY | O_DIRECT, action->number[0]);
}

static const char *open_to_write(struct action *action)
{
    return open_with(action, O_WRONLY | O_DIRECT | O_DSYNC, action->number[0]);
}

static const char *open_to_save(struct action *action)
{
    return open_with(action, O_WRONLY, action->number[0]);
}

static const char *open_cached(struct action *action)
{
    return open_with(action, O_RDONLY, action->number[0]);
}

static const char *open_pages(struct action *action)
{
    return open_with(action, O_RDONLY, action->number[0] * PAGE);
}

static const char *nothing_to_open(struct action *action)
{
    return action->number[0] ? NULL : "how many bytes?";
}

/* The lock is robust: if the process that holds it is killed, the next process gets the lock. */
static const char *open_lock(struct action *action)
{
    char path[4400];
    struct stat found;
    path_of(action, path, sizeof path);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || flock(file, LOCK_EX) || fstat(file, &found) || ftruncate(file, PAGE))
        return "cannot open the lock";
    action->lock = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (action->lock == MAP_FAILED)
        return "cannot map the lock";
    if (!found.st_size) {
        pthread_mutexattr_t shared;
        pthread_mutexattr_init(&shared);
        pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(action->lock, &shared);
    }
    flock(file, LOCK_UN); /* closing the file would not release the lock: the mapping keeps the file open */
    close(file);
    return NULL;
}

static const char *address_of(const struct action *action, struct sockaddr_in *address)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)action->number[0])};
    return inet_pton(AF_INET, action->name, &address->sin_addr) == 1 ? NULL : "not an address";
}

static const char *connect_to(struct action *action)
{
    struct sockaddr_in address;
    const char *error = address_of(action, &address);
    int on = 1;
    for (uint64_t end = now_ns() + CONNECT_SECONDS * 1000000000ull; !error;) {
        action->file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (action->file < 0)
            return "no socket";
        if (!connect(action->file, (struct sockaddr *)&address, sizeof address))
            break;
        close(action->file);
        rest(20000000);
        if (now_ns() > end)
            error = "cannot connect";
    }
    if (!error)
        setsockopt(action->file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return error;
}

static const char *connect_to_flood(struct action *action)
{
    struct sockaddr_in address;
    const char *error = address_of(action, &address);
    action->file = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (!error && connect(action->file, (struct sockaddr *)&address, sizeof address))
        error = "cannot connect";
    return error;
}

static const char *listen_at(struct action *action)
{
    struct sockaddr_in address;
    const char *error = address_of(action, &address);
    int on = 1;
    action->file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(action->file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!error && (bind(action->file, (struct sockaddr *)&address, sizeof address) || listen(action->file, 8)))
        error = "cannot listen";
    return error;
}

static const struct verb {
    const char *word;
    int named; /* whether the item has a name before its numbers */
    void (*act)(const struct action *action);
    const char *(*open)(struct action *action);
} verbs[] = {
    {"give", 1, give, open_queue},
    {"take", 1, take, open_queue},
    {"read", 1, read_pieces, open_direct},
    {"write", 1, write_pieces, open_to_write},
    {"save", 1, save_pieces, open_to_save},
    {"cached", 1, read_pieces, open_cached},
    {"touch", 1, touch, open_pages},
    {"use", 0, use_memory, nothing_to_open},
    {"lock", 1, lock, open_lock},
    {"ask", 1, ask, connect_to},
    {"flood", 1, flood, connect_to_flood},
    {"serve", 1, serve, listen_at},
};

const char *parse_action(const struct action **made, const char *text)
{
    static char why[400];
    char copy[400];
    snprintf(copy, sizeof copy, "%s", text + 1);
    char *place_in = NULL;
    const char *word = strtok_r(copy, ":", &place_in);
    const struct verb *verb = NULL;
    for (size_t i = 0; word && i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(word, verbs[i].word))
            verb = &verbs[i];
    struct action *action = calloc(1, sizeof *action);
    if (!action)
        abort();
    const char *name = verb && verb->named ? strtok_r(NULL, ":", &place_in) : word;
    const char *error = verb && name ? NULL : "not an item";
    if (!error) {
        action->act = verb->act;
        snprintf(action->name, sizeof action->name, "%s", name);
        const char *number;
        for (int i = 0; i < 3 && (number = strtok_r(NULL, ":", &place_in)); i++)
            action->number[i] = strtoull(number, NULL, 10);
        error = verb->open(action);
    }
    if (error) {
        snprintf(why, sizeof why, "%.200s: %s", text, error);
        return why;
    }
    *made = action; /* never freed, because threads use it until the process ends */
    return NULL;
}

void act(const struct action *action)
{
    action->act(action);
}
