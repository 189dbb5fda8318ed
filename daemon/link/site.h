/* SPDX-License-Identifier: Apache-2.0 */
/* site.h - a link as the main thread sees it: its configuration, the running link, its control channel, and what has
 * been sampled of it. A site that cannot start is tried again every few seconds. */
#ifndef DAEMON_SITE_H
#define DAEMON_SITE_H

#include "daemon/config/distance.h"
#include "link.h"
#include "daemon/peer/peer.h"

struct site;
struct failed_record;

/* NULL only without memory: a link that does not start is a site in state failed. */
struct site *site_new(const struct link_config *c, struct event_base *base, const char *pcap_dir,
                      struct failed_record *failed);
void site_reconfigure(struct site *s, const struct link_config *c);
/* Stops the link and starts it again with c, its buffer and flows kept. */
void site_restart(struct site *s, const struct link_config *c);
/* An operator's `restart`: if c asks for another buffer, and the present one is empty, c gets it, and flows are
 * forgotten. */
void site_restart_anew(struct site *s, const struct link_config *c);
/* Call at a reload if the link's file is unchanged: the files that it names may be new. True: the keys are new, and the
 * other edge must prove itself under them. */
bool site_reread_keys(struct site *s);
/* Call when the link's rules in the kernel may have changed: restores them. A failure is repeated every second. */
void site_look_at_rules(struct site *s);
/* Stops the link. The kernel rules stay, at rest. */
void site_free(struct site *s);
/* An operator's `stop` and `start`: a link that was stopped is not tried again until site_go(). Its rules stay. */
void site_halt(struct site *s);
void site_go(struct site *s, const struct link_config *c);
bool site_halted(const struct site *s);
/* Sets the sentence why the link's changed file is not in force; empty: the file is in force. */
void site_set_waits(struct site *s, const char *why);
bool site_is_held(const struct site *s); /* by that sentence */
/* That sentence; or, if there is none, what a link that was started on a buffer in use has taken from the buffer
 * instead of from its file. Empty: the whole file is in force. */
const char *site_waits(const struct site *s);
/* A sentence if the running link's buffer differs from the buffer that its configuration asks for; else empty. */
const char *site_buffer_note(struct site *s);
/* True if the link runs on just the buffer that c asks for. */
bool site_buffer_is_of(const struct site *s, const struct link_config *c);
/* The link's file is gone: tells the other edge so, and stops the link. The kernel rules stay here, too: another file
 * may name the same prefixes (sites.h's `gone`). */
void site_remove(struct site *s);

/* X(enumerator, printed name, what it means) */
#define SITE_STATES(X)                                                                                                 \
	X(STOPPED, "stopped", "by `longreach stop`: RoCE stays closed until `longreach start`")                        \
	X(FAILED, "failed", "could not be started; tried again every few seconds")                                     \
	X(WAITING, "waiting", "the other edge has sent no hello yet")                                                  \
	X(REFUSED, "refused", "the edges cannot work together: no packet is carried")                                  \
	X(OPEN, "open", "rules that keep the kernel from forwarding cannot be set: no packet is acknowledged early")   \
	X(PORT, "port", "a LAN port or the WAN address does not work")                                                 \
	X(PEER_STOPPED, "peer_stopped", "by an operator at the other edge, which said so and has been silent since")   \
	X(DEAD, "dead", "no datagram arrives from the other edge, or a worker lacks the session")                      \
	X(MISMATCH, "mismatch", "the edges disagree: packets are carried, none is acknowledged early")                 \
	X(STUCK, "stuck", "a buffer is full, and no packet has left it for seconds")                                  \
	X(UP, "up", "carries")

#define X(e, name, text) SITE_##e,
enum site_state { SITE_STATES(X) SITE_STATE_COUNT };
#undef X

const char *site_state_name(enum site_state s);
/* The state by the peer's and the core's status. Pure: cannot see SITE_PORT. */
enum site_state site_state(bool running, const struct peer_status *peer, const struct proxy_link_status *s);

/* The state, SITE_PORT included. snap NULL: the link does not run, or no snapshot could be taken now: then the last
 * sample counts, if it is younger than five seconds. */
enum site_state site_state_now(const struct site *s, const struct link_snapshot *snap);

/* Rates over the last second or so, from two samples. */
struct site_rates {
	bool valid;
	double lan_rx_bps, lan_tx_bps; /* layer 3, from and to hosts */
	double wan_tx_bps, wan_rx_bps; /* UDP payload, to and from the other edge */
	double wan_loss;               /* share of the datagrams sent, 0..1 */
};

const struct link_config *site_config(const struct site *s);
struct link *site_link(const struct site *s); /* NULL: failed */
/* All present troubles, the newest first, separated by "; ": why the link does not run, rules that cannot be set, and
 * what else is wrong. Empty: none. */
const char *site_error(const struct site *s);
const struct distance *site_distance(const struct site *s);
void site_peer_status(const struct site *s, struct peer_status *p);
/* Events of that type since the site began, logged or not. */
uint64_t site_event_count(const struct site *s, enum proxy_event_type type);
void site_rates(const struct site *s, struct site_rates *r);

#endif
