/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t *held;
static size_t count, room;

void memory_is_held(uint64_t address)
{
    pthread_mutex_lock(&lock);
    if (count == room) {
        room = room ? 2 * room : 1024;
        held = realloc(held, room * sizeof *held);
        if (!held)
            abort();
    }
    held[count++] = address;
    pthread_mutex_unlock(&lock);
}

uint64_t memory_to_free(void)
{
    pthread_mutex_lock(&lock);
    uint64_t address = count ? held[--count] : 0;
    pthread_mutex_unlock(&lock);
    return address;
}
