/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "standin.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern struct entry __start_standin[] __attribute__((visibility("hidden")));
extern struct entry __stop_standin[] __attribute__((visibility("hidden")));

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Returns a random number between 0 and 1, both excluded. Uses xorshift64*, which is seeded per thread. */
static double random_share(void)
{
    static __thread uint64_t state;
    if (!state)
        state = (((uint64_t)syscall(SYS_gettid) * 0x9e3779b97f4a7c15ull) ^ now_ns()) | 1;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return ((double)((state * 0x2545f4914f6cdd1dull) >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(random_share())) * cos(2 * M_PI * random_share());
}

static uint64_t duration_ns(const struct entry *entry)
{
    double ns = entry->a;
    if (entry->shape == UNIFORM)
        ns += (entry->b - entry->a) * random_share();
    else if (entry->shape == LOGNORMAL)
        ns *= exp(entry->b * normal());
    if (entry->spike_share > 0 && random_share() < entry->spike_share)
        ns *= entry->spike_factor;
    if (entry->factor && *entry->factor > 0)
        ns *= *entry->factor;
    return ns < 0 ? 0 : (uint64_t)ns;
}

static void wait_until(enum how how, uint64_t end)
{
    for (uint64_t now = now_ns(); now < end; now = now_ns()) {
        uint64_t left = end - now;
        struct timespec rest = {(time_t)(left / 1000000000ull), (long)(left % 1000000000ull)};
        uint32_t word = 0;
        switch (how) {
        case SLEEP:
            nanosleep(&rest, NULL);
            break;
        case FUTEX:
            syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &rest, NULL, 0);
            break;
        case POLL:
            ppoll(NULL, 0, &rest, NULL);
            break;
        default:
#ifdef __x86_64__
            __builtin_ia32_pause();
#endif
            break;
        }
    }
}

static void meet(struct entry *entry)
{
    uint64_t turn = __atomic_add_fetch(&entry->turns, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(entry->arrived, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(entry->arrived, __ATOMIC_ACQUIRE) < turn * (uint64_t)entry->b)
        wait_until(POLL, now_ns() + 200000);
    wait_until(POLL, now_ns() + (uint64_t)entry->a);
}

int standin_slow(struct entry *entry)
{
    if (entry->how == HOLD)
        while (access(entry->path, F_OK) == 0)
            wait_until(SLEEP, now_ns() + 2000000);
    else if (entry->how == MEET)
        meet(entry);
    else if (entry->how != AT_ONCE)
        wait_until(entry->how, now_ns() + duration_ns(entry));
    return entry->error_share > 0 && random_share() < entry->error_share ? entry->error_code : 0;
}

uint64_t standin_address(size_t bytes)
{
    static uint64_t next = 0x7e0000000000ull;
    return __atomic_fetch_add(&next, (bytes + 511) & ~511ull, __ATOMIC_RELAXED);
}

static int word_in(const char *word, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(word, words[i]))
            return i;
    return -1;
}

static void *shared_page(const char *path)
{
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *place = MAP_FAILED;
    if (file >= 0 && !ftruncate(file, 4096))
        place = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (place == MAP_FAILED) {
        fprintf(stderr, "stand-in library: cannot use %s\n", path);
        _exit(2);
    }
    close(file);
    return place;
}

static void read_line(const char *line)
{
    static const char *const hows[] = {"at-once", "spin", "sleep", "futex", "poll", "hold", "meet"};
    static const char *const shapes[] = {"fixed", "uniform", "lognormal"};
    char name[80], how[16], shape[16], path[512] = "";
    struct entry read = {0};
    int fields = sscanf(line, "%79s %15s %15s %lf %lf %lf %lf %lf %d %511s", name, how, shape, &read.a, &read.b,
                        &read.spike_share, &read.spike_factor, &read.error_share, &read.error_code, path);
    int how_index = fields >= 9 ? word_in(how, hows, 7) : -1;
    int shape_index = fields >= 9 ? word_in(shape, shapes, 3) : -1;
    if (how_index < 0 || shape_index < 0 || ((how_index == HOLD || how_index == MEET) && !*path)) {
        fprintf(stderr, "stand-in library: not understood: %s", line);
        _exit(2);
    }
    for (struct entry *entry = __start_standin; entry < __stop_standin; entry++) {
        if (strcmp(entry->name, name))
            continue;
        read.name = entry->name;
        read.how = (enum how)how_index;
        read.shape = (enum shape)shape_index;
        read.path = *path ? strdup(path) : NULL;
        if (read.how == MEET)
            read.arrived = shared_page(path);
        else if (read.how != HOLD && *path)
            read.factor = shared_page(path);
        *entry = read;
    }
}

__attribute__((constructor)) static void read_table(void)
{
    const char *path = getenv("STALLTOP_DEMO_TABLE");
    if (!path || !*path)
        return;
    FILE *file = fopen(path, "re");
    if (!file) {
        fprintf(stderr, "stand-in library: cannot open %s\n", path);
        _exit(2);
    }
    char line[1024];
    while (fgets(line, sizeof line, file))
        if (*line != '\n')
            read_line(line);
    fclose(file);
}
