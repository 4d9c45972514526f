/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program does besides calling the GPU's libraries: the items of a cycle that begin with `@`.
 *
 *     @give:QUEUE[:DEPTH]           put a batch into a queue (a FIFO that holds DEPTH batches, default 8)
 *     @take:QUEUE[:DEPTH]           take one out, waiting for it
 *     @read:FILE:BYTES[:COUNT]      COUNT reads at random places, past the page cache
 *     @write:FILE:BYTES[:COUNT]     the same, written until the device has it
 *     @save:FILE:BYTES[:COUNT]      COUNT writes at random places by way of the page cache, then fsync
 *     @cached:FILE:BYTES[:COUNT]    reads at random places, by way of the page cache
 *     @touch:FILE:PAGES[:FORGET]    map PAGES pages at a random place and touch each; FORGET 1: the file is
 *                                   dropped from the page cache before, so that each is read again
 *     @use:BYTES                    touch as much new memory, and give it back
 *     @lock:FILE:US[:SLEEP_US]      take the lock that all users of FILE share, compute US and sleep SLEEP_US
 *                                   with it, release it
 *     @ask:ADDRESS:PORT:BYTES       send BYTES by TCP, wait for the answer
 *     @flood:ADDRESS:PORT:COUNT     send COUNT datagrams of 64 bytes by UDP
 *     @serve:ADDRESS:PORT           answer one peer until it is gone
 *
 * QUEUE and FILE are names in the folder of `choose_files`, or absolute paths.
 */
#ifndef HOST_H
#define HOST_H

#include <stdint.h>

struct action;

/* compute() uses `ns` of the thread's CPU time; rest() sleeps for `ns`. */
void compute(uint64_t ns);
void rest(uint64_t ns);

void choose_files(const char *folder);

/* Opens what the item needs. Returns NULL and sets `made`, or returns an error. */
const char *parse_action(const struct action **made, const char *text);

/* Executes the item once; ends the process with a message if it fails. */
void act(const struct action *action);

#endif
