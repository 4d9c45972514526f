/* SPDX-License-Identifier: Apache-2.0
 *
 * A small libnvidia-ml.so.1 behind the real symbol names: GPUs that show whatever a file says, so that the
 * real Python binding is used on a machine without a driver, and faults of devices can be played.
 *
 *     cc -shared -fPIC -O1 -o FOLDER/libnvidia-ml.so.1 nvml_standin.c
 *     NVML_STANDIN_SCENARIO=FILE LD_LIBRARY_PATH=FOLDER PROGRAM
 *
 * PROGRAM may be a whole stalltop: the binding (nvidia-ml-py) loads libnvidia-ml.so.1 by its bare name, so
 * the loader's search path decides. -DOLD_DRIVER leaves out what drivers before 510 do not export.
 *
 * FILE is read again at every call: write a new one beside it and rename it over the old one to change the
 * devices while they are watched. Without FILE, or a key in it, the defaults hold. Lines are KEY=VALUE, for
 * all devices, or INDEX.KEY=VALUE, for one, which goes before. Numbers are decimal, or hexadecimal with 0x.
 *
 *     devices=2                                 up to 16, read when the library is initialized
 *     driver=580.65.06
 *     name=Stand-in H100, uuid=GPU-INDEX
 *     utilization=0, memory_utilization=0       percent
 *     memory_total=85899345920, memory_used=0, memory_reserved=0      bytes
 *     power=70000, power_limit=700000           milliwatts
 *     temperature=34                            degrees Celsius
 *     sm_clock=1980, sm_clock_max=1980          MHz
 *     reasons=0                                 bits of nvmlClocksEventReasons
 *     link_generation=5, link_generation_max=5, link_width=16, link_width_max=16
 *     replays=0, ecc_corrected=0, ecc_uncorrected=0      totals
 *     remap_pending=0                           or 1
 *     power_violation=0, thermal_violation=0    ns, totals
 *     xids=                                     such as 79,31: whatever is added at the end happens now;
 *                                               an empty list begins anew
 *     lost=0                                    1: every call for it fails with NVML_ERROR_GPU_IS_LOST
 *     compute=, graphics=, mps=                 processes, such as 100:5368709120,300:- (bytes, or not known)
 *     fail.FUNCTION=CODE                        this function returns that nvmlReturn_t
 *     delay.FUNCTION=MS, delay=MS               this one, or every one, takes so long
 *     hang=0                                    1: every call waits until this is 0 again
 *
 * A total may be a rate, N/s: so much a second since the library was loaded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST 16
#define LINE 1024

typedef int Return;
typedef unsigned long long u64;
typedef struct Device { int index, watched, told; } *Handle;
enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, TIMEOUT = 10,
    LOST = 15,
};
enum { ALL = -1, XID_CRITICAL = 8 };

static struct Device gpus[MOST];
static int initialized, count;
static struct timespec loaded;

__attribute__((constructor)) static void load(void)
{
    clock_gettime(CLOCK_MONOTONIC, &loaded);
    for (int i = 0; i < MOST; i++)
        gpus[i].index = i;
}

/* What the scenario says of a device, in `line`, or `otherwise`. */
static const char *said(int index, const char *key, char line[LINE], const char *otherwise)
{
    const char *path = getenv("NVML_STANDIN_SCENARIO");
    FILE *file = path ? fopen(path, "re") : NULL;
    char read[LINE], own[LINE] = "", common[LINE] = "", name[128];
    int has_own = 0, has_common = 0;
    while (file && fgets(read, sizeof read, file)) {
        char *value = strchr(read, '=');
        if (*read == '#' || !value)
            continue;
        *value++ = 0;
        value[strcspn(value, "\n")] = 0;
        snprintf(name, sizeof name, "%d.%s", index, key);
        if (index != ALL && !strcmp(read, name) && (has_own = 1))
            strcpy(own, value);
        else if (!strcmp(read, key) && (has_common = 1))
            strcpy(common, value);
    }
    if (file)
        fclose(file);
    strcpy(line, has_own ? own : has_common ? common : otherwise);
    return line;
}

static u64 number(int index, const char *key, u64 otherwise)
{
    char line[LINE], *rest;
    u64 value = strtoull(said(index, key, line, ""), &rest, 0);
    if (rest == line)
        return otherwise;
    if (strcmp(rest, "/s"))
        return value;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)(now.tv_sec - loaded.tv_sec) + (double)(now.tv_nsec - loaded.tv_nsec) / 1e9;
    return (u64)((double)value * seconds);
}

/* What is ordered for this call, or SUCCESS. */
static Return ordered(const char *function, int index)
{
    char key[160];
    while (number(index, "hang", 0))
        usleep(2000);
    snprintf(key, sizeof key, "delay.%s", function);
    u64 delay_ms = number(index, key, number(index, "delay", 0));
    if (delay_ms)
        usleep((useconds_t)(1000 * delay_ms));
    snprintf(key, sizeof key, "fail.%s", function);
    Return code = (Return)number(index, key, SUCCESS);
    if (code)
        return code;
    if (index != ALL && number(index, "lost", 0))
        return LOST;
    return initialized || !strncmp(function, "nvmlInit", 8) ? SUCCESS : UNINITIALIZED;
}

#define OBEY(index)                              \
    do {                                         \
        Return code = ordered(__func__, index);  \
        if (code)                                \
            return code;                         \
    } while (0)

static Return text(char *into, unsigned size, const char *from)
{
    if (strlen(from) + 1 > size)
        return INSUFFICIENT_SIZE;
    strcpy(into, from);
    return SUCCESS;
}

Return nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    OBEY(ALL);
    initialized = 1;
    count = (int)number(ALL, "devices", 2);
    if (count > MOST)
        count = MOST;
    return SUCCESS;
}

Return nvmlShutdown(void)
{
    OBEY(ALL);
    initialized = 0;
    return SUCCESS;
}

const char *nvmlErrorString(Return code)
{
    (void)code;
    return "An Error of the Stand-in";
}

Return nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    char line[LINE];
    OBEY(ALL);
    return text(version, size, said(ALL, "driver", line, "580.65.06"));
}

Return nvmlDeviceGetCount_v2(unsigned *devices)
{
    OBEY(ALL);
    *devices = (unsigned)count;
    return SUCCESS;
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *handle)
{
    OBEY(ALL);
    if (index >= (unsigned)count)
        return INVALID;
    *handle = &gpus[index];
    return SUCCESS;
}

Return nvmlDeviceGetName(Handle gpu, char *name, unsigned size)
{
    char line[LINE];
    OBEY(gpu->index);
    return text(name, size, said(gpu->index, "name", line, "Stand-in H100"));
}

Return nvmlDeviceGetUUID(Handle gpu, char *uuid, unsigned size)
{
    char line[LINE], own[32];
    OBEY(gpu->index);
    snprintf(own, sizeof own, "GPU-%d", gpu->index);
    return text(uuid, size, said(gpu->index, "uuid", line, own));
}

/* Functions that give one number, most of them an unsigned. */
#define NUMBER(function, type, key, otherwise)                 \
    Return function(Handle gpu, type *value)                   \
    {                                                          \
        OBEY(gpu->index);                                      \
        *value = (type)number(gpu->index, key, otherwise);     \
        return SUCCESS;                                        \
    }
/* With an argument between, of which only one value is known here. */
#define NUMBER_OF(function, known, type, key, otherwise)       \
    Return function(Handle gpu, int which, type *value)        \
    {                                                          \
        OBEY(gpu->index);                                      \
        if (which != (known))                                  \
            return INVALID;                                    \
        *value = (type)number(gpu->index, key, otherwise);     \
        return SUCCESS;                                        \
    }

NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power", 70000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit", 700000)
NUMBER_OF(nvmlDeviceGetTemperature, 0, unsigned, "temperature", 34) /* NVML_TEMPERATURE_GPU */
NUMBER_OF(nvmlDeviceGetClockInfo, 1, unsigned, "sm_clock", 1980)    /* NVML_CLOCK_SM */
NUMBER_OF(nvmlDeviceGetMaxClockInfo, 1, unsigned, "sm_clock_max", 1980)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "link_generation", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "link_generation_max", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "link_width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "link_width_max", 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "replays", 0)

Return nvmlDeviceGetUtilizationRates(Handle gpu, unsigned rates[2])
{
    OBEY(gpu->index);
    rates[0] = (unsigned)number(gpu->index, "utilization", 0);
    rates[1] = (unsigned)number(gpu->index, "memory_utilization", 0);
    return SUCCESS;
}

static void memory_of(Handle gpu, u64 *total, u64 *reserved, u64 *used)
{
    *total = number(gpu->index, "memory_total", 80ULL << 30);
    *reserved = number(gpu->index, "memory_reserved", 0);
    *used = number(gpu->index, "memory_used", 0);
}

/* Of the first version: what is reserved counts as used. */
Return nvmlDeviceGetMemoryInfo(Handle gpu, u64 memory[3]) /* total, free, used */
{
    u64 reserved;
    OBEY(gpu->index);
    memory_of(gpu, &memory[0], &reserved, &memory[2]);
    memory[2] += reserved;
    memory[1] = memory[0] - memory[2];
    return SUCCESS;
}

Return nvmlDeviceGetTotalEccErrors(Handle gpu, int kind, int counter, u64 *errors)
{
    OBEY(gpu->index);
    if (counter != 0) /* NVML_VOLATILE_ECC */
        return INVALID;
    *errors = number(gpu->index, kind ? "ecc_uncorrected" : "ecc_corrected", 0);
    return SUCCESS;
}

Return nvmlDeviceGetRemappedRows(Handle gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                 unsigned *failed)
{
    OBEY(gpu->index);
    *corrected = *uncorrected = *failed = 0;
    *pending = (unsigned)number(gpu->index, "remap_pending", 0);
    return SUCCESS;
}

Return nvmlDeviceGetViolationStatus(Handle gpu, int policy, u64 violation[2]) /* reference time in us, ns */
{
    OBEY(gpu->index);
    if (policy > 1) /* NVML_PERF_POLICY_POWER, _THERMAL */
        return NOT_SUPPORTED;
    violation[0] = 1;
    violation[1] = number(gpu->index, policy ? "thermal_violation" : "power_violation", 0);
    return SUCCESS;
}

/* Events */

struct Event { Handle gpu; u64 type, data; unsigned gpu_instance, compute_instance; };
static int event_set;

/* How many XIDs the scenario lists, and the one at `place`. */
static int xids(Handle gpu, int place, u64 *xid)
{
    char line[LINE], *rest = line;
    int n = 0;
    said(gpu->index, "xids", line, "");
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
    OBEY(ALL);
    *set = &event_set;
    return SUCCESS;
}

Return nvmlEventSetFree(void *set)
{
    OBEY(ALL);
    return set == &event_set ? SUCCESS : INVALID;
}

Return nvmlDeviceRegisterEvents(Handle gpu, u64 types, void *set)
{
    u64 none;
    OBEY(gpu->index);
    if (set != &event_set || types != XID_CRITICAL)
        return INVALID;
    gpu->watched = 1;
    gpu->told = xids(gpu, -1, &none);
    return SUCCESS;
}

Return nvmlEventSetWait_v2(void *set, struct Event *event, unsigned timeout_ms)
{
    OBEY(ALL);
    if (set != &event_set)
        return INVALID;
    for (unsigned waited = 0;; waited += 2) {
        for (int i = 0; i < count; i++) {
            u64 xid = 0;
            if (!gpus[i].watched)
                continue;
            int listed = xids(&gpus[i], gpus[i].told, &xid);
            if (listed <= gpus[i].told) {
                gpus[i].told = listed; /* a list that was emptied begins anew */
                continue;
            }
            gpus[i].told++;
            *event = (struct Event){&gpus[i], XID_CRITICAL, xid, -1U, -1U};
            return SUCCESS;
        }
        if (waited >= timeout_ms)
            return TIMEOUT;
        usleep(2000);
    }
}

/* Processes */

struct Process { unsigned pid; u64 bytes; unsigned gpu_instance, compute_instance; };

static Return listed(Handle gpu, const char *key, unsigned *n, struct Process *into)
{
    char line[LINE], *rest = line;
    unsigned room = *n, found = 0;
    said(gpu->index, key, line, "");
    while (*rest) {
        struct Process process = {(unsigned)strtoul(rest, &rest, 10), -1ULL, -1U, -1U};
        if (*rest == ':' && rest[1] == '-')
            rest += 2;
        else if (*rest == ':')
            process.bytes = strtoull(rest + 1, &rest, 0);
        if (found < room && into)
            into[found] = process;
        found++;
        if (*rest++ != ',')
            break;
    }
    *n = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define LIST(function, key)                                                        \
    Return function(Handle gpu, unsigned *n, struct Process *into)                 \
    {                                                                              \
        OBEY(gpu->index);                                                          \
        return listed(gpu, key, n, into);                                          \
    }

#ifdef OLD_DRIVER
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, u64, "reasons", 0)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, "compute")
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, "graphics")
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, "mps")
#else
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, u64, "reasons", 0)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, "compute")
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, "graphics")
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mps")

struct Memory2 { unsigned version; u64 total, reserved, free, used; };

Return nvmlDeviceGetMemoryInfo_v2(Handle gpu, struct Memory2 *memory)
{
    OBEY(gpu->index);
    if (memory->version != (sizeof(*memory) | 2 << 24))
        return INVALID;
    memory_of(gpu, &memory->total, &memory->reserved, &memory->used);
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}
#endif
