/* SPDX-License-Identifier: Apache-2.0
 * Part of the stand-in NVML: reads the file that nvml.h describes.
 */
#include "nvml.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

struct Device nvml_gpus[MOST][MOST_PARTS + 1];
int nvml_initialized, nvml_count;
static struct timespec loaded;
static char *content;
static struct stat known;

__attribute__((constructor)) static void load(void)
{
    clock_gettime(CLOCK_MONOTONIC, &loaded);
    for (int i = 0; i < MOST; i++)
        for (int part = 0; part <= MOST_PARTS; part++)
            nvml_gpus[i][part] = (struct Device){.index = i, .part = part};
}

/* Reads the file if it has changed. */
static void refresh(void)
{
    const char *path = getenv("NVML_STANDIN_SCENARIO");
    struct stat now = {0};
    if (!path || stat(path, &now)) {
        free(content);
        content = NULL;
        known = (struct stat){0};
        return;
    }
    if (content && now.st_ino == known.st_ino && now.st_size == known.st_size &&
        now.st_mtim.tv_sec == known.st_mtim.tv_sec && now.st_mtim.tv_nsec == known.st_mtim.tv_nsec)
        return;
    char *read_now = calloc(1, (size_t)now.st_size + 1);
    if (!read_now)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, read_now, (size_t)now.st_size) < 0)
        read_now[0] = 0;
    if (fd >= 0)
        close(fd);
    free(content);
    content = read_now;
    known = now;
}

/*
 * Returns the value after `name=` at the beginning of a line. If there are several such lines, the last one
 * counts.
 */
static const char *find(const char *name)
{
    size_t length = strlen(name);
    const char *found = NULL;
    for (const char *at = content; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (!strncmp(at, name, length) && at[length] == '=')
            found = at + length + 1;
    return found;
}

static const char *value_of(Handle device, const char *key)
{
    char name[256];
    const char *found = NULL;
    refresh();
    if (device && device->part) { /* a MIG device does not have the values of its GPU */
        snprintf(name, sizeof name, "%d:%d.%s", device->index, device->part - 1, key);
        return find(name);
    }
    if (device) {
        snprintf(name, sizeof name, "%d.%s", device->index, key);
        found = find(name);
    }
    return found ? found : find(key);
}

const char *said(Handle device, const char *key, char line[LINE], const char *otherwise)
{
    const char *value = value_of(device, key);
    size_t length = value ? strcspn(value, "\n") : 0;
    if (!value)
        snprintf(line, LINE, "%s", otherwise);
    else
        snprintf(line, LINE, "%.*s", (int)length, value);
    return line;
}

int is_said(Handle device, const char *key)
{
    return value_of(device, key) != NULL;
}

u64 number(Handle device, const char *key, u64 otherwise)
{
    char line[LINE], *rest;
    u64 value = strtoull(said(device, key, line, ""), &rest, 0);
    if (rest == line)
        return otherwise;
    if (strcmp(rest, "/s"))
        return value;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double seconds = (double)(now.tv_sec - loaded.tv_sec) + (double)(now.tv_nsec - loaded.tv_nsec) / 1e9;
    return (u64)((double)value * seconds);
}

Return ordered(const char *function, Handle device)
{
    Handle gpu = device ? &nvml_gpus[device->index][0] : NULL;
    char key[160];
    while (number(gpu, "hang", 0))
        usleep(2000);
    snprintf(key, sizeof key, "delay.%s", function);
    u64 usual_ms = strcmp(function, "nvmlDeviceGetPcieThroughput") ? 0 : 20;
    u64 delay_ms = number(gpu, key, number(gpu, "delay", usual_ms));
    if (delay_ms)
        usleep((useconds_t)(1000 * delay_ms));
    snprintf(key, sizeof key, "fail.%s", function);
    Return code = (Return)number(gpu, key, SUCCESS);
    if (!code && device && device->part)
        code = (Return)number(device, key, SUCCESS);
    if (code)
        return code;
    if (gpu && number(gpu, "lost", 0))
        return LOST;
    return nvml_initialized || !strncmp(function, "nvmlInit", 8) ? SUCCESS : UNINITIALIZED;
}

Return text(char *into, unsigned size, const char *from)
{
    if (strlen(from) + 1 > size)
        return INSUFFICIENT_SIZE;
    strcpy(into, from);
    return SUCCESS;
}
