/* SPDX-License-Identifier: Apache-2.0 */
#include "flag.h"

#include <stdlib.h>

#include "check.h"
#include "word.h"
#include "world.h"

/* What was complete when a message was posted. */
struct flag_note {
	struct flag_note *next;
	uint64_t msg;
	uint32_t round, n;
	struct {
		uint32_t conn, round;
		uint64_t completed;
	} said[];
};

void flag_posted(struct conn *c, int side, uint64_t msg)
{
	const struct world *w = c->w;
	struct flag_note *note;

	if (w->cfg.barrier != BARRIER_CAUSAL || w->cfg.direct)
		return;
	note = malloc(sizeof(*note) + w->nconns * sizeof(note->said[0]));
	if (!note)
		abort();
	*note = (struct flag_note){.msg = msg, .round = c->round};
	for (uint32_t i = 0; i < w->nconns; i++) {
		const struct conn *k = &w->conn[i];

		if (k == c || !word_same_machines(c, k) || !k->qp[side] || k->qp[side]->req.msg_completed == 0)
			continue;
		note->said[note->n].conn = i;
		note->said[note->n].round = k->round;
		note->said[note->n++].completed = k->qp[side]->req.msg_completed;
	}
	if (note->n == 0) {
		free(note);
		return;
	}
	if (c->flag_last[side])
		c->flag_last[side]->next = note;
	else
		c->flag_first[side] = note;
	c->flag_last[side] = note;
}

static struct flag_note *take_first(struct conn *c, int side)
{
	struct flag_note *note = c->flag_first[side];

	c->flag_first[side] = note->next;
	if (!note->next)
		c->flag_last[side] = NULL;
	return note;
}

/* Edges may leave some out, and let a message go early where the bytes in front of it cannot get through. */
static void check_note(struct conn *c, int side, const struct flag_note *note)
{
	struct world *w = c->w;
	bool waived = edge_waived(&w->edge[!side]) > 0;

	if (edge_waived(&w->edge[side]) > 0)
		return;
	for (uint32_t i = 0; i < note->n; i++) {
		const struct conn *k = &w->conn[note->said[i].conn];

		if (k->round != note->said[i].round || !check_relies(k, side) || !check_relies(c, side) ||
		    k->qp[!side]->resp.msg >= note->said[i].completed)
			continue;
		if (waived && check_waits_in_vain(k))
			continue;
		check_fail(
		    w, waived ? "flag-waived" : "flag-overtakes",
		    "connection %u: message %llu from %c relies on %llu messages of connection %u, %llu were executed",
		    c->id, (unsigned long long)note->msg, 'A' + side, (unsigned long long)note->said[i].completed,
		    k->id, (unsigned long long)k->qp[!side]->resp.msg);
		return;
	}
}

void flag_executed(struct conn *c, int side, uint64_t msg)
{
	while (c->flag_first[side] && (c->flag_first[side]->round < c->round || c->flag_first[side]->msg < msg))
		free(take_first(c, side));
	if (c->flag_first[side] && c->flag_first[side]->round == c->round && c->flag_first[side]->msg == msg) {
		struct flag_note *note = take_first(c, side);

		check_note(c, side, note);
		free(note);
	}
}

void flag_free(struct conn *c)
{
	for (int side = 0; side < 2; side++)
		while (c->flag_first[side])
			free(take_first(c, side));
}
