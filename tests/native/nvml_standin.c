/* SPDX-License-Identifier: Apache-2.0
 *
 * A small libnvidia-ml.so.1 for tests: two GPUs with known figures, behind the real symbol names, so that
 * the real Python binding is used on a machine without a driver.
 *
 *   NVML_STANDIN_FAIL  "function=code,function=code": these calls return that nvmlReturn_t
 *   NVML_STANDIN_HANG  a path: every call waits for as long as a file is there
 *   -DOLD_DRIVER       leaves out what drivers before 510 do not export
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int Return;
typedef struct Device { unsigned index; } *Handle;
enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };

static struct Device gpus[2] = {{0}, {1}};
static int initialized;

/* What the environment orders for this call, or SUCCESS. */
static Return ordered(const char *function) {
    const char *hang = getenv("NVML_STANDIN_HANG"), *orders = getenv("NVML_STANDIN_FAIL");
    size_t length = strlen(function);

    while (hang && access(hang, F_OK) == 0)
        usleep(2000);
    for (; orders && *orders; orders = strchr(orders, ',') ? strchr(orders, ',') + 1 : NULL)
        if (strncmp(orders, function, length) == 0 && orders[length] == '=')
            return atoi(orders + length + 1);
    return initialized || strncmp(function, "nvmlInit", 8) == 0 ? SUCCESS : UNINITIALIZED;
}

#define ORDERED() do { Return code = ordered(__func__); if (code) return code; } while (0)

static Return text(char *into, unsigned size, const char *from) {
    if (strlen(from) + 1 > size)
        return INSUFFICIENT_SIZE;
    strcpy(into, from);
    return SUCCESS;
}

Return nvmlInitWithFlags(unsigned flags) { (void)flags; ORDERED(); initialized = 1; return SUCCESS; }
Return nvmlShutdown(void) { ORDERED(); initialized = 0; return SUCCESS; }
const char *nvmlErrorString(Return code) { (void)code; return "An Error of the Stand-in"; }
Return nvmlSystemGetDriverVersion(char *version, unsigned size) { ORDERED(); return text(version, size, "580.65.06"); }
Return nvmlDeviceGetCount_v2(unsigned *count) { ORDERED(); *count = getenv("NVML_STANDIN_EMPTY") ? 0 : 2; return SUCCESS; }
Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *handle) {
    ORDERED();
    if (index > 1)
        return INVALID;
    *handle = &gpus[index];
    return SUCCESS;
}
Return nvmlDeviceGetName(Handle gpu, char *name, unsigned size) {
    ORDERED();
    return text(name, size, gpu->index ? "Stand-in \033[31mB200" : "Stand-in H100");
}
Return nvmlDeviceGetUUID(Handle gpu, char *uuid, unsigned size) {
    ORDERED();
    return text(uuid, size, gpu->index ? "GPU-bbbb" : "GPU-aaaa");
}
Return nvmlDeviceGetUtilizationRates(Handle gpu, unsigned rates[2]) {
    ORDERED();
    rates[0] = gpu->index ? 0 : 87;
    rates[1] = gpu->index ? 0 : 41;
    return SUCCESS;
}
Return nvmlDeviceGetMemoryInfo(Handle gpu, unsigned long long memory[3]) { /* total, free, used */
    ORDERED();
    memory[0] = 80ULL << 30;
    memory[1] = 59ULL << 30;
    memory[2] = (gpu->index ? 2ULL : 21ULL) << 30;
    return SUCCESS;
}
Return nvmlDeviceGetPowerUsage(Handle gpu, unsigned *milliwatts) { ORDERED(); *milliwatts = gpu->index ? 71500 : 640250; return SUCCESS; }
Return nvmlDeviceGetEnforcedPowerLimit(Handle gpu, unsigned *milliwatts) { (void)gpu; ORDERED(); *milliwatts = 700000; return SUCCESS; }
Return nvmlDeviceGetTemperature(Handle gpu, int sensor, unsigned *celsius) {
    ORDERED();
    if (sensor != 0)
        return INVALID;
    *celsius = gpu->index ? 34 : 83;
    return SUCCESS;
}
Return nvmlDeviceGetClockInfo(Handle gpu, int clock, unsigned *mhz) {
    ORDERED();
    *mhz = clock != 1 ? 1 : gpu->index ? 345 : 1410; /* 1: NVML_CLOCK_SM */
    return SUCCESS;
}
Return nvmlDeviceGetMaxClockInfo(Handle gpu, int clock, unsigned *mhz) { (void)gpu; ORDERED(); *mhz = clock != 1 ? 1 : 1980; return SUCCESS; }

static Return reasons(Handle gpu, unsigned long long *bits) { *bits = gpu->index ? 0x1 : 0x4 | 0x40 | 0x2; return SUCCESS; }

struct Process { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; };

static Return listed(const struct Process *from, unsigned n, unsigned *count, struct Process *into) {
    unsigned room = *count;

    *count = n;
    if (n == 0)
        return SUCCESS;
    if (room < n || !into)
        return INSUFFICIENT_SIZE;
    memcpy(into, from, n * sizeof(*from));
    return SUCCESS;
}
static const struct Process compute[] = {{100, 5ULL << 30, -1, -1}, {200, 7ULL << 30, -1, -1}, {300, -1ULL, -1, -1}};
static const struct Process graphics[] = {{300, -1ULL, -1, -1}, {400, 1ULL << 20, -1, -1}};
static const struct Process mps[] = {{200, 7ULL << 30, -1, -1}};

#define LIST(name, from) \
    Return name(Handle gpu, unsigned *count, struct Process *into) { \
        ORDERED(); \
        return listed(from, gpu->index ? 0 : sizeof(from) / sizeof(*from), count, into); \
    }

#ifdef OLD_DRIVER
Return nvmlDeviceGetCurrentClocksThrottleReasons(Handle gpu, unsigned long long *bits) { ORDERED(); return reasons(gpu, bits); }
LIST(nvmlDeviceGetComputeRunningProcesses_v2, compute)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, graphics)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, mps)
#else
Return nvmlDeviceGetCurrentClocksEventReasons(Handle gpu, unsigned long long *bits) { ORDERED(); return reasons(gpu, bits); }
LIST(nvmlDeviceGetComputeRunningProcesses_v3, compute)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, graphics)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, mps)
struct Memory2 { unsigned version; unsigned long long total, reserved, free, used; };
Return nvmlDeviceGetMemoryInfo_v2(Handle gpu, struct Memory2 *memory) {
    ORDERED();
    if (memory->version != (sizeof(*memory) | 2 << 24))
        return INVALID;
    memory->total = 80ULL << 30;
    memory->reserved = 1ULL << 30;
    memory->used = (gpu->index ? 1ULL : 20ULL) << 30;
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}
#endif
