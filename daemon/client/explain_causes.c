/* SPDX-License-Identifier: Apache-2.0 */
/* explain_causes.c - the table of causes that may ail a queue pair, and how each shows in the edges' figures.
 *
 * The daemon tells ages of an ended flow as of now: age_then() subtracts the time since the flow's end. */
#include "explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "daemon/util/units.h"
#include "proxy/roce/roce.h"

#define MS 1000000ull
#define S  1000000000ull

#define QUIET_NS       (2 * S) /* longer than any RNR delay, and than any host's wait before it repeats */
#define LOSSES_MIN     5       /* fewer gaps are chance ... */
#define LOSSES_SHARE   10000   /* ... as are gaps of less than one packet in so many */
#define LINE_FULL      0.85    /* share of the permitted rate: the line is full */
#define WINDOW_USED    0.5     /* share of the rate that the window permits: the window limits the host */
#define WINDOW_WRONG   1.5     /* share of it that no window permits: the flow's figures are of two kinds of packets */
#define WINDOW_SHORT   0.8     /* share of the line: a window that permits less is short */
#define LAN_RTT_NS     (200000ull)
#define READ_BYTES_MAX 150 /* packets so small on average are READ requests */

bool explain_say(struct explain_finding *out, const char *fmt, ...)
{
	char text[2 * EXPLAIN_TEXT_MAX], *todo;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	todo = strchr(text, '\n');
	if (todo != NULL)
		*todo++ = '\0';
	snprintf(out->what, sizeof(out->what), "%.*s", EXPLAIN_TEXT_MAX - 1, text);
	snprintf(out->todo, sizeof(out->todo), "%.*s", EXPLAIN_TEXT_MAX - 1, todo != NULL ? todo : "");
	return true;
}

/* --- what is read --- */

static uint64_t fact(const struct explain_flow *f, const char *name)
{
	return j_uint(f->facts, name);
}

static bool has_ended(const struct explain_flow *f)
{
	return j_bool(f->flow, "ended");
}

/* Age of a time at the flow's end, or now if the flow has not ended. UINT64_MAX: the event never happened. */
static uint64_t age_then(const struct explain_flow *f, const char *name)
{
	uint64_t ended = j_uint(f->flow, "ended_age_ns"), age = fact(f, name);

	if (!j_has(f->facts, name))
		return UINT64_MAX;
	return age > ended ? age - ended : 0;
}

static bool learning(const struct explain_flow *f)
{
	return strcmp(j_text(f->flow, "pairing"), "learning") == 0;
}

static bool waits_for_responder(const struct explain_flow *f)
{
	return strcmp(j_text(f->flow, "ack_mode"), "near") != 0;
}

static const char *show_ns(char t[UNITS_TEXT_MAX], uint64_t ns)
{
	return units_show_time(t, (double)ns);
}

static uint64_t rtt_ns(const struct explain_flow *f)
{
	return j_uint(f->link, "rtt_ns");
}

static uint64_t packets(const struct explain_flow *f)
{
	return j_uint(f->flow, "pos_next") - j_uint(f->flow, "pos_base");
}

/* True if the edge sends on at least one path. */
static bool path_is_up(const struct json_object *link)
{
	const struct json_object *paths = j_get(link, "paths"), *p;

	for (size_t i = 0; (p = j_at(paths, i)) != NULL; i++)
		if (strcmp(j_text(p, "state"), "up") == 0 && j_bool(p, "in_use"))
			return true;
	return false;
}

/* True if packets cross, even without early ACKs (mismatch, open) or into a full buffer (stuck). A trouble of one LAN
 * port makes the link "port" as the WAN address does: there the paths tell. */
static bool line_is_up(const struct explain_flow *f)
{
	static const char *const down[] = {"dead", "peer_stopped", "stopped", "waiting", "refused", "failed"};
	const char *state = j_text(f->link, "state");

	for (size_t i = 0; i < sizeof(down) / sizeof(down[0]); i++)
		if (strcmp(state, down[i]) == 0)
			return false;
	return strcmp(state, "port") != 0 || path_is_up(f->link);
}

static bool refused(const struct explain_flow *f, uint8_t syndrome)
{
	return j_bool(f->facts, "failed") && fact(f, "syndrome") == syndrome;
}

/* The PSN that was refused. */
static uint32_t fail_psn(const struct explain_flow *f)
{
	return (uint32_t)fact(f, "fail_pos") & ROCE_PSN_MASK;
}

/* --- the line --- */

static bool look_line_down(const struct explain_flow *f, struct explain_finding *out)
{
	/* tells of a queue pair with nothing to send now, too: its next request would go nowhere, and the user cannot
	 * see that */
	if (line_is_up(f) || has_ended(f) || (fact(f, "undelivered") == 0 && j_bool(f->facts, "failed")))
		return false;
	return explain_say(out,
	                   "line: no packet crosses between the edges now: the link is %s, %" PRIu64
	                   " packets of this queue pair wait\n`longreach doctor %s` says why; the edge sends "
	                   "acknowledged packets on when the line is back",
	                   j_text(f->link, "state"), fact(f, "undelivered"), j_text(f->link, "name"));
}

/* --- what the responder refused --- */

static bool look_access(const struct explain_flow *f, struct explain_finding *out)
{
	if (!refused(f, AETH_NAK_REM_ACCESS))
		return false;
	return explain_say(out,
	                   "access error: host %s refused the request at PSN %u (NAK, remote access error): rkey, "
	                   "address or length fits no memory region that this queue pair may access in this way\ncheck "
	                   "in the program whether the region was deregistered, the rkey is that of another process or "
	                   "run, its access flags allow remote WRITE, READ or ATOMIC, and the length lies within it",
	                   j_text(f->flow, "dst"), fail_psn(f));
}

static bool look_invalid(const struct explain_flow *f, struct explain_finding *out)
{
	if (!refused(f, AETH_NAK_INV_REQ) && !refused(f, AETH_NAK_INV_RD))
		return false;
	return explain_say(
	    out,
	    "invalid request: host %s refused the request at PSN %u: a SEND longer than the receive posted for it, an "
	    "operation that its queue pair does not allow, or more READs at once than its max_dest_rd_atomic\ncheck "
	    "the sizes of receives, qp_access_flags and max_rd_atomic of both programs",
	    j_text(f->flow, "dst"), fail_psn(f));
}

static bool look_operational(const struct explain_flow *f, struct explain_finding *out)
{
	if (!refused(f, AETH_NAK_REM_OP))
		return false;
	return explain_say(out,
	                   "remote operational error: host %s could not carry out the request at PSN %u: its receive "
	                   "queue names memory that is not valid there, the SEND was longer than its receive (rxe "
	                   "reports it so), or its NIC failed\ncheck the responder's program and its kernel log",
	                   j_text(f->flow, "dst"), fail_psn(f));
}

/* --- the requester gave up too early --- */

static bool look_timeout(const struct explain_flow *f, struct explain_finding *out)
{
	uint64_t opened = fact(f, "opened_age_ns"), paired = age_then(f, "paired_age_ns"), heard, answer;
	/* a timeout shorter than the time to send all outstanding packets leaves no silence; nothing else caused
	 * repetitions */
	bool unasked = fact(f, "repeats") > 0 && fact(f, "gaps") == 0 && fact(f, "rnr_sent") == 0;
	char t[4][UNITS_TEXT_MAX], after[16 + UNITS_TEXT_MAX];

	if (!f->near || (fact(f, "silent_repeats") == 0 && !unasked) || paired == UINT64_MAX)
		return false;
	if (fact(f, "silent_repeats") > 0)
		snprintf(after, sizeof(after), "after %s", show_ns(t[0], fact(f, "repeat_after_ns")));
	else
		snprintf(after, sizeof(after), "unasked");
	heard = opened - fact(f, "host_heard_age_ns"), answer = opened - fact(f, "paired_age_ns");
	if (heard >= answer || fact(f, "repeat_after_ns") >= answer)
		return false;
	return explain_say(out,
	                   "timeout: the requester gave up too early: it repeated %s and sent its last packet %s after "
	                   "its first; the responder's first answer arrived here %s after that first packet (round "
	                   "trip %s)\nraise its ACK timeout, with all retries, above %s (perftest -u, NCCL_IB_TIMEOUT, "
	                   "rdma_cm's ack timeout; 4.096 us x 2^n), retry count 7",
	                   after, show_ns(t[1], heard), show_ns(t[2], answer), show_ns(t[3], rtt_ns(f)), t[2]);
}

/* --- nobody ever answered --- */

static bool never_answered(const struct explain_flow *f)
{
	uint64_t age = age_then(f, "opened_age_ns"); /* UINT64_MAX: it is of before this edge's start */
	bool tried = f->near ? (age > S && age != UINT64_MAX) || fact(f, "repeats") > 0
	                     : fact(f, "turns_unanswered") > 0 || fact(f, "timeouts") > 1 || fact(f, "unsent") > 2;

	return learning(f) && tried && fact(f, "rnr_naks") == 0;
}

/* True if a connection of the responder's host came through here when the flow began, or later: its route back leads
 * here. */
static bool way_back_seen(const struct explain_flow *f)
{
	return f->host_answers || (j_has(f->facts, "connection_seen_age_ns") &&
	                           fact(f, "connection_seen_age_ns") < fact(f, "opened_age_ns") + 30 * S);
}

static bool look_no_neighbour(const struct explain_flow *f, struct explain_finding *out)
{
	bool no_hop = learning(f) && fact(f, "unsent") > fact(f, "turns_unanswered") + 2;

	if (f->near || (!f->host_deaf && !no_hop) || (fact(f, "undelivered") == 0 && !learning(f)) || has_ended(f))
		return false;
	return explain_say(
	    out,
	    "address: host %s answers no ARP (or neighbour discovery): this edge can deliver nothing to it, %" PRIu64
	    " packets wait\ncheck that the host is up, on this edge's LAN, with that address on its RDMA device's "
	    "interface: `ip neigh show %s` here, `ip addr` there",
	    j_text(f->flow, "dst"), fact(f, "undelivered"), j_text(f->flow, "dst"));
}

static bool look_return_route(const struct explain_flow *f, struct explain_finding *out)
{
	bool sees_tcp = strcmp(j_text(j_get(f->link, "barrier"), "mode"), "off") != 0;
	char t[UNITS_TEXT_MAX];

	if (f->near || !never_answered(f) || way_back_seen(f))
		return false;
	return explain_say(
	    out,
	    "route back: this edge sent requests to %s QPN 0x%" PRIx64 " (%" PRIu64
	    " times unanswered in %s), and has seen no answer and no new connection%s of that host for the other site since: "
	    "most likely its route back to %s does not lead here\non that host `ip route get %s` must name this edge as next hop; if it does, the "
	    "queue pair does not exist there, or expects another address (GID) than %s",
	    j_text(f->flow, "dst"), j_uint(f->flow, "dest_qpn"), fact(f, "turns_unanswered") + fact(f, "timeouts"),
	    show_ns(t, age_then(f, "opened_age_ns")), sees_tcp ? " (RDMA or TCP)" : " (RDMA)", j_text(f->flow, "src"),
	    j_text(f->flow, "src"), j_text(f->flow, "src"));
}

static bool look_qp_or_gid(const struct explain_flow *f, struct explain_finding *out)
{
	if (f->near || !never_answered(f))
		return false;
	return explain_say(
	    out,
	    "queue pair or GID: host %s is up and its route back leads here (%s), but QPN 0x%" PRIx64
	    " answers nothing\nthe program there has ended or has not brought its queue pair to RTR, or the two "
	    "programs exchanged other addresses than the packets carry: the responder must expect %s (GID index: "
	    "perftest -x, NCCL_IB_GID_INDEX, `show_gids`), the same P_Key and RoCE v2",
	    j_text(f->flow, "dst"), f->host_answers ? "its other queue pairs answer" : "its TCP comes through",
	    j_uint(f->flow, "dest_qpn"), j_text(f->flow, "src"));
}

static bool look_no_answer(const struct explain_flow *f, struct explain_finding *out)
{
	char t[UNITS_TEXT_MAX];

	if (!f->near || !never_answered(f) || !line_is_up(f) || f->failed_before)
		return false;
	return explain_say(out,
	                   "no answer: requests of %s arrive here and cross, and no ACK of %s QPN 0x%" PRIx64
	                   " has come back in %s (the host repeated %" PRIu64
	                   " packets): the responder's route back, address, GID or queue pair is wrong\n`longreach "
	                   "explain %s:0x%" PRIx64 "` at the responder's edge tells which",
	                   j_text(f->flow, "src"), j_text(f->flow, "dst"), j_uint(f->flow, "dest_qpn"),
	                   show_ns(t, age_then(f, "opened_age_ns")), fact(f, "repeats"), j_text(f->flow, "dst"),
	                   j_uint(f->flow, "dest_qpn"));
}

/* --- not ready, or gone --- */

static bool look_rnr(const struct explain_flow *f, struct explain_finding *out)
{
	uint64_t naks = fact(f, f->near ? "rnr_told" : "rnr_naks"), age = age_then(f, "rnr_age_ns");
	char t[2][UNITS_TEXT_MAX], timer[96] = "";

	if (naks == 0 || fact(f, "undelivered") == 0 || age > QUIET_NS)
		return false;
	if (!f->near)
		snprintf(timer, sizeof(timer), ", each with a wait of %s", show_ns(t[1], fact(f, "rnr_timer_ns")));
	return explain_say(out,
	                   "RNR: the responder %s QPN 0x%" PRIx64 " is not ready: no receive is posted for the next SEND or WRITE "
	                   "with immediate (%" PRIu64 "%s RNR NAKs, the last %s ago%s; %" PRIu64
	                   " packets wait)\nthe program there must post receives faster or earlier, and more of them; the "
	                   "requester needs rnr_retry 7; a min_rnr_timer of 0 means 655 ms: use 12 (0.64 ms)",
	                   j_text(f->flow, "dst"), j_uint(f->flow, "dest_qpn"), naks, f->near ? " reports of" : "",
	                   show_ns(t[0], age), timer, fact(f, "undelivered"));
}

static bool look_peer_gone(const struct explain_flow *f, struct explain_finding *out)
{
	uint64_t silent = age_then(f, "responder_heard_age_ns");
	bool given_up = j_bool(f->facts, "failed") && fact(f, "syndrome") == 0;
	bool known = silent != UINT64_MAX; /* else it was not heard since this edge's start */
	bool noticed = f->near ? j_bool(f->flow, "stalled") || j_bool(f->facts, "demoted") || (known && silent > QUIET_NS)
	                       : fact(f, "timeouts") > 1 && (j_bool(f->flow, "stalled") || silent > S);
	char t[UNITS_TEXT_MAX], since[24 + UNITS_TEXT_MAX] = "since this edge started";

	if (learning(f) || (f->near && !line_is_up(f)))
		return false;
	if (!given_up && (fact(f, "undelivered") == 0 || !noticed))
		return false;
	if (known)
		snprintf(since, sizeof(since), "for %s", show_ns(t, silent));
	return explain_say(
	    out,
	    "peer gone: the responder %s QPN 0x%" PRIx64 " answered earlier, and has been silent %s with %" PRIu64
	    " packets unanswered%s%s%s\n%s",
	    j_text(f->flow, "dst"), j_uint(f->flow, "dest_qpn"), since, fact(f, "undelivered"),
	    f->host_deaf      ? "; its host answers no ARP any more: the host is down or off the LAN"
	    : f->host_answers ? "; other queue pairs of that host answer: the host is up"
	                      : "",
	    j_bool(f->facts, "leaving") ? "; its CM has asked to end the connection (DREQ)" : "",
	    given_up ? "; this edge has given it up (GiveUp=)" : "",
	    f->near ? "check whether that program or host has died or its route back has changed; `longreach explain` "
	              "at the responder's edge tells more"
	            : "check whether that program has ended, its queue pair has gone to error (see its log), its host "
	              "has died or its route back has changed");
}

/* True if the host repeats before an ACK of the other site can be here. */
static bool too_early(const struct explain_flow *f)
{
	return waits_for_responder(f) && fact(f, "repeat_after_ns") < rtt_ns(f) + rtt_ns(f) / 4;
}

static bool look_acks_unheard(const struct explain_flow *f, struct explain_finding *out)
{
	if (too_early(f))
		return false;
	if (!f->near || fact(f, "repeats_acked") < 3 || fact(f, "silent_repeats") < 2 ||
	    age_then(f, "repeated_age_ns") > age_then(f, "host_heard_age_ns") + MS)
		return false;
	return explain_say(out,
	                   "ACKs not heard: host %s repeats packets that this edge has acknowledged (%" PRIu64
	                   " packets, %" PRIu64
	                   " times after a silence): this edge's ACKs do not reach its NIC\nlook for a firewall that "
	                   "drops UDP 4791 on the way to it, a wrong MAC address or VLAN (`ip neigh show %s` here), or "
	                   "a queue pair that was connected to another address than %s",
	                   j_text(f->flow, "src"), fact(f, "repeats_acked"), fact(f, "silent_repeats"),
	                   j_text(f->flow, "src"), j_text(f->flow, "dst"));
}

static bool look_requester_gone(const struct explain_flow *f, struct explain_finding *out)
{
	uint64_t age = age_then(f, "host_heard_age_ns");
	char t[UNITS_TEXT_MAX];

	if (!f->near || !j_bool(f->facts, "in_message") || age < QUIET_NS || age == UINT64_MAX || f->failed_before)
		return false;
	return explain_say(out,
	                   "requester gone: host %s stopped within a message, and has sent nothing for %s\nthe program "
	                   "or the host has died, or the host's route has changed",
	                   j_text(f->flow, "src"), show_ns(t, age));
}

/* --- slow --- */

static bool look_lan_loss(const struct explain_flow *f, struct explain_finding *out)
{
	uint64_t lost = fact(f, f->near ? "gaps" : "seq_naks"), of = packets(f);
	uint64_t here = j_uint(j_get(f->link, "drops"), "lan_kernel");
	char dropped[160] = "";

	if (lost < LOSSES_MIN || lost * LOSSES_SHARE < of)
		return false;
	if (here > 0)
		snprintf(dropped, sizeof(dropped), "%" PRIu64
		         " packets found no room in this edge's own receive rings (`longreach doctor`: overrun); ", here);
	if (f->near)
		return explain_say(
		    out,
		    "LAN loss: %" PRIu64 " gaps in %" PRIu64
		    " packets that %s sent: the LAN between that host and this edge loses or reorders; each gap costs "
		    "a NAK and a repetition of all packets after it\n%scheck drops and pauses of the switch ports "
		    "between, PFC on the RoCE priority, and `ip -s link` here",
		    lost, of, j_text(f->flow, "src"), dropped);
	return explain_say(out,
	                   "LAN loss: %s asked %" PRIu64 " times in %" PRIu64
	                   " packets for a repetition: the LAN between this edge and that host loses or "
	                   "reorders\ncheck drops and pauses of the switch ports between, PFC on the RoCE priority, "
	                   "and that host's NIC (rx_discards, out_of_sequence)",
	                   j_text(f->flow, "dst"), lost, of);
}

/* Bits per second that may be sent, on the paths in use. */
static double line_bps(const struct explain_flow *f)
{
	const struct json_object *paths = j_get(f->link, "paths"), *p;
	double pace = 0, rate = j_number(f->link, "rate_bps");

	for (size_t i = 0; (p = j_at(paths, i)) != NULL; i++)
		pace += j_bool(p, "in_use") ? j_number(p, "pace_bps") : 0;
	return pace > 0 && pace < rate ? pace : rate;
}

static double growth(const struct json_object *now, const struct json_object *before, const char *name)
{
	return before != NULL && j_number(now, name) > j_number(before, name) ? j_number(now, name) - j_number(before, name) : 0;
}

static double wan_bps(const struct explain_flow *f)
{
	return growth(j_get(f->link, "counters"), j_get(f->link_before, "counters"), "wan_tx_bytes") * 8 / f->seconds;
}

static bool look_line_full(const struct explain_flow *f, struct explain_finding *out)
{
	const struct json_object *pool = j_get(j_get(f->link, "buffer"), "from_lan");
	double bps = f->link_before != NULL ? wan_bps(f) : 0;
	char t[3][UNITS_TEXT_MAX];

	if (!f->near || has_ended(f) || bps < LINE_FULL * line_bps(f) ||
	    (growth(f->flow, f->before, "pos_next") <= 0 && !j_bool(f->flow, "rnr_back_pressure")))
		return false;
	return explain_say(
	    out,
	    "line full: all queue pairs of the link together send %s of the line's %s; this edge held this one off "
	    "%" PRIu64 " times (RNR) and had no room for %" PRIu64
	    " of its packets; %.0f %% of the buffer is used (%s)\nhosts send more than the line carries: that is the "
	    "limit, not a fault. Raise Rate= if the line carries more; `longreach top` shows which flows send most",
	    units_show_rate(t[0], bps), units_show_rate(t[1], line_bps(f)), fact(f, "rnr_sent"),
	    fact(f, "refused_packets"), 100 * j_number(pool, "used_bytes") / (j_number(pool, "capacity_bytes") + 1),
	    units_show_bytes(t[2], j_number(pool, "used_bytes")));
}

static bool look_held_off(const struct explain_flow *f, struct explain_finding *out)
{
	struct explain_finding other;

	if (!f->near || fact(f, "refused_packets") == 0 || !j_bool(f->flow, "rnr_back_pressure") || has_ended(f) ||
	    look_line_full(f, &other))
		return false;
	return explain_say(out,
	                   "held off: this edge held host %s off %" PRIu64
	                   " times (RNR), mostly for want of room in the buffer, though the line is not full: %" PRIu64
	                   " packets wait for the responder\nrun `longreach explain %s` at the other edge to see "
	                   "whether the responder is slow; a larger [Buffer] Size= holds more",
	                   j_text(f->flow, "src"), fact(f, "rnr_sent"), fact(f, "undelivered"), j_text(f->flow, "dst"));
}

/* Mean bytes of the flow's packets, of late if it is busy; for READs, of each response. */
static double bytes_each(const struct explain_flow *f, bool *reads)
{
	double of = growth(f->flow, f->before, "pos_next"), bytes = growth(f->flow, f->before, "bytes");
	double each = of > 0 ? bytes / of : packets(f) > 0 ? j_number(f->flow, "bytes") / (double)packets(f) : 0;

	*reads = each < READ_BYTES_MAX && j_uint(f->flow, "pmtu") > 0 && fact(f, "open_reads") > 0;
	return *reads ? j_number(f->flow, "pmtu") : each;
}

/* Packets per second: now, or over the flow's life if it is idle now. */
static double speed(const struct explain_flow *f)
{
	double now = growth(f->flow, f->before, "pos_next") / f->seconds;
	double life_ns = (double)fact(f, "opened_age_ns") - (double)fact(f, "host_heard_age_ns");

	if (now > 0)
		return now;
	return life_ns > 2e8 ? (double)packets(f) / life_ns * 1e9 : 0;
}

/* What AckMode=near would change, if it is not in force already. */
static const char *near_hint(const struct explain_flow *f, const char *hint)
{
	if (strcmp(j_text(f->link, "ack_mode"), "near") != 0)
		return hint;
	return "; AckMode=near is set, and this edge sends this queue pair no early ACKs now (see state and flows of `longreach "
	       "status`)";
}

static bool look_window(const struct explain_flow *f, struct explain_finding *out)
{
	bool reads;
	double each = bytes_each(f, &reads), rtt = (double)rtt_ns(f), most = j_number(f->facts, "most_unacked");
	double limit = rtt > 0 ? most * each * 8e9 / rtt : 0, bps = speed(f) * each * 8;
	char t[5][UNITS_TEXT_MAX];

	if (!f->near || (!waits_for_responder(f) && !reads) || rtt < (double)LAN_RTT_NS || most < 2 ||
	    packets(f) < 20 * (uint64_t)most || j_bool(f->flow, "rnr_back_pressure"))
		return false;
	if (limit > WINDOW_SHORT * line_bps(f) || bps < WINDOW_USED * limit || bps > WINDOW_WRONG * limit ||
	    (f->link_before != NULL && wan_bps(f) > LINE_FULL * line_bps(f)))
		return false;
	return explain_say(
	    out,
	    "window: the requester has at most %s outstanding (%.0f packets) and waits a round trip of %s for %s: that "
	    "allows %s, and it runs at %s; the line carries %s\nkeep more outstanding per queue pair (perftest -t, "
	    "larger messages%s), or use more queue pairs (perftest -q, NCCL_IB_QPS_PER_CONNECTION)%s",
	    units_show_bytes(t[0], most * each), most, units_show_time(t[1], rtt), reads ? "the answers" : "the ACK",
	    units_show_rate(t[2], limit), units_show_rate(t[3], bps), units_show_rate(t[4], line_bps(f)),
	    reads ? ", max_rd_atomic" : "",
	    reads ? "" : near_hint(f, "; or set AckMode=near if its promise is enough for the program"));
}

static bool look_repeats_early(const struct explain_flow *f, struct explain_finding *out)
{
	char t[2][UNITS_TEXT_MAX];

	if (!f->near || !too_early(f) || fact(f, "silent_repeats") < 3)
		return false;
	return explain_say(
	    out,
	    "timeout: host %s begins to repeat after %s of silence, while an ACK takes a round trip of %s (%" PRIu64
	    " times so far)\nraise its ACK timeout above the round trip (perftest -u, NCCL_IB_TIMEOUT; 4.096 us x "
	    "2^n), switch adaptive retransmission off (ConnectX: roce_adp_retrans)%s",
	    j_text(f->flow, "src"), show_ns(t[0], fact(f, "repeat_after_ns")), show_ns(t[1], rtt_ns(f)),
	    fact(f, "silent_repeats"), near_hint(f, ", or set AckMode=near"));
}

static bool look_not_early(const struct explain_flow *f, struct explain_finding *out)
{
	const char *difference = j_text(j_get(f->link, "peer"), "difference");

	if (!f->near || has_ended(f) || difference[0] == '\0')
		return false;
	return explain_say(out,
	                   "edges disagree: there are no early ACKs, each ACK waits for the responder's: %s\nmake the "
	                   "two link files mirror images and run `longreach reload` at both edges",
	                   difference);
}

/* --- the table --- */

#define E(n) (1u << (n))
enum { INV_REQ = 9, ACCESS = 10, OPERATION = 11, RETRY = 12, RNR = 13 };

const struct explain_cause explain_causes[] = {
    {"access", true, E(ACCESS), look_access, "the responder refused: rkey, address, length or access rights"},
    {"invalid", true, E(INV_REQ), look_invalid, "the responder refused: it does not allow that request"},
    {"operational", true, E(OPERATION), look_operational, "the responder could not carry out the request"},
    {"line_down", true, E(RETRY), look_line_down, "no packet crosses between the edges"},
    {"timeout", true, E(RETRY), look_timeout, "the requester gave up before an answer can cross that distance"},
    {"no_neighbour", true, E(RETRY), look_no_neighbour, "address: the responder's host answers no ARP"},
    {"return_route", true, E(RETRY), look_return_route,
     "the responder's route back does not lead to its edge, which sees no packet of it"},
    {"qp_or_gid", true, E(RETRY), look_qp_or_gid,
     "the responder's host is up, its queue pair does not answer: it has gone, or has another address (GID)"},
    {"no_answer", true, E(RETRY), look_no_answer,
     "no responder answered the requester: the responder's edge tells why"},
    {"rnr", true, E(RNR), look_rnr, "the responder has no receive posted"},
    {"peer_gone", true, E(RETRY), look_peer_gone, "the responder answered earlier, and is silent now"},
    {"acks_unheard", true, E(RETRY), look_acks_unheard, "ACKs do not reach the requester"},
    {"requester_gone", true, 0, look_requester_gone, "the requester stopped within a message"},
    {"lan_loss", false, E(RETRY), look_lan_loss, "the LAN of a site loses or reorders packets"},
    {"line_full", false, 0, look_line_full, "hosts send more than the line carries"},
    {"held_off", false, E(RNR), look_held_off, "the edge has no room for the requester's next packet, though the line is not full"},
    {"window", false, 0, look_window, "the requester has too few bytes outstanding for the round trip"},
    {"repeats_early", false, E(RETRY), look_repeats_early, "the requester repeats before an answer can have arrived"},
    {"edges_disagree", false, 0, look_not_early, "the link files of the edges differ: there are no early ACKs"},
};
const uint32_t explain_ncauses = sizeof(explain_causes) / sizeof(explain_causes[0]);

/* --- completion statuses --- */

static const struct explain_error errors[] = {
    {1, "LOC_LEN_ERR", "a local length error in the program's own buffers; no edge sees it"},
    {2, "LOC_QP_OP_ERR", "an error within the requester's queue pair; no edge sees it"},
    {4, "LOC_PROT_ERR", "the program's own memory region does not fit its request; no edge sees it"},
    {5, "WR_FLUSH_ERR", "flushed: an earlier request of the queue pair failed; the first error counts, not this one"},
    {9, "REM_INV_REQ_ERR", "the responder refused the request as invalid"},
    {10, "REM_ACCESS_ERR", "the responder refused access: rkey, address, length, rights"},
    {11, "REM_OP_ERR", "the responder could not carry out the request"},
    {12, "RETRY_EXC_ERR",
     "the requester repeated a request retry_cnt times and heard no ACK: route, address or GID, no such queue pair, a "
     "dead peer, "
     "a cut line, or an ACK timeout below the round trip"},
    {13, "RNR_RETRY_EXC_ERR",
     "the responder had no receive posted for more tries than the requester's rnr_retry allows"},
};

static bool same_name(const char *name, const char *text)
{
	size_t len = strlen(name) - strlen("_ERR");

	return strcasecmp(name, text) == 0 || (strncasecmp(name, text, len) == 0 && text[len] == '\0');
}

const struct explain_error *explain_error_find(const char *text)
{
	char number[16];

	if (strncasecmp(text, "IBV_WC_", 7) == 0)
		text += 7;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		snprintf(number, sizeof(number), "%u", errors[i].number);
		if (strcmp(number, text) == 0 || same_name(errors[i].name, text))
			return &errors[i];
	}
	return NULL;
}

/* --- names --- */

const char *explain_flow_name(const struct json_object *flow, char *text, size_t cap)
{
	uint64_t qpn = j_uint(flow, "requester_qpn");
	char from[24] = "unknown QPN";

	if (strcmp(j_text(flow, "pairing"), "learning") != 0)
		snprintf(from, sizeof(from), "0x%" PRIx64, qpn);
	snprintf(text, cap, "%s:%" PRIu64 " %s:%s > %s:0x%" PRIx64, j_text(flow, "side"), j_uint(flow, "id"),
	         j_text(flow, "src"), from, j_text(flow, "dst"), j_uint(flow, "dest_qpn"));
	return text;
}
