/* SPDX-License-Identifier: Apache-2.0
 *
 * Part of the caller: the device memory that its calls have allocated and not freed.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdint.h>

void memory_is_held(uint64_t address);

/* What was held last and is so no more, or 0. */
uint64_t memory_to_free(void);

#endif
