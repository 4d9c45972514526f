/* SPDX-License-Identifier: Apache-2.0
 * Part of the stand-in NVML (nvml.h): what each GPU has several of: MIG devices, processes and their samples, XIDs,
 * GPM metrics.
 */
#include "nvml.h"

#include <time.h>

#pragma GCC visibility push(default)

/* MIG */

/* Stores the profile of MIG device `number_` in `profile`. Returns 0 if there is no such device. */
static int profile_of(Handle gpu, unsigned number_, char profile[64])
{
    char line[LINE];
    const char *at = said(&nvml_gpus[gpu->index][0], "instances", line, "");
    for (unsigned i = 0; i < number_ && at; i++)
        at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL;
    snprintf(profile, 64, "%.*s", at ? (int)strcspn(at, ",") : 0, at ? at : "");
    return *profile != 0;
}

Return nvmlDeviceGetName(Handle gpu, char *name, unsigned size)
{
    char line[LINE], profile[64], whole[LINE + 128];
    OBEY(gpu);
    said(&nvml_gpus[gpu->index][0], "name", line, "Stand-in H100");
    if (!gpu->part)
        return text(name, size, line);
    profile_of(gpu, (unsigned)gpu->part - 1, profile);
    snprintf(whole, sizeof whole, "%s MIG %s", line, profile);
    return text(name, size, said(gpu, "name", line, whole));
}

Return nvmlDeviceGetMaxMigDeviceCount(Handle gpu, unsigned *most)
{
    OBEY(gpu);
    *most = (unsigned)number(gpu, "count.nvmlDeviceGetMaxMigDeviceCount", 7);
    return SUCCESS;
}

Return nvmlDeviceGetMigDeviceHandleByIndex(Handle gpu, unsigned index, Handle *part)
{
    char profile[64];
    OBEY(gpu);
    if (index >= MOST_PARTS)
        return INVALID;
    if (!number(gpu, "mig", 0) || !profile_of(gpu, index, profile))
        return NOT_FOUND;
    *part = &nvml_gpus[gpu->index][index + 1];
    return SUCCESS;
}

#define INSTANCE_ID(function, key, otherwise)           \
    Return function(Handle part, unsigned *id)          \
    {                                                   \
        OBEY(part);                                     \
        if (!part->part)                                \
            return INVALID;                             \
        *id = (unsigned)number(part, key, otherwise);   \
        return SUCCESS;                                 \
    }

INSTANCE_ID(nvmlDeviceGetGpuInstanceId, "gpu_instance", (u64)part->part)
INSTANCE_ID(nvmlDeviceGetComputeInstanceId, "compute_instance", 0)

/* Events */

struct Event { Handle gpu; u64 type, data; unsigned gpu_instance, compute_instance; };
enum { XID_CRITICAL = 8 };
static int event_set;

/* Returns how many XIDs the scenario lists. Stores the XID at `place` of this list in `xid`. */
static int xids(Handle gpu, int place, u64 *xid)
{
    char line[LINE], *rest = line;
    int n = 0;
    said(gpu, "xids", line, "");
    while (*rest) {
        u64 value = strtoull(rest, &rest, 0);
        if (n++ == place)
            *xid = value;
        rest += *rest == ',';
        if (rest[-1] != ',' && *rest)
            break;
    }
    return n;
}

Return nvmlEventSetCreate(void **set)
{
    OBEY(NULL);
    *set = &event_set;
    return SUCCESS;
}

Return nvmlEventSetFree(void *set)
{
    OBEY(NULL);
    return set == &event_set ? SUCCESS : INVALID;
}

Return nvmlDeviceRegisterEvents(Handle gpu, u64 types, void *set)
{
    u64 none;
    OBEY(gpu);
    if (set != &event_set || types != XID_CRITICAL)
        return INVALID;
    gpu->watched = 1;
    gpu->told = xids(gpu, -1, &none);
    return SUCCESS;
}

Return nvmlEventSetWait_v2(void *set, struct Event *event, unsigned timeout_ms)
{
    OBEY(NULL);
    if (set != &event_set)
        return INVALID;
    for (unsigned waited = 0;; waited += 2) {
        for (int i = 0; i < nvml_count; i++) {
            Handle gpu = &nvml_gpus[i][0];
            u64 xid = 0;
            if (!gpu->watched)
                continue;
            int listed = xids(gpu, gpu->told, &xid);
            if (listed <= gpu->told) {
                gpu->told = listed; /* if the list has become shorter, XIDs added to it from now on are new */
                continue;
            }
            gpu->told++;
            *event = (struct Event){gpu, XID_CRITICAL, xid, -1U, -1U};
            return SUCCESS;
        }
        if (waited >= timeout_ms)
            return TIMEOUT;
        usleep(2000);
    }
}

/* Processes */

struct Process { unsigned pid; u64 bytes; unsigned gpu_instance, compute_instance; };

/*
 * Returns the number at `*rest`, which a colon precedes, and sets `*rest` to the text after it. Returns
 * `otherwise` if there is no number, or if it is `-` (not known).
 */
static u64 next(char **rest, u64 otherwise)
{
    if (**rest != ':')
        return otherwise;
    (*rest)++;
    if (**rest == '-') {
        (*rest)++;
        return otherwise;
    }
    return strtoull(*rest, rest, 0);
}

static Return listed(const char *function, Handle gpu, const char *key, unsigned *n, struct Process *into)
{
    char line[LINE], count[160], *rest = line;
    unsigned room = *n, found = 0;
    said(gpu, key, line, "");
    while (*rest) {
        struct Process process = {.pid = (unsigned)strtoull(rest, &rest, 0)};
        process.bytes = next(&rest, -1ULL);
        process.gpu_instance = (unsigned)next(&rest, -1U);
        process.compute_instance = (unsigned)next(&rest, -1U);
        if (found < room && into)
            into[found] = process;
        found++;
        if (*rest++ != ',')
            break;
    }
    snprintf(count, sizeof count, "count.%s", function);
    *n = (unsigned)number(gpu, count, found);
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define LIST(function, key)                                        \
    Return function(Handle gpu, unsigned *n, struct Process *into) \
    {                                                              \
        OBEY(gpu);                                                 \
        return listed(__func__, gpu, key, n, into);                \
    }

#ifdef OLD_DRIVER
LIST(nvmlDeviceGetComputeRunningProcesses_v2, "compute")
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps")
#else
LIST(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps")

struct Sample { unsigned pid; u64 time_us; unsigned sm, memory, encoder, decoder; };

Return nvmlDeviceGetProcessUtilization(Handle gpu, struct Sample *into, unsigned *n, u64 since_us)
{
    char line[LINE], *rest = line;
    unsigned room = *n, found = 0;
    struct timespec now;
    OBEY(gpu);
    if (number(gpu, "mig", 0))
        return NOT_SUPPORTED;
    clock_gettime(CLOCK_REALTIME, &now);
    u64 now_us = (u64)now.tv_sec * 1000000 + (u64)now.tv_nsec / 1000;
    said(gpu, "samples", line, "");
    while (*rest) {
        struct Sample sample = {.pid = (unsigned)strtoull(rest, &rest, 0)};
        sample.sm = (unsigned)next(&rest, 0);
        sample.memory = (unsigned)next(&rest, 0);
        sample.encoder = (unsigned)next(&rest, 0);
        sample.decoder = (unsigned)next(&rest, 0);
        sample.time_us = now_us - 1000 * next(&rest, 0);
        if (sample.time_us > since_us) {
            if (found < room && into)
                into[found] = sample;
            found++;
        }
        if (*rest++ != ',')
            break;
    }
    *n = (unsigned)number(gpu, "count.nvmlDeviceGetProcessUtilization", found);
    return !found ? NOT_FOUND : found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* GPM */

struct Metric { unsigned id; Return code; double value; const char *names[3]; };
struct Metrics { unsigned version, n; Handle *before, *after; struct Metric metrics[]; };
struct Support { unsigned version, supported; };

Return nvmlGpmQueryDeviceSupport(Handle gpu, struct Support *support)
{
    OBEY(gpu);
    support->supported = (unsigned)number(gpu, "gpm", 0);
    return SUCCESS;
}

Return nvmlGpmSampleAlloc(Handle **sample)
{
    OBEY(NULL);
    *sample = calloc(1, sizeof **sample);
    return SUCCESS;
}

Return nvmlGpmSampleFree(Handle *sample)
{
    OBEY(NULL);
    free(sample);
    return SUCCESS;
}

Return nvmlGpmSampleGet(Handle gpu, Handle *sample)
{
    OBEY(gpu);
    *sample = gpu;
    return SUCCESS;
}

Return nvmlGpmMetricsGet(struct Metrics *metrics)
{
    char key[64], line[LINE];
    OBEY(*metrics->after);
    if (metrics->version != 1 || !*metrics->before)
        return INVALID;
    for (unsigned i = 0; i < metrics->n; i++) {
        snprintf(key, sizeof key, "metric.%u", metrics->metrics[i].id);
        metrics->metrics[i].code = is_said(*metrics->after, key) ? SUCCESS : NOT_SUPPORTED;
        metrics->metrics[i].value = strtod(said(*metrics->after, key, line, "0"), NULL);
    }
    return SUCCESS;
}
#endif
