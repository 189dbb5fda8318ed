/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - the relay of a link: its socket, its clients, and the thread that reads and writes their regions.
 *
 * Theory of operation
 *
 *     program -- lib/ -- socket -- relay thread == rings == worker -- core ~~~ the other edge
 *                                      |                                  slots of the arena
 *                     pread, pwrite; by a thread per mount
 *
 * The thread takes slots from the core by the worker (worker_relay.h), reads the bytes of a region in memory straight
 * into them, and writes those of chunks that came straight out of them into such regions. It never calls the core.
 * Files that are not in memory have threads of their own (relay_file.h): a slow mount, or one that does not answer,
 * holds up no other.
 *
 * An operation of a client is a row of chunks on one channel. relay_op.c has the operations of this site's clients,
 * relay_execute.c carries out the other site's requests, relay_channel.c turns messages and streams into chunks,
 * relay_client.c talks to programs. */
#ifndef DAEMON_RELAY_H
#define DAEMON_RELAY_H

#include "daemon/config/config.h"
#include "daemon/worker/worker.h"
#include "daemon/worker/worker_relay.h"
#include "relay_counters.h"

struct relay_thread;

/* Makes the socket and the workers' rings, before the workers run. 0, or negative errno with err a sentence. */
int relay_open(struct relay_thread **r, const struct link_config *c, struct worker *const *workers, uint32_t nworkers,
               char err[CONFIG_ERR_MAX]);
/* Starts the thread, when the workers run. */
int relay_run(struct relay_thread *r, char err[CONFIG_ERR_MAX]);
/* The relay's counters since its start; on any thread. */
void relay_counts(const struct relay_thread *r, struct relay_counts *c);
/* Ends the thread, while the workers still run. Does not wait for files that do not answer. */
void relay_stop(struct relay_thread *r);
/* After the workers have ended. */
void relay_close(struct relay_thread *r);

#endif
