/* SPDX-License-Identifier: Apache-2.0
 * Part of the stand-in NVML (nvml.h): the list of GPUs, and the figures of each.
 */
#include "nvml.h"

#pragma GCC visibility push(default)

Return nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    OBEY(NULL);
    nvml_initialized = 1;
    nvml_count = (int)number(NULL, "devices", 2);
    if (nvml_count > MOST)
        nvml_count = MOST;
    return SUCCESS;
}

Return nvmlShutdown(void)
{
    OBEY(NULL);
    nvml_initialized = 0;
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
    OBEY(NULL);
    return text(version, size, said(NULL, "driver", line, "580.65.06"));
}

Return nvmlDeviceGetCount_v2(unsigned *devices)
{
    OBEY(NULL);
    *devices = (unsigned)number(NULL, "count.nvmlDeviceGetCount_v2", (u64)nvml_count);
    return SUCCESS;
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *handle)
{
    OBEY(index < MOST ? &nvml_gpus[index][0] : NULL);
    if (index >= (unsigned)nvml_count)
        return INVALID;
    *handle = &nvml_gpus[index][0];
    return SUCCESS;
}

Return nvmlDeviceGetUUID(Handle gpu, char *uuid, unsigned size)
{
    char line[LINE], own[64];
    OBEY(gpu);
    if (gpu->part)
        snprintf(own, sizeof own, "MIG-%d-%d", gpu->index, gpu->part - 1);
    else
        snprintf(own, sizeof own, "GPU-%d", gpu->index);
    return text(uuid, size, said(gpu, "uuid", line, own));
}

struct Pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

Return nvmlDeviceGetPciInfo_v3(Handle gpu, struct Pci *pci)
{
    char line[LINE], own[32];
    OBEY(gpu);
    memset(pci, 0, sizeof *pci);
    snprintf(own, sizeof own, "00000000:%02X:00.0", gpu->index + 1);
    pci->bus = (unsigned)gpu->index + 1;
    return text(pci->bus_id, sizeof pci->bus_id, said(gpu, "bus", line, own));
}

/* Functions that return one number, in most cases an unsigned. */
#define NUMBER(function, type, key, otherwise)      \
    Return function(Handle gpu, type *value)        \
    {                                               \
        OBEY(gpu);                                  \
        *value = (type)number(gpu, key, otherwise); \
        return SUCCESS;                             \
    }

NUMBER(nvmlDeviceGetMinorNumber, unsigned, "minor", (u64)gpu->index)
NUMBER(nvmlDeviceGetPowerUsage, unsigned, "power", 70000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit", 700000)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, "power_limit_default", 700000)

Return nvmlDeviceGetPowerManagementLimitConstraints(Handle gpu, unsigned *least, unsigned *most)
{
    OBEY(gpu);
    *least = (unsigned)number(gpu, "power_limit_min", 200000);
    *most = (unsigned)number(gpu, "power_limit_max", 700000);
    return SUCCESS;
}

NUMBER(nvmlDeviceGetTotalEnergyConsumption, u64, "energy", 0)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "link_generation", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "link_generation_max", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "link_width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "link_width_max", 16)
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "replays", 0)
NUMBER(nvmlDeviceGetPerformanceState, unsigned, "performance_state", 0)
NUMBER(nvmlDeviceGetPersistenceMode, unsigned, "persistence", 1)
NUMBER(nvmlDeviceGetComputeMode, unsigned, "compute_mode", 0)
NUMBER(nvmlDeviceGetVirtualizationMode, unsigned, "virtualization", 0)
NUMBER(nvmlDeviceGetNumFans, unsigned, "fans", 0)
#ifdef OLD_DRIVER
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, u64, "reasons", 0)
#else
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, u64, "reasons", 0)
#endif

/*
 * Functions that return one number. An argument selects the number. If `keys` has no name for the argument,
 * the call fails.
 */
#define NUMBER_OF(function, type, keys, otherwise)                                            \
    Return function(Handle gpu, unsigned which, type *value)                                  \
    {                                                                                         \
        static const char *const key[] = keys;                                                \
        static const u64 usual[] = otherwise;                                                 \
        OBEY(gpu);                                                                            \
        if (which >= sizeof key / sizeof *key || !key[which])                                 \
            return INVALID;                                                                   \
        *value = (type)number(gpu, key[which], usual[which]);                                 \
        return SUCCESS;                                                                       \
    }
#define LIST_OF(...) {__VA_ARGS__}

NUMBER_OF(nvmlDeviceGetTemperature, unsigned, LIST_OF("temperature"), LIST_OF(34))
NUMBER_OF(nvmlDeviceGetTemperatureThreshold, unsigned, LIST_OF("shutdown", "slowdown"), LIST_OF(92, 87))
NUMBER_OF(nvmlDeviceGetClockInfo, unsigned, LIST_OF(NULL, "sm_clock", "memory_clock", "video_clock"),
          LIST_OF(0, 1980, 2619, 1545))
NUMBER_OF(nvmlDeviceGetMaxClockInfo, unsigned,
          LIST_OF(NULL, "sm_clock_max", "memory_clock_max", "video_clock_max"), LIST_OF(0, 1980, 2619, 1545))
NUMBER_OF(nvmlDeviceGetFanSpeed_v2, unsigned, LIST_OF("fan", "fan"), LIST_OF(30, 30))
NUMBER_OF(nvmlDeviceGetPcieThroughput, unsigned, LIST_OF("pcie_tx", "pcie_rx"), LIST_OF(0, 0))

/*
 * Functions that return two numbers. The second number is the time over which the first was measured, in us,
 * or the mode after the next start.
 */
#define PAIR(function, key, otherwise, second)                      \
    Return function(Handle gpu, unsigned *value, unsigned *and)     \
    {                                                               \
        OBEY(gpu);                                                  \
        *value = (unsigned)number(gpu, key, otherwise);             \
        *and = second;                                              \
        return SUCCESS;                                             \
    }

PAIR(nvmlDeviceGetEncoderUtilization, "encoder", 0, 100000)
PAIR(nvmlDeviceGetDecoderUtilization, "decoder", 0, 100000)
#ifndef OLD_DRIVER
PAIR(nvmlDeviceGetJpgUtilization, "jpeg", 0, 100000)
#endif
PAIR(nvmlDeviceGetEccMode, "ecc", 1, *value)
PAIR(nvmlDeviceGetMigMode, "mig", 0, *value)

Return nvmlDeviceGetUtilizationRates(Handle gpu, unsigned rates[2])
{
    OBEY(gpu);
    if (number(gpu, "mig", 0))
        return NOT_SUPPORTED;
    rates[0] = (unsigned)number(gpu, "utilization", 0);
    rates[1] = (unsigned)number(gpu, "memory_utilization", 0);
    return SUCCESS;
}

static void memory_of(Handle gpu, u64 *total, u64 *reserved, u64 *used)
{
    *total = number(gpu, "memory_total", gpu->part ? 10ULL << 30 : 80ULL << 30);
    *reserved = number(gpu, "memory_reserved", 0);
    *used = number(gpu, "memory_used", 0);
}

/* First version of the struct, in which reserved memory counts as used. */
Return nvmlDeviceGetMemoryInfo(Handle gpu, u64 memory[3]) /* total, free, used */
{
    u64 reserved;
    OBEY(gpu);
    memory_of(gpu, &memory[0], &reserved, &memory[2]);
    memory[2] += reserved;
    memory[1] = memory[0] - memory[2];
    return SUCCESS;
}

#ifndef OLD_DRIVER
struct Margin { unsigned version; int celsius; };

Return nvmlDeviceGetMarginTemperature(Handle gpu, struct Margin *margin)
{
    OBEY(gpu);
    if (margin->version != (sizeof(*margin) | 1 << 24))
        return INVALID;
    margin->celsius = (int)(number(gpu, "slowdown", 87) - number(gpu, "temperature", 34));
    return SUCCESS;
}

struct Memory2 { unsigned version; u64 total, reserved, free, used; };

Return nvmlDeviceGetMemoryInfo_v2(Handle gpu, struct Memory2 *memory)
{
    OBEY(gpu);
    if (memory->version != (sizeof(*memory) | 2 << 24))
        return INVALID;
    memory_of(gpu, &memory->total, &memory->reserved, &memory->used);
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}
#endif

Return nvmlDeviceGetBAR1MemoryInfo(Handle gpu, u64 memory[3]) /* total, free, used */
{
    OBEY(gpu);
    memory[0] = number(gpu, "bar1_total", 128ULL << 30);
    memory[2] = number(gpu, "bar1_used", 0);
    memory[1] = memory[0] - memory[2];
    return SUCCESS;
}

Return nvmlDeviceGetTotalEccErrors(Handle gpu, unsigned kind, unsigned counter, u64 *errors)
{
    static const char *const key[2][2] = {
        {"ecc_corrected", "ecc_uncorrected"},
        {"ecc_corrected_lifetime", "ecc_uncorrected_lifetime"},
    };
    OBEY(gpu);
    if (kind > 1 || counter > 1)
        return INVALID;
    *errors = number(gpu, key[counter][kind], 0);
    return SUCCESS;
}

Return nvmlDeviceGetRemappedRows(Handle gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                 unsigned *failed)
{
    OBEY(gpu);
    *corrected = (unsigned)number(gpu, "remapped_corrected", 0);
    *uncorrected = (unsigned)number(gpu, "remapped_uncorrected", 0);
    *pending = (unsigned)number(gpu, "remap_pending", 0);
    *failed = (unsigned)number(gpu, "remap_failed", 0);
    return SUCCESS;
}

Return nvmlDeviceGetViolationStatus(Handle gpu, unsigned policy, u64 violation[2]) /* reference time, us; throttled, ns */
{
    static const char *const key[] = {"power", "thermal", "sync_boost", "board_limit", NULL, "reliability"};
    char name[64];
    OBEY(gpu);
    if (policy >= sizeof key / sizeof *key || !key[policy])
        return NOT_SUPPORTED;
    snprintf(name, sizeof name, "%s_violation", key[policy]);
    violation[0] = 1;
    violation[1] = number(gpu, name, 0);
    return SUCCESS;
}

Return nvmlDeviceGetNvLinkState(Handle gpu, unsigned link, unsigned *active)
{
    OBEY(gpu);
    if (link >= number(gpu, "field.91", 0))
        return INVALID;
    *active = link < number(gpu, "links_up", 0);
    return SUCCESS;
}

#ifndef OLD_DRIVER
struct Field { unsigned id, scope; long long time, latency; unsigned type; Return code; u64 value; };

Return nvmlDeviceGetFieldValues(Handle gpu, int n, struct Field *values)
{
    char key[64];
    OBEY(gpu);
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "field.%u", values[i].id);
        values[i].code = is_said(gpu, key) ? SUCCESS : NOT_SUPPORTED;
        values[i].type = 3; /* NVML_VALUE_TYPE_UNSIGNED_LONG_LONG */
        values[i].value = number(gpu, key, 0);
    }
    return SUCCESS;
}
#endif
