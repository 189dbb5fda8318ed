/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * An answer carries only the requester's QPN. Before an answer may count, the edge must know which flow of the host
 * pair it is for, and all flows may have started at the same PSN, with the same QPN at both ends. So flows without a
 * pair are probed one at a time per host pair: while one has its turn, an answer to a QPN without an owner can only be
 * for that flow. Within its turn (LanTimeout) the flow repeats its first packet a few times: on a LAN that loses one
 * packet in a hundred many turns would be wasted otherwise. An unanswered turn, or a flow that ends in its turn, is
 * followed by a quarantine: a late answer would be taken for the next flow's. A restart begins with a quarantine for
 * host pairs with flows that may have been probed before it.
 *
 * An answer may come later than the quarantine: from a machine that is not scheduled, or a NIC that PFC stops.
 * hostpair.outstanding remembers which PSNs, and how many packets, were sent for flows that have no pair yet or have
 * gone. An answer that could be to one of these packets does not count; instead the probed flow is asked once more,
 * with its next packet if it has one. This decides in one of two ways. The next answer is about a PSN that no other
 * flow was asked about. Or in the end there are more answers to the QPN than the other flow's packets can have got:
 * each is answered once, or twice if the LAN doubles it. This takes some round trips more on a LAN that answers, and
 * none if no answer was late. If a responder always takes longer than a turn, its answers come in the quarantine: then
 * the turn goes on. After PAIR_LATE_NS no packet is answered any more.
 *
 * A probe without a next hop is dropped, because another flow may have its turn by the time there is one: the turn is
 * taken back (pair_unsent).
 *
 * Two hosts may have talked past the edges until a moment ago. Answers to these packets still come while the first
 * flows between the hosts have their turns, and could be taken for theirs. Such hosts are recognised by an answer for
 * which no flow can have asked: no flow was probed yet, or the answer is about a PSN a little below the probed flow's.
 * Then the current turn is taken back, and no flow is probed before there was no such answer for UNASKED_QUIET_NS. This
 * ends UNASKED_MAX_NS after the hosts were first heard of, as such answers may be forged. That bound alone is no help
 * against forged answers: hosts without flows are forgotten and heard of anew, so a flow could come at the beginning of
 * such a time, and its host has spent a part of its retries by then. So once flows wait for the first turn, an answer
 * counts only if its PSN is near those of one of them.
 *
 * An answer to a QPN with an owner pairs no other flow, unless the owner has nothing in flight and either never sent
 * that PSN or was quiet lately. Then the probed flow may get the QPN, and the old pair is void once it has it. An owner
 * that lost its pair for an answer that paired no flow would have nothing to send, by which to learn its pair again:
 * it was deaf to READ_AGAIN for ever. A flow that fails gives up its QPN at once (pair_leave), and its packets are
 * remembered like those of flows that have gone.
 *
 * Packets of a refused flow are remembered for OVERTAKEN_NS only. The responder's queue pair of such a flow is in the
 * error state and sends nothing more, so only answers that the NAK has overtaken may still come. No flow is probed
 * before then, because a doubt would be fatal if the next incarnation's responder refuses as well: it sends its NAK
 * once, the doubt would discard the NAK, and no further probe would be answered. More refusals make the wait longer, up
 * to OVERTAKEN_MAX_NS; then a turn begins in any case.
 *
 * A flow with packets in flight does not keep its QPN for ever, either: its responder may be gone, and the requester's
 * QPN may be used again. After SILENT_RETRIES retries without an answer the owner is silent. An answer counts for a
 * silent owner only if it cannot be for another flow of the host pair: neither for the flow that has its turn, nor for
 * those in hostpair.outstanding. In doubt the probed flow is asked again. The probed flow gets the QPN when more
 * answers came than the silent owner's packets can have got, each answered twice. A merely slow responder never sends
 * as many. The silent owner is asked after that turn, while no flow is probed, and again after each answer that could
 * be to outstanding, until there are more answers than the packets of outstanding can have got. */
#include "pair.h"

#include "far_priv.h"
#include "proxy/carry/barrier.h"
#include "lan_host.h"

#define PAIR_LATE_NS          30000000000ull /* an answer is not later than that: no requester waits for so long */
#define REPEATED_MAX          16             /* packets repeated, or under way, of a flow that ends count as so many */
#define OWNER_ASKED_MAX       256            /* repeated packets of a flow count as so many at most */
#define SILENT_RETRIES        2              /* retries in vain until a responder may be gone */
#define PROBES_BEFORE_RESTART 16             /* probes that a flow without a pair counts as sent before a restart */
#define PROBES_MAX            256 /* probes of a flow count as so many at most: forged answers make an edge send more */
#define END_TO_END            (NONE - 1)     /* pair_outstanding.flow: of requests that have no flow */
#define OWNERS_AT_ONCE        (PAIR_HEARD_MAX - 1) /* so that the answers to each one's QPN are counted */
#define IN_DOUBT_MAX          64                   /* packets sent in doubt in a turn, beyond those that could decide */
#define UNSENT_WAIT_NS        1000000ull           /* until a probe is tried again that had no next hop; doubles */
#define UNSENT_DOUBLINGS      5                    /* UNSENT_WAIT_NS doubles at most so often */
#define UNASKED_QUIET_NS      20000000ull
#define UNASKED_MAX_NS        200000000ull
#define WAITING_LOOKED_AT     64 /* waiting flows whose PSNs an answer is compared with before the first turn */
#define OVERTAKEN_NS          20000000ull /* an answer that a later one has overtaken on the LAN is not later than that */
#define OVERTAKEN_MAX_NS      200000000ull /* longest wait for a row of refusals without a turn in between */
#define VOID_QUIET_NS         OVERTAKEN_NS /* a flow without repetitions and answers for so long gets no late answer */

static uint32_t qpn_hash(const struct proxy *p, const struct far_flow *f)
{
	return far_requester_hash(p, &f->src, &f->dst, f->requester_qpn);
}

void pair_remove(struct proxy *p, struct far_flow *f)
{
	if (f->pairing != PAIR_LEARNING)
		idx_hash_del(&p->far_by_qpn, qpn_hash(p, f), f->idx);
	f->pairing = PAIR_LEARNING;
}

/* The flow's QPN has another owner. The flow waits for a turn to learn its pair again, with the packets that were under
 * way; without any, once it has one to send. */
static void unpair(struct proxy *p, struct far_flow *f)
{
	pair_remove(p, f);
	far_store(p, f);
	if (!dnode_on(&f->lan_node) && !timer_armed(&f->rto) && f->pos_tx == f->pos_acked && !f->nops)
		return;
	dlist_remove(&f->lan_node);
	timer_cancel(&p->timers, &f->rto);
	f->rnr = false;
	barrier_mark_stale(p, f);
	f->pos_tx = f->pos_acked;
	f->bytes_out = 0;
	lan_host_less(p, f);
	far_schedule(p, f);
}

void pair_enter(struct proxy *p, struct far_flow *f, uint32_t requester_qpn)
{
	struct far_flow *owner = pair_find(p, &f->src, &f->dst, requester_qpn);

	if (owner && owner != f)
		unpair(p, owner);
	f->requester_qpn = requester_qpn;
	f->was_paired = true;
	idx_hash_put(&p->far_by_qpn, qpn_hash(p, f), f->idx);
}

bool pair_resume(struct proxy *p, struct far_flow *f)
{
	const struct hostpair *hp = &p->pairs[f->hostpair];

	if (f->pairing != PAIR_LEARNING)
		return true;
	if (!f->requester_qpn || f->pos_rx_max > f->pos_acked || f->nops || hp->prober != NONE ||
	    timer_armed(&hp->quarantine) || pair_find(p, &f->src, &f->dst, f->requester_qpn))
		return false;
	f->pairing = PAIR_PROVISIONAL;
	pair_enter(p, f, f->requester_qpn);
	far_store(p, f);
	return true;
}

/* --- host pairs --- */

void pair_init(struct proxy *p)
{
	dlist_init(&p->pairs_free);
	dlist_init(&p->pairs_unasked);
	dlist_init(&p->pairs_left);
	for (uint32_t i = 0; i < p->cfg.max_flows; i++)
		dlist_append(&p->pairs_free, &p->pairs[i].place_node);
}

static struct hostpair *hostpair_find(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	uint32_t h = far_requester_hash(p, src, dst, NONE), i = h, idx;

	while ((idx = idx_hash_next(&p->pair_by_hosts, h, &i)) != NONE) {
		struct hostpair *hp = &p->pairs[idx];

		if (ip_addr_eq(&hp->src, src) && ip_addr_eq(&hp->dst, dst))
			return hp;
	}
	return NULL;
}

static void hostpair_free(struct proxy *p, struct hostpair *hp)
{
	timer_cancel(&p->timers, &hp->quarantine);
	lan_host_leave(p, hp);
	idx_hash_del(&p->pair_by_hosts, far_requester_hash(p, &hp->src, &hp->dst, NONE), (uint32_t)(hp - p->pairs));
	hp->used = false;
	dlist_remove(&hp->place_node);
	dlist_append(&p->pairs_free, &hp->place_node);
}

/* A free place; else that of the oldest pair that has only its quarantine left, first of pairs that unasked answers
 * made. A host that sends answers for which no flow asked can fill the table, but each answer costs only these few
 * steps. */
static struct hostpair *hostpair_place(struct proxy *p)
{
	struct dnode *idle;

	if (dlist_empty(&p->pairs_free)) {
		idle = dlist_first(dlist_empty(&p->pairs_unasked) ? &p->pairs_left : &p->pairs_unasked);
		if (!idle)
			return NULL;
		hostpair_free(p, dlist_entry(idle, struct hostpair, place_node));
	}
	return dlist_entry(dlist_first(&p->pairs_free), struct hostpair, place_node);
}

static struct hostpair *hostpair_new(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	struct hostpair *hp = hostpair_place(p);
	uint32_t idx;

	if (!hp)
		return NULL;
	idx = (uint32_t)(hp - p->pairs);
	dlist_remove(&hp->place_node);
	*hp = (struct hostpair){.used = true, .src = *src, .dst = *dst};
	lan_host_join(p, hp);
	hp->prober = hp->last_prober = hp->interrupted = NONE;
	hp->since_ns = p->now_ns;
	dlist_init(&hp->waiting);
	dlist_init(&hp->doubted_owners);
	timer_init(&hp->quarantine, TK_QUARANTINE, idx);
	idx_hash_put(&p->pair_by_hosts, far_requester_hash(p, src, dst, NONE), idx);
	return hp;
}

/* The pair of these hosts, without a flow if it is made; NULL: there is no place. */
static struct hostpair *hostpair_get(struct proxy *p, const struct ip_addr *src, const struct ip_addr *dst)
{
	struct hostpair *hp = hostpair_find(p, src, dst);

	if (hp)
		return hp;
	hp = hostpair_new(p, src, dst);
	if (hp)
		dlist_append(&p->pairs_unasked, &hp->place_node);
	return hp;
}

bool pair_join(struct proxy *p, struct far_flow *f)
{
	struct hostpair *hp = hostpair_find(p, &f->src, &f->dst);

	if (!hp)
		hp = hostpair_new(p, &f->src, &f->dst);
	if (!hp)
		return false;
	if (hp->flows++ == 0)
		dlist_remove(&hp->place_node);
	f->hostpair = (uint32_t)(hp - p->pairs);
	return true;
}

/* --- packets whose answers may still come --- */

static uint32_t probes_sent_lately(const struct proxy *p, const struct far_flow *f)
{
	if (p->now_ns > f->probes_sent_since_ns + 2 * PAIR_LATE_NS)
		return 0;
	return f->probes_sent[0] + (p->now_ns > f->probes_sent_since_ns + PAIR_LATE_NS ? 0u : f->probes_sent[1]);
}

static void count_probe(const struct proxy *p, struct far_flow *f)
{
	if (p->now_ns > f->probes_sent_since_ns + PAIR_LATE_NS) {
		f->probes_sent[1] = p->now_ns > f->probes_sent_since_ns + 2 * PAIR_LATE_NS ? 0 : f->probes_sent[0];
		f->probes_sent[0] = 0;
		f->probes_sent_since_ns = p->now_ns;
	}
	if (f->probes_sent[0] < UINT16_MAX)
		f->probes_sent[0]++;
	if (f->probes < UINT16_MAX)
		f->probes++;
}

void pair_sent(struct proxy *p, struct far_flow *f)
{
	if (f->pairing == PAIR_LEARNING) {
		f->tx_max_before = f->pos_tx_max;
		count_probe(p, f);
		return;
	}
	if (f->pos_tx == f->pos_tx_max)
		return;
	if (p->now_ns > f->retried_ns + PAIR_LATE_NS)
		f->repeated = 0;
	if (f->repeated < OWNER_ASKED_MAX)
		f->repeated++;
}

/* The flow has its pair, by the answer to one of its probes: all others count as repeated, as their answers may come
 * late. */
static void probes_are_repeated(const struct proxy *p, struct far_flow *f)
{
	f->repeated = (uint16_t)clamp_u64(probes_sent_lately(p, f), 1, OWNER_ASKED_MAX) - 1;
	f->probes_sent[0] = f->probes_sent[1] = 0;
}

/* The number of packets of the flow that were sent again lately, up to `most`: each may be answered late. */
static uint32_t repeated_lately(const struct proxy *p, const struct far_flow *f, uint32_t most)
{
	return p->now_ns > f->retried_ns + PAIR_LATE_NS ? 0 : (uint32_t)min_u64(f->repeated, most);
}

static void outstanding_drop(struct hostpair *hp, struct pair_outstanding *a)
{
	*a = hp->outstanding[--hp->noutstanding];
}

/* Forgets the packets by which f was asked: f has a pair. */
static void outstanding_forget(struct hostpair *hp, const struct far_flow *f)
{
	for (uint32_t i = hp->noutstanding; i-- > 0;)
		if (hp->outstanding[i].flow == f->idx)
			outstanding_drop(hp, &hp->outstanding[i]);
}

static void outstanding_expire(const struct proxy *p, struct hostpair *hp)
{
	for (uint32_t i = hp->noutstanding; i-- > 0;)
		if (p->now_ns >= hp->outstanding[i].until_ns)
			outstanding_drop(hp, &hp->outstanding[i]);
}

static void outstanding_widen(struct pair_outstanding *a, const struct pair_outstanding *more)
{
	bool same = a->flow == more->flow && a->psn == more->psn;

	a->psn = same ? a->psn : 0;
	a->span = same ? (uint32_t)max_u64(a->span, more->span) : ROCE_PSN_MASK;
	a->n = (uint32_t)max_u64(a->n, more->n);
	a->until_ns = max_u64(a->until_ns, more->until_ns);
	a->ahead |= more->ahead;
	if (a->flow != more->flow)
		a->flow = NONE;
}

/* Adds a to hp->outstanding. No entry of a flow without a pair is left out: if there are too many, the last place
 * stands for several. Entries with a QPN may be dropped: their answers have an owner, and confuse only if the QPN is
 * used again. */
static void outstanding_add(const struct proxy *p, struct hostpair *hp, const struct pair_outstanding *a)
{
	outstanding_expire(p, hp);
	for (uint32_t i = 0; i < hp->noutstanding; i++)
		if (a->flow != NONE && hp->outstanding[i].flow == a->flow) {
			outstanding_widen(&hp->outstanding[i], a);
			return;
		}
	for (uint32_t i = 0; hp->noutstanding == PAIR_OUTSTANDING_MAX && i < PAIR_OUTSTANDING_MAX; i++)
		if (hp->outstanding[i].qpn != NONE)
			outstanding_drop(hp, &hp->outstanding[i]);
	if (hp->noutstanding < PAIR_OUTSTANDING_MAX)
		hp->outstanding[hp->noutstanding++] = *a;
	else if (a->qpn == NONE)
		outstanding_widen(&hp->outstanding[PAIR_OUTSTANDING_MAX - 1], a);
}

/* Bytes of the READ of unknown length in PSNs, which is the last packet sent; 0: there is none. */
static uint32_t unknown_read_len(struct proxy *p, const struct far_flow *f)
{
	uint32_t slot = arena_find(p->arena, SLOT_REQ_FAR, f->idx, f->pos_tx_max - 1);
	struct roce_pkt pkt;

	if (slot == SLOT_NONE || arena_hdr(p->arena, slot)->psns != 0 ||
	    roce_parse(arena_data(p->arena, slot), arena_hdr(p->arena, slot)->len, &pkt) != DROP_NONE)
		return 0;
	return pkt.reth_len;
}

/* The end of all PSNs that an answer to the flow may be about. A READ of unknown length owns at most as many as with
 * the smallest PMTU. */
static uint64_t outstanding_end(struct proxy *p, const struct far_flow *f)
{
	uint32_t len = unknown_read_len(p, f);

	return len ? f->pos_tx_max - 1 + roce_read_psns(len, 256) : f->pos_tx_max;
}

/* Adds the packets of the flow's turn, which ends without a pair, to outstanding. */
static void outstanding_add_turn(struct proxy *p, struct hostpair *hp, const struct far_flow *f)
{
	struct pair_outstanding a = {.flow = f->idx,
	                             .qpn = NONE,
	                             .psn = pos_psn(f->pos_acked),
	                             .span = (uint32_t)min_u64(outstanding_end(p, f) - f->pos_acked, PSN_HALF),
	                             .n = (uint32_t)min_u64(probes_sent_lately(p, f), PROBES_MAX),
	                             .until_ns = p->now_ns + PAIR_LATE_NS,
	                             .ahead = f->resumed};

	if (a.n)
		outstanding_add(p, hp, &a);
}

/* The requests without a flow between these hosts; NULL: there were none lately. */
static struct pair_outstanding *outstanding_end_to_end(struct hostpair *hp)
{
	for (uint32_t i = 0; i < hp->noutstanding; i++)
		if (hp->outstanding[i].flow == END_TO_END)
			return &hp->outstanding[i];
	return NULL;
}

void pair_end_to_end_asked(struct proxy *p, const struct roce_pkt *request)
{
	struct hostpair *hp = hostpair_get(p, &request->src, &request->dst);
	struct pair_outstanding *a, first = {.flow = END_TO_END, .qpn = NONE, .span = ROCE_PSN_MASK, .n = 1};

	if (!hp || FAULT(FAULT_END_TO_END_ON_TIME))
		return;
	first.until_ns = p->now_ns + PAIR_LATE_NS;
	outstanding_add(p, hp, &first);
	a = outstanding_end_to_end(hp);
	if (a)
		a->n = (uint32_t)min_u64(a->n + 1, PROBES_MAX);
}

/* True if the responder refused: its queue pair is in the error state and answers no packet (IBTA 9.9.3). Only answers
 * that the NAK has overtaken may still be on their way. */
static bool flow_is_refused(const struct far_flow *f)
{
	return far_has_failed(f) && f->syndrome;
}

static uint64_t late_answer_ns(const struct far_flow *f)
{
	return flow_is_refused(f) ? OVERTAKEN_NS : PAIR_LATE_NS;
}

/* Called when a flow ends: its probes belong to no flow any more. Packets that were repeated, or under way while it had
 * a pair, may be answered to a QPN that has another owner by then. */
static void outstanding_leave(const struct proxy *p, struct hostpair *hp, const struct far_flow *f)
{
	struct pair_outstanding a = {.flow = NONE,
	                             .qpn = f->requester_qpn,
	                             .psn = pos_psn(f->pos_base),
	                             .span = (uint32_t)min_u64(f->pos_tx_max - f->pos_base, ROCE_PSN_MASK),
	                             .n = repeated_lately(p, f, REPEATED_MAX),
	                             .until_ns = p->now_ns + late_answer_ns(f)};

	for (uint32_t i = 0; i < hp->noutstanding; i++)
		if (hp->outstanding[i].flow == f->idx)
			hp->outstanding[i].flow = NONE;
	a.n += (uint32_t)min_u64(f->pos_tx_max - f->pos_acked, REPEATED_MAX);
	if (f->was_paired && a.n)
		outstanding_add(p, hp, &a);
}

static bool answers_in_flight(struct proxy *p, const struct far_flow *f, const struct roce_pkt *pkt);

/* True if pkt may answer a packet of `a`, and `a` is not f's. */
static bool outstanding_may_answer(struct proxy *p, const struct pair_outstanding *a, const struct far_flow *f,
                                   const struct roce_pkt *pkt)
{
	uint32_t d = (pkt->psn - a->psn) & ROCE_PSN_MASK;
	uint8_t type = pkt->aeth_syndrome & AETH_TYPE_MASK;

	if (a->flow == f->idx || (a->qpn != NONE && a->qpn != pkt->dest_qpn))
		return false;
	if (d < a->span || (d == a->span && (pkt->opcode != RC_ACK || type != AETH_ACK)))
		return true; /* a NAK may ask for the next PSN, and a READ may be longer than is known */
	if (pkt->opcode != RC_ACK)
		return false;
	if (pkt->aeth_syndrome == AETH_NAK_PSN_SEQ && d >= 0x1000000u - BELOW_BASE_REACH)
		return true;
	return type == AETH_ACK && d < PSN_HALF && (a->ahead || !answers_in_flight(p, f, pkt));
}

/* The largest number of packets of another flow that pkt may answer; 0: pkt can only be an answer to f. */
static uint32_t outstanding_of_others(struct proxy *p, struct hostpair *hp, const struct far_flow *f,
                                      const struct roce_pkt *pkt)
{
	uint32_t most = 0;

	if (hp->noutstanding)
		outstanding_expire(p, hp);
	for (uint32_t i = 0; i < hp->noutstanding; i++)
		if (outstanding_may_answer(p, &hp->outstanding[i], f, pkt))
			most = (uint32_t)max_u64(most, hp->outstanding[i].n);
	return FAULT(FAULT_LATE_ANSWER_PAIRS) ? 0 : most;
}

/* The place that counts the answers to that QPN in this turn. */
static uint32_t heard_place(struct hostpair *hp, uint32_t qpn)
{
	uint32_t i = 0;

	while (i < PAIR_HEARD_MAX && i < hp->nheard && hp->heard[i].qpn != qpn)
		i++;
	if (i == PAIR_HEARD_MAX)
		i = hp->nheard % PAIR_HEARD_MAX;
	if (i >= hp->nheard || hp->heard[i].qpn != qpn) {
		hp->heard[i].qpn = qpn;
		hp->heard[i].n = hp->heard[i].lasts = 0;
		hp->nheard++;
	}
	return i;
}

/* A READ that is repeated whole brings one FIRST and one LAST each time. rxe answers the repeated rest of a READ with
 * MIDDLE and LAST, and with a LAST alone if one packet is left. */
static uint32_t answers_of(struct hostpair *hp, uint32_t qpn)
{
	uint32_t i = heard_place(hp, qpn);

	return FAULT(FAULT_LAST_UNCOUNTED) ? hp->heard[i].n : (uint32_t)max_u64(hp->heard[i].n, hp->heard[i].lasts);
}

/* Counts pkt, and returns the number of answers to that QPN in this turn. */
static uint32_t answers_heard(struct hostpair *hp, const struct roce_pkt *pkt)
{
	uint32_t i = heard_place(hp, pkt->dest_qpn);

	if (pkt->opcode == RC_READ_RESP_LAST)
		hp->heard[i].lasts++;
	else
		hp->heard[i].n++;
	return answers_of(hp, pkt->dest_qpn);
}

/* True if so many packets were sent in doubt that no more could decide. */
static bool doubt_is_spent(const struct hostpair *hp, uint32_t others)
{
	return hp->probes_in_doubt >= 2 * others + IN_DOUBT_MAX;
}

/* --- turns --- */

static void begin_turn(struct hostpair *hp, struct far_flow *f)
{
	hp->nheard = hp->probes_in_doubt = 0;
	f->probes = 0;
	f->progress_before_ns = f->last_progress_ns;
	hp->doubted = false;
	hp->interrupted = NONE;
	hp->had_turn = true;
	hp->refused_ns = hp->refused_until_ns = 0;
	hp->prober = f->idx;
	f->probing = true;
}

/* Puts off turns: none begins before until_ns, nor before refused_until_ns. */
static void put_off_turns(struct proxy *p, struct hostpair *hp, uint64_t until_ns)
{
	timer_set(&p->timers, &hp->quarantine, max_u64(until_ns, hp->refused_until_ns));
}

static void end_turn(struct proxy *p, struct hostpair *hp, struct far_flow *f)
{
	if (f->probes && f->pairing == PAIR_LEARNING)
		outstanding_add_turn(p, hp, f);
	hp->prober = NONE;
	f->probing = false;
	f->probe_more = f->probe_unsent = false;
	f->probe_repeats = 0;
}

/* Ends the flow's turn as if nothing had been sent in it. */
static void take_turn_back(struct proxy *p, struct hostpair *hp, struct far_flow *f)
{
	end_turn(p, hp, f);
	dlist_remove(&f->lan_node);
	f->pos_tx = f->pos_acked;
	f->bytes_out = 0;
	lan_host_less(p, f);
}

/* True if packets of the flow are out. */
static bool owner_is_busy(const struct far_flow *f)
{
	return f->pos_tx_max > f->pos_acked || f->nops;
}

/* True if packets of the flow are out and its responder has not answered SILENT_RETRIES retries: the responder may be
 * gone, and the requester's QPN may have another owner. */
static bool owner_is_silent(const struct far_flow *f)
{
	return f->pairing != PAIR_LEARNING && owner_is_busy(f) && (f->retries >= SILENT_RETRIES || f->stalled);
}

/* Asks OWNERS_AT_ONCE silent owners before the next turn, while no other flow is probed: answers to their QPNs in
 * another flow's turn did not count. A QPN tells its owner. The quarantine of the flow that was probed last is over: a
 * later answer to it is one of `outstanding`. False: there is no such owner. */
static bool ask_silent_owners(struct proxy *p, struct hostpair *hp)
{
	struct dnode *n;
	uint32_t asked = 0;

	while (asked < OWNERS_AT_ONCE && (n = dlist_first(&hp->doubted_owners)) && work_take(p)) {
		struct far_flow *f = dlist_entry(n, struct far_flow, doubted_node);

		dlist_remove(n);
		if (!owner_is_silent(f))
			continue;
		asked++;
		far_go_back(p, f, f->pos_acked);
	}
	if (!asked)
		return false;
	hp->last_prober = NONE;
	hp->probes_in_doubt = 0;
	timer_set(&p->timers, &hp->quarantine, p->now_ns + p->cfg.lan_timeout_ns);
	return true;
}

static void next_turn(struct proxy *p, struct hostpair *hp)
{
	struct dnode *n = dlist_first(&hp->waiting);
	struct far_flow *f;

	if (hp->prober != NONE || timer_armed(&hp->quarantine) || ask_silent_owners(p, hp) || !n)
		return;
	f = dlist_entry(n, struct far_flow, pair_node);
	dlist_remove(n);
	begin_turn(hp, f);
	far_schedule(p, f);
}

static void turn_end_and_next(struct proxy *p, struct far_flow *f)
{
	struct hostpair *hp = &p->pairs[f->hostpair];

	if (!f->probing)
		return;
	end_turn(p, hp, f);
	next_turn(p, hp);
}

/* Called when a flow was refused: no turn begins before the answers that the NAK has overtaken have come. A row of
 * refusals goes on while turns wait for it, even if the tick that begins the next turn is late. */
static void wait_for_overtaken(struct proxy *p, struct hostpair *hp)
{
	bool turn_due = timer_armed(&hp->quarantine) && hp->quarantine.when_ns <= p->now_ns;
	uint64_t until;

	if (p->now_ns >= hp->refused_until_ns && !(turn_due && hp->refused_ns))
		hp->refused_ns = p->now_ns;
	until = min_u64(p->now_ns + OVERTAKEN_NS, hp->refused_ns + OVERTAKEN_MAX_NS);
	if (until <= p->now_ns)
		return;
	hp->refused_until_ns = max_u64(hp->refused_until_ns, until);
	put_off_turns(p, hp, timer_armed(&hp->quarantine) ? hp->quarantine.when_ns : until);
}

void pair_leave(struct proxy *p, struct far_flow *f)
{
	struct hostpair *hp;
	bool asked;

	if (f->hostpair == NONE)
		return;
	hp = &p->pairs[f->hostpair];
	asked = (f->probing || hp->interrupted == f->idx) && f->pos_tx_max > f->pos_acked;
	dlist_remove(&f->pair_node);
	if (hp->last_prober == f->idx)
		hp->last_prober = NONE;
	dlist_remove(&f->doubted_node);
	if (asked && !FAULT(FAULT_NO_QUARANTINE)) /* its answer may be on its way */
		put_off_turns(p, hp, p->now_ns + p->cfg.quarantine_ns);
	else if (flow_is_refused(f) && !FAULT(FAULT_NO_QUARANTINE))
		wait_for_overtaken(p, hp);
	if (hp->interrupted == f->idx)
		hp->interrupted = NONE;
	turn_end_and_next(p, f);
	outstanding_leave(p, hp, f);
	if (f->pairing != PAIR_LEARNING)
		idx_hash_del(&p->far_by_qpn, qpn_hash(p, f), f->idx);
	dlist_remove(&f->lan_node);
	f->bytes_out = 0;
	lan_host_less(p, f);
	f->hostpair = NONE;
	if (--hp->flows)
		return;
	dlist_append(&p->pairs_left, &hp->place_node);
	if (!timer_armed(&hp->quarantine) && !hp->noutstanding)
		hostpair_free(p, hp);
}

/* Flows that were never probed go in front, but behind the flow whose turn was taken back: answers to it may still
 * come. */
static void wait_for_turn(struct proxy *p, struct hostpair *hp, struct far_flow *f)
{
	struct dnode *front = hp->waiting.next;

	if (hp->interrupted != NONE && front == &p->far[hp->interrupted].pair_node)
		front = front->next;
	dlist_append(f->retries ? &hp->waiting : front, &f->pair_node);
}

bool pair_turn(struct proxy *p, struct far_flow *f)
{
	struct hostpair *hp = &p->pairs[f->hostpair];

	if (f->probing || FAULT(FAULT_PROBE_TOGETHER))
		return true;
	if (!dnode_on(&f->pair_node))
		wait_for_turn(p, hp, f);
	if (hp->prober != NONE || timer_armed(&hp->quarantine) || dlist_first(&hp->waiting) != &f->pair_node)
		return false;
	dlist_remove(&f->pair_node);
	begin_turn(hp, f);
	return true;
}

void pair_put_off(struct proxy *p, struct far_flow *f)
{
	struct hostpair *hp;

	if (f->hostpair == NONE)
		return;
	hp = &p->pairs[f->hostpair];
	dlist_remove(&f->pair_node);
	if (hp->interrupted == f->idx)
		hp->interrupted = NONE;
	if (!f->probing)
		return;
	take_turn_back(p, hp, f);
	timer_cancel(&p->timers, &f->rto);
	hp->last_prober = f->idx;
	put_off_turns(p, hp, p->now_ns + p->cfg.quarantine_ns); /* its answer may be on its way */
}

void pair_unanswered(struct proxy *p, struct far_flow *f)
{
	struct hostpair *hp = &p->pairs[f->hostpair];
	uint64_t wait = FAULT(FAULT_NO_QUARANTINE) ? 1 : p->cfg.quarantine_ns;

	count(p, CTR_PAIR_QUARANTINES, 1);
	f->notes.n.turns_unanswered++;
	if (f->retries == 1)
		proxy_event_push(p, EV_PAIR_QUARANTINED, NULL, f, f->pos_acked, wait);
	hp->unsent_row = 0;
	take_turn_back(p, hp, f);
	hp->last_prober = f->idx;
	put_off_turns(p, hp, p->now_ns + wait);
	/* From the third unanswered turn on the next one comes later and later: flows without an answer must not keep
	 * the others waiting. Not sooner: a responder may be late, and ConnectX gives up after 300 ms. */
	wait <<= f->retries < 3 ? 0 : f->retries < 8 ? f->retries - 2 : 6;
	timer_set(&p->timers, &f->rto, p->now_ns + wait);
}

/* No quarantine follows, as no packet was sent that could be answered late. The flow stays in front of those
 * that wait. */
void pair_unsent(struct proxy *p, struct far_flow *f)
{
	bool again = f->probe_unsent;
	struct hostpair *hp;

	if (f->hostpair == NONE || !f->probing)
		return;
	hp = &p->pairs[f->hostpair];
	count(p, CTR_PAIRS_UNSENT, 1);
	f->notes.n.unsent++;
	f->probes--;
	f->probes_sent[0]--;
	f->pos_tx_max = f->tx_max_before;
	if (again)
		f->last_progress_ns = f->progress_before_ns;
	f->rtt_pos = 0;
	take_turn_back(p, hp, f);
	timer_cancel(&p->timers, &f->rto);
	f->probe_unsent = true;
	hp->interrupted = f->idx;
	dlist_append(hp->waiting.next, &f->pair_node);
	put_off_turns(p, hp, p->now_ns + (UNSENT_WAIT_NS << hp->unsent_row));
	if (hp->unsent_row < UNSENT_DOUBLINGS)
		hp->unsent_row++;
}

void pair_after_restart(struct proxy *p, struct far_flow *f)
{
	struct pair_outstanding a = {.flow = f->idx,
	                             .qpn = NONE,
	                             .psn = pos_psn(f->pos_acked),
	                             .span = PSN_HALF,
	                             .n = PROBES_BEFORE_RESTART,
	                             .until_ns = p->now_ns + late_answer_ns(f),
	                             .ahead = true};

	if (f->hostpair == NONE)
		return;
	if (far_has_failed(f) && f->pairing != PAIR_LEARNING) { /* how many packets were out is not kept */
		a.flow = NONE;
		a.qpn = f->requester_qpn;
		a.psn = pos_psn(f->pos_base);
		a.ahead = false;
		outstanding_add(p, &p->pairs[f->hostpair], &a);
		return;
	}
	if (f->pairing == PAIR_LEARNING) {
		f->probes_sent[0] = PROBES_BEFORE_RESTART;
		f->probes_sent_since_ns = p->now_ns;
		outstanding_add(p, &p->pairs[f->hostpair], &a);
	}
	if (f->pairing == PAIR_LEARNING && !FAULT(FAULT_NO_RESTART_QUARANTINE))
		timer_set(&p->timers, &p->pairs[f->hostpair].quarantine, p->now_ns + p->cfg.quarantine_ns);
}

void pair_on_timer(struct proxy *p, struct hostpair *hp)
{
	struct dnode *n = dlist_first(&hp->waiting);

	hp->last_prober = NONE;
	if (hp->unsent_row && n)
		far_overdue(p, dlist_entry(n, struct far_flow, pair_node));
	if (!hp->used || timer_armed(&hp->quarantine))
		return; /* far_overdue() has failed the flow: the pair was freed, or its quarantine set again */
	if (hp->flows)
		next_turn(p, hp);
	else if (!hp->noutstanding)
		hostpair_free(p, hp); /* else it is freed when its place is needed */
}

/* --- the flow that an answer is for --- */

/* True if pkt, at pos, may end a READ of unknown length, which is the last that f has sent: rxe answers the rest of a
 * READ with MIDDLE, which has no AETH, and LAST. */
static bool may_end_unknown_read(struct proxy *p, const struct far_flow *f, const struct roce_pkt *pkt, uint64_t pos)
{
	uint32_t len;

	if (pkt->opcode != RC_READ_RESP_LAST || FAULT(FAULT_LAST_UNCOUNTED))
		return false;
	len = unknown_read_len(p, f);
	for (uint32_t pmtu = 256; len && pmtu <= 4096; pmtu *= 2)
		if (pos == f->pos_tx_max - 2 + roce_read_psns(len, (uint16_t)pmtu))
			return true;
	return false;
}

/* True if pkt answers a packet of f that was sent and not acked yet. */
static bool answers_in_flight(struct proxy *p, const struct far_flow *f, const struct roce_pkt *pkt)
{
	uint64_t pos = pos_near(f->pos_acked, pkt->psn);
	bool inside = pkt->opcode != RC_ACK && pos == f->pos_tx_max; /* of a READ whose length is not known */

	return pos >= f->pos_acked && (pos < f->pos_tx_max || inside || may_end_unknown_read(p, f, pkt, pos));
}

/* True if the responder is ahead of f: it had the requests from an edge that lost its arena, or before there was an
 * edge, and answers a repeated packet with an ACK of its last PSN. */
static bool responder_is_ahead(const struct far_flow *f, const struct roce_pkt *pkt)
{
	return (f->retries || f->probe_repeats) && pkt->opcode == RC_ACK &&
	       (pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK && pos_near(f->pos_acked, pkt->psn) >= f->pos_tx_max;
}

/* responder_is_ahead(), and everything before that PSN is here: the near edge has it, too, and can compare the MSN. */
static bool responder_is_ahead_within(const struct far_flow *f, const struct roce_pkt *pkt)
{
	return responder_is_ahead(f, pkt) && pos_near(f->pos_acked, pkt->psn) < f->pos_rx;
}

/* The responder is ahead of everything that is here. The answer cannot pair the flow yet, but the whole window may be
 * sent at once: a READ in it gets responses of its own. */
static void send_whole_window(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt)
{
	f->pos_ahead = pos_near(f->pos_acked, pkt->psn);
	far_schedule(p, f);
}

/* True if the responder waits for a packet that the first one seen had overtaken. Within BELOW_BASE_REACH only: a stray
 * NAK may carry any PSN. */
static bool expects_earlier(const struct far_flow *f, const struct roce_pkt *pkt)
{
	uint64_t pos = pos_near(f->pos_base, pkt->psn);

	return pkt->opcode == RC_ACK && pkt->aeth_syndrome == AETH_NAK_PSN_SEQ && !f->base_fixed && pos < f->pos_base &&
	       pos + BELOW_BASE_REACH >= f->pos_base;
}

/* True if the responder waits for a packet of an earlier incarnation that the near edge has lost with its arena.
 * However far below the base, this NAK is the flow's answer, and the only one that it gets (far_lost.c). */
static bool awaits_what_is_lost(struct proxy *p, const struct far_flow *f, const struct roce_pkt *pkt)
{
	return pkt->opcode == RC_ACK && pkt->aeth_syndrome == AETH_NAK_PSN_SEQ && !f->base_fixed &&
	       far_lost_awaited(p, f, pkt->psn);
}

/* True if pkt is about a PSN a little below everything that the flow has sent: it answers another sender's packet, and
 * the next such answer may look like the flow's. */
static bool answer_is_behind(const struct far_flow *f, const struct roce_pkt *pkt)
{
	uint64_t pos = pos_near(f->pos_acked, pkt->psn);

	return pos < f->pos_acked && pos + BELOW_BASE_REACH >= f->pos_acked && !expects_earlier(f, pkt);
}

/* Called for an answer that may be for another flow, to which `others` packets were sent: the answer counts for no
 * flow, and f is asked again. */
static void ask_in_doubt(struct proxy *p, struct far_flow *f, uint32_t others)
{
	struct hostpair *hp = &p->pairs[f->hostpair];

	count(p, CTR_PAIR_DOUBTS, 1);
	if (!f->probing || doubt_is_spent(hp, others))
		return;
	hp->probes_in_doubt++;
	far_ask_again(p, f);
}

/* Goes on with the last turn, in its quarantine, after an answer in doubt that came too late to be followed by another
 * probe. The answers heard in the turn count on. */
static void resume_turn(struct proxy *p, struct hostpair *hp, struct far_flow *f, uint32_t others)
{
	bool may_send = f->pairing == PAIR_LEARNING && f->successor_of == NONE && p->now_ns >= hp->refused_until_ns;

	if (hp->last_prober != f->idx || !may_send || doubt_is_spent(hp, others) || FAULT(FAULT_LATE_TURN_ENDS))
		return;
	dlist_remove(&f->pair_node);
	timer_cancel(&p->timers, &f->rto);
	timer_cancel(&p->timers, &hp->quarantine);
	hp->last_prober = NONE;
	hp->prober = f->idx;
	f->probing = true;
	f->probes = 0;
}

/* The flow that an answer to an unowned QPN can be for: the one that has its turn, or, in quarantine, the one that had
 * the last: no other flow was probed since. */
static struct far_flow *answer_candidate(struct proxy *p, struct hostpair *hp)
{
	if (hp->prober != NONE) {
		struct far_flow *f = &p->far[hp->prober];

		return f->pos_tx > f->pos_acked ? f : NULL; /* in its turn, but perhaps no packet was sent yet */
	}
	return hp->last_prober != NONE ? &p->far[hp->last_prober] : NULL;
}

/* True if pkt may be an answer to `probed`, the flow that has its turn or had the last. */
static bool may_be_probed(struct proxy *p, const struct far_flow *probed, const struct roce_pkt *pkt)
{
	return probed && (answers_in_flight(p, probed, pkt) || responder_is_ahead(probed, pkt) ||
	                  expects_earlier(probed, pkt) || awaits_what_is_lost(p, probed, pkt));
}

/* The largest number of packets of f, the silent or idle owner of the QPN, that pkt may answer. */
static uint32_t outstanding_of_owner(const struct proxy *p, const struct far_flow *f, const struct roce_pkt *pkt)
{
	uint64_t pos = pos_near(f->pos_acked, pkt->psn), out = f->pos_tx_max - f->pos_acked + f->nops;
	bool ack = pkt->opcode == RC_ACK && (pkt->aeth_syndrome & AETH_TYPE_MASK) == AETH_ACK;

	if (FAULT(FAULT_LATE_ANSWER_PAIRS))
		return 0;
	if (!owner_is_busy(f))
		return pos >= f->pos_base && pos < f->pos_tx_max ? repeated_lately(p, f, OWNER_ASKED_MAX) : 0;
	if ((pos < f->pos_base && !expects_earlier(f, pkt)) || (pos > f->pos_tx_max && !ack))
		return 0;
	return repeated_lately(p, f, OWNER_ASKED_MAX) + (uint32_t)min_u64(out, OWNER_ASKED_MAX) +
	       (f->resumed ? PROBES_BEFORE_RESTART : 0);
}

/* The owner of the QPN has packets in flight. The answer is for the owner, unless its responder is silent or would be
 * ahead. Then the answer is the owner's only if it can be for no other flow, or if too many came for that. */
static enum pair_answer_to answer_to_busy_owner(struct proxy *p, struct hostpair *hp, struct far_flow *f,
                                                const struct roce_pkt *pkt)
{
	uint64_t pos = pos_near(f->pos_acked, pkt->psn);
	bool silent = owner_is_silent(f);
	uint32_t others;

	if (!silent && !(f->resumed && pos >= f->pos_tx_max))
		return PAIR_ANSWER_TO_OWNER;
	if (may_be_probed(p, answer_candidate(p, hp), pkt)) {
		dlist_append_once(&hp->doubted_owners, &f->doubted_node);
		return PAIR_ANSWER_TO_PROBED; /* pair_claim() counts the owner's packets, too */
	}
	others = silent && pos >= f->pos_acked ? outstanding_of_others(p, hp, f, pkt) : 0;
	if (!others || answers_heard(hp, pkt) > 2 * others)
		return PAIR_ANSWER_TO_OWNER;
	count(p, CTR_PAIR_DOUBTS, 1);
	if (!doubt_is_spent(hp, others)) {
		hp->probes_in_doubt++;
		far_go_back(p, f, f->pos_acked);
	}
	dlist_append_once(&hp->doubted_owners, &f->doubted_node);
	next_turn(p, hp);
	return PAIR_ANSWER_AMBIGUOUS;
}

enum pair_answer_to pair_answer_to(struct proxy *p, struct far_flow *f, const struct roce_pkt *pkt)
{
	struct hostpair *hp = &p->pairs[f->hostpair];
	uint64_t pos = pos_near(f->pos_acked, pkt->psn);
	struct far_flow *probed;
	uint32_t repeated;

	if (FAULT(FAULT_PAIR_FOR_EVER))
		return PAIR_ANSWER_TO_OWNER;
	if (owner_is_busy(f))
		return answer_to_busy_owner(p, hp, f, pkt);
	if (hp->prober == NONE)
		return PAIR_ANSWER_TO_OWNER;
	if (pos >= f->pos_base && pos < f->pos_tx_max &&
	    p->now_ns < max_u64(f->retried_ns, f->last_progress_ns) + VOID_QUIET_NS) {
		/* The answer may have been overtaken by another one of the owner's, or be to a packet sent twice. If it
		 * is the probed flow's, that flow goes on asking until the owner was quiet for VOID_QUIET_NS. */
		if (!hp->doubted)
			p->far[hp->prober].probe_repeats = 0;
		hp->doubted = true;
		return PAIR_ANSWER_TO_OWNER;
	}
	probed = &p->far[hp->prober];
	if (!may_be_probed(p, probed, pkt))
		return PAIR_ANSWER_TO_OWNER;
	repeated = outstanding_of_owner(p, f, pkt);
	if (responder_is_ahead(probed, pkt) && pos >= f->pos_base && pos < f->pos_tx_max) {
		/* An ACK of what the owner has sent does not say that probed is behind. But probed may be, unless the
		 * owner's responder has a reason to repeat the ACK: once probed has sent its window, its answers are to
		 * packets in flight. */
		if (pos + 1 == f->pos_tx_max)
			return PAIR_ANSWER_TO_OWNER;
		if (repeated && answers_heard(hp, pkt) <= 2 * repeated)
			ask_in_doubt(p, probed, repeated);
		else
			send_whole_window(p, probed, pkt);
		return PAIR_ANSWER_TO_OWNER;
	}
	/* The answer may be the second to a packet of the owner sent twice: their number decides. */
	if (repeated && answers_heard(hp, pkt) <= 2 * repeated) {
		ask_in_doubt(p, probed, repeated);
		return PAIR_ANSWER_TO_OWNER;
	}
	return PAIR_ANSWER_TO_PROBED; /* f's pair is void once the probed flow gets the QPN: pair_enter() */
}

/* Takes the current turn back: its flow has the next turn, and no flow is paired by a late answer. */
static void interrupt_turn(struct proxy *p, struct hostpair *hp)
{
	struct far_flow *f = hp->prober == NONE ? NULL : &p->far[hp->prober];

	hp->last_prober = NONE;
	if (!f)
		return;
	take_turn_back(p, hp, f);
	timer_cancel(&p->timers, &f->rto);
	hp->interrupted = f->idx;
	dlist_append(hp->waiting.next, &f->pair_node);
}

/* Puts off turns, after an answer for which no flow between these hosts can have asked. */
static void put_off_unasked(struct proxy *p, struct hostpair *hp, const struct roce_pkt *pkt)
{
	uint64_t until;

	if (!hp)
		hp = hostpair_get(p, &pkt->dst, &pkt->src);
	if (!hp || FAULT(FAULT_UNASKED_IGNORED))
		return;
	until = min_u64(p->now_ns + UNASKED_QUIET_NS, hp->since_ns + UNASKED_MAX_NS);
	if (until <= p->now_ns)
		return;
	if (!timer_armed(&hp->quarantine) || hp->quarantine.when_ns < until)
		timer_set(&p->timers, &hp->quarantine, until);
	interrupt_turn(p, hp);
}

/* True if pkt is about a PSN near those of a flow that waits for its first turn, or is what a flow in doubt would take:
 * an answer like it may pass for that flow's. Also true while no flow waits, or too many do to look at all of them: any
 * of them could be meant. */
static bool may_confuse_waiting(const struct hostpair *hp, const struct roce_pkt *pkt)
{
	uint32_t looked = 0;

	for (const struct dnode *n = hp->waiting.next; n != &hp->waiting; n = n->next) {
		const struct far_flow *f = dlist_entry(n, struct far_flow, pair_node);
		uint64_t pos = pos_near(f->pos_acked, pkt->psn), end = max_u64(f->pos_rx, f->pos_rx_max);

		if (pos + BELOW_BASE_REACH >= f->pos_acked && pos < end + BELOW_BASE_REACH)
			return true;
		if (f->doubted && pos >= f->pos_acked)
			return true; /* takes an ACK of anything further on (pair_claim()) */
		if (++looked == WAITING_LOOKED_AT)
			return true;
	}
	return looked == 0;
}

/* True if no flow between these hosts can have asked for this answer: the hosts talk past the edges. */
static bool nobody_asked(struct proxy *p, struct hostpair *hp, const struct far_flow *asked, const struct roce_pkt *pkt)
{
	const struct far_flow *next;

	if (!hp || !hp->had_turn)
		return !hp || may_confuse_waiting(hp, pkt);
	if (asked)
		return answer_is_behind(asked, pkt) && !outstanding_of_others(p, hp, asked, pkt);
	next = hp->interrupted == NONE ? NULL : &p->far[hp->interrupted];
	return next && (answer_is_behind(next, pkt) || answers_in_flight(p, next, pkt));
}

struct far_flow *pair_claim(struct proxy *p, const struct roce_pkt *pkt)
{
	struct hostpair *hp = hostpair_find(p, &pkt->dst, &pkt->src);
	struct far_flow *f = hp ? answer_candidate(p, hp) : NULL;
	const struct far_flow *owner; /* of that QPN: silent, or idle and quiet, as pair_answer_to() has said */
	uint32_t others, owners;
	bool counted;

	if (nobody_asked(p, hp, f, pkt)) {
		put_off_unasked(p, hp, pkt);
		return NULL;
	}
	if (!f || !(roce_op(pkt->opcode)->flags & ROP_AETH))
		return NULL; /* a packet without AETH does not tell the MSN */
	if (!answers_in_flight(p, f, pkt) && !expects_earlier(f, pkt) && !awaits_what_is_lost(p, f, pkt) &&
	    !responder_is_ahead_within(f, pkt) && !(f->doubted && responder_is_ahead(f, pkt))) {
		if (responder_is_ahead(f, pkt))
			send_whole_window(p, f, pkt);
		return NULL;
	}
	owner = pair_find(p, &pkt->dst, &pkt->src, pkt->dest_qpn);
	others = outstanding_of_others(p, hp, f, pkt);
	owners = owner ? outstanding_of_owner(p, owner, pkt) : 0;
	others = (uint32_t)max_u64(others, owners);
	counted = owners && !owner_is_busy(owner); /* pair_answer_to() has counted it */
	if (others && (counted ? answers_of(hp, pkt->dest_qpn) : answers_heard(hp, pkt)) <= 2 * others) {
		if (!owner) /* an owner's answers would keep the turn for ever, in which no silent owner is asked */
			resume_turn(p, hp, f, others);
		ask_in_doubt(p, f, others);
		return NULL;
	}
	if (FAULT(FAULT_MISPAIR) && dlist_first(&hp->waiting)) {
		/* the deliberate bug: the answer is given to the next flow */
		f = dlist_entry(dlist_first(&hp->waiting), struct far_flow, pair_node);
	}
	if (f->was_paired && f->requester_qpn != pkt->dest_qpn && f->pos_acked > f->pos_base) {
		far_mispaired(p, f, pkt->dest_qpn); /* answers to the old QPN have counted, and were another flow's */
		return NULL;
	}
	f->resumed |= responder_is_ahead_within(f, pkt);
	f->pairing = FAULT(FAULT_FIRST_ANSWER_CONFIRMS) ? PAIR_CONFIRMED : PAIR_PROVISIONAL;
	pair_enter(p, f, pkt->dest_qpn);
	near_requester_answered(p, &f->dst, f->dest_qpn, &f->src);
	outstanding_forget(hp, f);
	probes_are_repeated(p, f);
	hp->unsent_row = 0;
	dlist_remove(&f->pair_node);
	if (hp->last_prober == f->idx) {
		hp->last_prober = NONE;
		timer_cancel(&p->timers, &hp->quarantine);
		if (p->now_ns < hp->refused_until_ns)
			put_off_turns(p, hp, hp->refused_until_ns);
	}
	turn_end_and_next(p, f);
	next_turn(p, hp);
	return f;
}
