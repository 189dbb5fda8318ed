/* SPDX-License-Identifier: Apache-2.0 */
/* session.h - one test between a client and a server, from the first line on TCP to the verdict.
 *
 *   client                                    server
 *   hello (what is tested)          ----->
 *   qp..., ready                    ----->
 *                                   <-----    qp..., ready         (or: refuse why=...)
 *   [CM: REQ, REP, RTU on QP1]      <---->
 *   go                              ----->
 *   === traffic; with --bidir both ways ===
 *   done msgs=N                     ----->    my completions are all in
 *                                   <-----    executed missing=M late_us=T
 *   quiet                           ----->    both directions are over
 *                                   <-----    quiet
 *   expect..., end                  <---->    what the other's memory must be
 *   stat..., verdict                <---->    what each end counted
 *
 * Whoever cannot go on says "fail why=..."; then only the counts are exchanged. */
#ifndef RCPERF_SESSION_H
#define RCPERF_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "cmlink.h"
#include "engine.h"
#include "wire.h"

/* What one end reports to the other. */
struct end_report {
	struct stats stats;
	double done_gbps, exec_gbps, done_mps;
	uint64_t lat_p1, lat_p50, lat_p99, lat_p999, lat_max, lat_n;
};

struct session {
	struct opt opt; /* the client's wishes and this end's own settings */
	struct engine e;
	struct wire w;
	struct cmlink cm;
	bool self_active, peer_active; /* who is a requester */
	uint64_t started_ns, stop_ns;
	/* own requests */
	bool done_sent, executed_seen;
	uint64_t done_ns;
	uint64_t drained_ns; /* from the last completion until the other end had executed everything */
	/* the peer's requests */
	bool peer_done, executed_sent;
	uint64_t peer_msgs, peer_done_ns;
	bool dreq_begun, dreq_over;
	uint64_t dreq_ns; /* from the first DREQ to the last DREP */
	bool quiet_seen;
	char peer_failure[256];
	struct end_report mine, peers;
	bool have_peers;
	/* progress lines */
	uint64_t shown_ns, shown_bytes;
};

/* A line of the other end while there is traffic. */
void session_take_line(struct session *s, const char *line);
/* Either end cannot go on. */
bool session_failed(const struct session *s);

/* Runs the client's or, on an accepted connection, the server's part. 0: everything right; 1: not; 2: no test. */
int session_client(const struct opt *o);
int session_server(const struct opt *o, int listen_fd);

#endif
