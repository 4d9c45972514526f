/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program does besides calling the GPU's libraries: the items of a cycle that begin with `@`.
 *
 *     @give:QUEUE[:DEPTH]           put a batch into a queue (a FIFO that holds DEPTH batches, default 8)
 *     @take:QUEUE[:DEPTH]           take a batch out of a queue, waiting until there is one
 *     @read:FILE:BYTES[:COUNT]      COUNT reads at random places, without the page cache (O_DIRECT)
 *     @write:FILE:BYTES[:COUNT]     COUNT writes at random places, without the page cache; each ends when the data
 *                                   is on the device (O_DIRECT, O_DSYNC)
 *     @save:FILE:BYTES[:COUNT]      COUNT writes at random places by way of the page cache, then fsync
 *     @cached:FILE:BYTES[:COUNT]    COUNT reads at random places, through the page cache
 *     @touch:FILE:PAGES[:FORGET]    map PAGES pages at a random place and touch each; FORGET 1: the file is
 *                                   dropped from the page cache before, so that each is read again
 *     @use:BYTES                    map BYTES of new memory, touch all of it, and give it back
 *     @lock:FILE:US[:SLEEP_US]      take the lock that all users of FILE share, compute for US and sleep for
 *                                   SLEEP_US while holding it, release it
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

/* compute() uses `ns` of CPU time of the thread. rest() sleeps for `ns`. */
void compute(uint64_t ns);
void rest(uint64_t ns);

void choose_files(const char *folder);

/*
 * Parses the item `text`, opens the files or sockets that the item needs, and sets `made`. Returns NULL, or
 * an error.
 */
const char *parse_action(const struct action **made, const char *text);

/* Executes the item once. If that fails, ends the process with a message. */
void act(const struct action *action);

#endif
