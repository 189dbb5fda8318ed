/* SPDX-License-Identifier: Apache-2.0 */
/* relay.h - the relay of a link: its socket, its clients, and the thread that reads and writes their regions.
 *
 * Theory of operation
 *
 *     program -- lib/ -- socket -- relay thread == rings == worker -- core ~~~ the other edge
 *                                      |                                  slots of the arena
 *                     pread, pwrite; by a thread per mount
 *
 * The thread takes slots from the core by the worker (worker_relay.h), reads the bytes of a region in memory straight into
 * them, and writes those of chunks that came straight out of them into such regions. It never calls the core. Files that are
 * not in memory have threads of their own (relay_file.h): one that is slow, or does not answer, holds up no other mount.
 *
 * An operation of a client is a row of chunks on one channel. relay_op.c has the operations of this site's clients,
 * relay_execute.c carries out what the other site asks for, relay_channel.c turns what is to be said into chunks,
 * relay_client.c speaks with programs. */
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
/* What it has counted since its start; on any thread. */
void relay_counts(const struct relay_thread *r, struct relay_counts *c);
/* Ends the thread; while the workers still run. Files that do not answer are not waited for. */
void relay_stop(struct relay_thread *r);
/* After the workers have ended. */
void relay_close(struct relay_thread *r);

#endif
