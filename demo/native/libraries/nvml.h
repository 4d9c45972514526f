/* SPDX-License-Identifier: Apache-2.0
 *
 * A stand-in libnvidia-ml.so.1 with the real symbol names. It reports GPUs whose figures a file contains, so that the
 * real Python binding can be used on a machine without a driver, and faults of devices can be simulated.
 *
 *     cc -shared -fPIC -O1 -o FOLDER/libnvidia-ml.so.1 nvml.c nvml_parts.c nvml_scenario.c
 *     NVML_STANDIN_SCENARIO=FILE LD_LIBRARY_PATH=FOLDER PROGRAM
 *
 * PROGRAM may be a whole stalltop: the binding (nvidia-ml-py) loads libnvidia-ml.so.1 by its bare name, so
 * the loader's search path decides. -DOLD_DRIVER leaves out what drivers before 510 do not export.
 *
 * FILE is read again when it has changed. To change the devices while PROGRAM runs, write a new file beside FILE and
 * rename it to FILE. Without FILE, or if a key is not in it, the defaults below apply. Lines are KEY=VALUE for all
 * devices, INDEX.KEY=VALUE for one device, which takes precedence, and INDEX:NUMBER.KEY=VALUE for one MIG device.
 * Numbers are decimal, or hexadecimal with 0x.
 *
 *     devices=2                                 up to 64, read when the library is initialized
 *     driver=580.65.06
 *     name=Stand-in H100, uuid=GPU-INDEX, bus=00000000:0N:00.0 (N: INDEX + 1), minor=INDEX
 *     utilization=0, memory_utilization=0, encoder=0, decoder=0        percent
 *     memory_total=85899345920, memory_used=0, memory_reserved=0      bytes
 *     bar1_total=137438953472, bar1_used=0      bytes
 *     power=70000, power_limit=700000, power_limit_default=700000     milliwatts
 *     power_limit_min=200000, power_limit_max=700000                  milliwatts
 *     energy=0                                  mJ, a total
 *     temperature=34, slowdown=87, shutdown=92  degrees Celsius
 *     sm_clock=1980, memory_clock=2619, video_clock=1545, and each with _max     MHz
 *     performance_state=0, fans=0, fan=30       the last in percent
 *     reasons=0                                 bits of nvmlClocksEventReasons
 *     link_generation=5, link_generation_max=5, link_width=16, link_width_max=16
 *     pcie_rx=0, pcie_tx=0                      KB/s; a call takes 20 ms, as with a real driver
 *     replays=0, ecc_corrected=0, ecc_uncorrected=0      totals; the last two also with _lifetime
 *     ecc=1, persistence=1, compute_mode=0, virtualization=0          numbers of NVIDIA's nvml.h
 *     remapped_corrected=0, remapped_uncorrected=0, remap_pending=0, remap_failed=0
 *     power_violation, thermal_violation, sync_boost_violation, board_limit_violation, reliability_violation
 *                                               ns, totals; 0 by default
 *     field.NUMBER=                             a field value (NVML_FI_*); without, it is not supported
 *     links_up=0                                number of NVLinks that are up; field.91 is the number of all
 *     gpm=0, metric.NUMBER=                     1: GPM is supported; the value of a GPM metric
 *     xids=                                     such as 79,31: a number appended to the list is reported as a new
 *                                               XID; a list that was emptied begins anew
 *     lost=0                                    1: every call for the device fails with NVML_ERROR_GPU_IS_LOST
 *     compute=, graphics=, mps=                 processes: PID:BYTES, or PID:- if the memory is not known;
 *                                               optionally followed by :GPU INSTANCE:COMPUTE INSTANCE
 *     samples=                                  PID:SM:MEMORY:ENCODER:DECODER:AGE, in percent and ms
 *     mig=0                                     1: the GPU is divided into MIG devices
 *     instances=                                profiles of the MIG devices by number: 1g.10gb,,3g.40gb gives the
 *                                               MIG devices 0 and 2. Each has keys of its own: memory_total,
 *                                               memory_used, uuid, gpu_instance (default: its number + 1),
 *                                               compute_instance (default: 0) and compute
 *     fail.FUNCTION=CODE                        FUNCTION returns the nvmlReturn_t CODE; also for one MIG device alone
 *     count.FUNCTION=N                          FUNCTION says that its list has N entries, however many it has
 *     delay.FUNCTION=MS, delay=MS               this function, or every function, takes MS milliseconds
 *     hang=0                                    1: every call waits until this is 0 again
 *
 * The value of a total may be a rate, N/s: the total then grows by N per second since the library was loaded.
 */
#ifndef STALLTOP_NVML_H
#define STALLTOP_NVML_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64, MOST_PARTS = 8, LINE = 2048 };
enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10, LOST = 15,
};

typedef int Return;
typedef unsigned long long u64;

struct Device {
    int index;
    int part; /* NUMBER of the MIG device plus 1; 0 for the whole GPU */
    int watched, told;
};
typedef struct Device *Handle;

extern struct Device nvml_gpus[MOST][MOST_PARTS + 1];
extern int nvml_initialized, nvml_count;

/*
 * Returns the value that FILE has for `key` of a device, or for `key` alone if `device` is NULL. The value is
 * copied into `line`. Returns `otherwise` if FILE has no value.
 */
const char *said(Handle device, const char *key, char line[LINE], const char *otherwise);
u64 number(Handle device, const char *key, u64 otherwise);
int is_said(Handle device, const char *key);
/*
 * Waits for as long as FILE says for this function. Returns the error that FILE says for it; LOST if the device is
 * lost; UNINITIALIZED before nvmlInit; otherwise SUCCESS.
 */
Return ordered(const char *function, Handle device);
Return text(char *into, unsigned size, const char *from);

#define OBEY(device)                             \
    do {                                         \
        Return code = ordered(__func__, device); \
        if (code)                                \
            return code;                         \
    } while (0)

#endif
