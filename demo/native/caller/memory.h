/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the caller: the device memory that its calls have allocated and not freed.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdint.h>

void memory_is_held(uint64_t address);

/* Removes the latest allocation from the list and returns its address; returns 0 if the list is empty. */
uint64_t memory_to_free(void);

#endif
