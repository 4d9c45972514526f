/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that calls CUDA and NCCL functions on command and counts its calls exactly.
 *
 *     caller [-g CGROUP_PROCS]... [-n NAME] [-d FILES] [FOLDER]
 *
 * -g      join the cgroup of this cgroup.procs file before anything else
 * -n      the process's name (comm)
 * -d      the folder of the files that items name
 * FOLDER  the folder of the libraries; a library is loaded when a function of it is needed first
 *
 * Commands are lines of stdin; each is answered by `ok …` or `error …` on stdout. At the end of stdin the
 * process ends at once, whatever its threads are doing.
 *
 *     load SYMBOL…                  load the libraries of these functions, without a call
 *     library KIND PATH             use this file as runtime, driver or nccl library from now on
 *     join NAME RANK RANKS          become a rank of this NCCL communicator, which collectives then use
 *     kernels MANGLED…              load a module in place of the previous one, look up these CUDA kernels
 *     rename MANGLED…               register the CUDA kernels anew under these names, as if another library had
 *                                   been loaded at the same addresses
 *     run THREADS CYCLES ITEM…      each thread makes the calls of all items CYCLES times; answers with the ns
 *                                   until all threads have ended
 *     burst THREADS CYCLES ITEM…    like `run`, but without timing each call
 *     start THREADS CYCLES ITEM…    like `run`, but without waiting for the end; CYCLES 0: until `stop`
 *     wait, stop, finish            for the threads of `start`; `stop` ends them after their current call,
 *                                   `finish` after their current cycle
 *     children COUNT CYCLES ITEM…   fork COUNT processes, one after the other; each runs the items, then exits
 *     report                        answer with `made SYMBOL CALLS ERRORS BYTES TOTAL_NS MAX_NS INDEX:COUNT…` lines
 *     exec, exec-thread             replace this program by itself, from the main or another thread
 *     exit CODE, kill               end, regularly or by SIGKILL
 *
 * An item is SYMBOL[:COUNT[:SIZE[:KIND]]], SIZE being BYTES (of collectives: ELEMENTS) or WIDTHxHEIGHT[xDEPTH],
 * and KIND a cudaMemcpyKind or ncclDataType_t; or ~N, a pause of N us; or !N, N us of CPU time; or what host.h
 * lists. The SIZE of a launch is the number of its CUDA kernel: one of kernels.c, or for the driver one of those
 * that were looked up. The SIZE of cudaSetDevice is an ordinal.
 * An item that frees memory frees the last allocation of any thread, or a null pointer if there is none.
 */
#define _GNU_SOURCE
#include "caller.h"
#include "kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_THREADS 256

static char **arguments;
static int threads_count;
static pthread_t threads[MAX_THREADS];
static volatile int stopping;

struct work {
    const struct plan *plan;
    uint64_t cycles;
    int timed;
    pthread_barrier_t *start;
};

static void *work(void *argument)
{
    struct work own = *(struct work *)argument;
    struct tally *tallies[MAX_ITEMS];
    open_tallies(own.plan, tallies, own.timed);
    pthread_barrier_wait(own.start);
    for (uint64_t n = 0; (own.cycles == 0 || n < own.cycles) && !stopping; n++)
        run_cycle(own.plan, tallies, &stopping);
    return NULL;
}

static void wait_for_threads(void)
{
    while (threads_count)
        pthread_join(threads[--threads_count], NULL);
    stopping = 0;
}

/* The plan is never freed, because background threads use it. A process makes only a few plans. */
static const char *start_threads(char *text, int timed, uint64_t *began)
{
    char *rest = text;
    long count = strtol(rest, &rest, 10);
    unsigned long long cycles = strtoull(rest, &rest, 10);
    if (count < 1 || threads_count + count > MAX_THREADS)
        return "1 to 256 threads at a time";
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return "no memory";
    const char *error = parse_plan(plan, rest);
    if (error) {
        free(plan);
        return error;
    }
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)count + 1);
    struct work shared = {plan, cycles, timed, &barrier};
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[threads_count], NULL, work, &shared) == 0)
            threads_count++;
        else
            abort();
    *began = now_ns();
    pthread_barrier_wait(&barrier);
    /*
     * Threads copy `shared` before they wait at the barrier. Destroying the barrier waits until all threads
     * have left it (glibc).
     */
    pthread_barrier_destroy(&barrier);
    return NULL;
}

static const char *make_children(char *text)
{
    char *rest = text;
    unsigned long long count = strtoull(rest, &rest, 10), cycles = strtoull(rest, &rest, 10), made = 0;
    static struct plan plan;
    static const volatile int never;
    const char *error = parse_plan(&plan, rest);
    struct tally *tallies[MAX_ITEMS];
    for (; !error && made < count; made++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            open_tallies(&plan, tallies, 0);
            for (unsigned long long n = 0; n < cycles; n++)
                run_cycle(&plan, tallies, &never);
            _exit(0);
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child || status)
            error = "a child failed";
    }
    if (!error)
        count_elsewhere(&plan, made * cycles);
    return error;
}

static void *replace_program(void *unused)
{
    (void)unused;
    execv("/proc/self/exe", arguments);
    perror("execv");
    _exit(3);
}

static const char *exec_from(int other_thread)
{
    pthread_t thread;
    fflush(stdout);
    if (!other_thread)
        replace_program(NULL);
    if (pthread_create(&thread, NULL, replace_program, NULL))
        return "no thread";
    pause();
    return "still here";
}

static const char *load(char *symbols)
{
    static struct plan plan;
    return parse_plan(&plan, symbols);
}

static const char *use_library(char *text)
{
    char which[16], path[4096];
    if (sscanf(text, "%15s %4095s", which, path) != 2)
        return "library KIND PATH";
    return choose_library(which, path);
}

static const char *join(const char *text)
{
    char name[120];
    int rank, ranks;
    if (sscanf(text, "%119s %d %d", name, &rank, &ranks) != 3)
        return "join NAME RANK RANKS";
    return join_communicator(name, rank, ranks);
}

/* Executes a command. Returns NULL, or an error. Text in `answer` is printed after `ok`. */
static const char *obey(const char *command, char *rest, char *answer, size_t room)
{
    uint64_t began = 0;
    const char *error = NULL;
    if (!strcmp(command, "run") || !strcmp(command, "burst")) {
        error = threads_count ? "threads are running" : start_threads(rest, *command == 'r', &began);
        if (!error) {
            wait_for_threads();
            snprintf(answer, room, " %llu", (unsigned long long)(now_ns() - began));
        }
    } else if (!strcmp(command, "start")) {
        error = start_threads(rest, 1, &began);
    } else if (!strcmp(command, "wait") || !strcmp(command, "stop") || !strcmp(command, "finish")) {
        stopping = *command == 's' ? STOP_NOW : *command == 'f' ? STOP_AFTER_CYCLE : GO_ON;
        wait_for_threads();
    } else if (!strcmp(command, "children")) {
        error = make_children(rest);
    } else if (!strcmp(command, "report")) {
        report();
    } else if (!strcmp(command, "load")) {
        error = load(rest);
    } else if (!strcmp(command, "join")) {
        error = join(rest);
    } else if (!strcmp(command, "kernels")) {
        error = look_up_kernels(rest);
    } else if (!strcmp(command, "rename")) {
        error = rename_kernels(rest);
    } else if (!strcmp(command, "library")) {
        error = use_library(rest);
    } else if (!strcmp(command, "exec") || !strcmp(command, "exec-thread")) {
        error = exec_from(command[4] != 0);
    } else if (!strcmp(command, "exit")) {
        fflush(stdout);
        exit(atoi(rest));
    } else if (!strcmp(command, "kill")) {
        kill(getpid(), SIGKILL);
    } else {
        error = "unknown command";
    }
    return error;
}

static void join_cgroup(const char *procs)
{
    int file = open(procs, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, "0", 1) != 1) {
        fprintf(stderr, "cannot join %s: %s\n", procs, strerror(errno));
        exit(2);
    }
    close(file);
}

int main(int count, char **values)
{
    arguments = values;
    for (int option; (option = getopt(count, values, "g:n:d:")) != -1;) {
        if (option == 'g')
            join_cgroup(optarg);
        else if (option == 'n')
            prctl(PR_SET_NAME, optarg);
        else if (option == 'd')
            choose_files(optarg);
        else
            return 2;
    }
    if (optind < count)
        choose_folder(values[optind]);
    /* the program that started this one handles Ctrl-C, and then closes stdin */
    signal(SIGINT, SIG_IGN);
    /* Without this line, the Linux kernel may end pauses and waits up to 50 us late (timer slack). */
    prctl(PR_SET_TIMERSLACK, 1);
    printf("ok %d\n", (int)getpid());
    fflush(stdout);
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, stdin) > 0) {
        char command[16] = "", answer[64] = "";
        int used = 0;
        line[strcspn(line, "\n")] = 0;
        sscanf(line, "%15s %n", command, &used);
        const char *error = obey(command, line + (used ? used : (int)strlen(line)), answer, sizeof answer);
        if (error)
            printf("error %s\n", error);
        else
            printf("ok%s\n", answer);
        fflush(stdout);
    }
    _exit(0);
}
