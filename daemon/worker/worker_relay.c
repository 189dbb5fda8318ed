/* SPDX-License-Identifier: Apache-2.0 */
/* worker_relay.c - commands of the relay's thread to a worker.
 *
 * A slot request that cannot be served now is tried again each turn, in the order of the channel's requests. Chunks
 * that came are handed over as long as the ring has room: in the core they wait in the buffer. */
#include "worker_relay.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker_priv.h"

enum {
	RELAY_COMMANDS = 8192,
	RELAY_NOTES = 8192,
	RELAY_TURN = 128, /* commands and chunks of a turn */
	RELAY_ROOM = 2560, /* commands that are left free: slots asked for, 64 on each of 16 channels, requests that are
	                      finished when an answer is committed, 128 of each of 8, and some */
};

/* Slots that a channel is asked for. */
struct take_queue {
	uint32_t head, n;
	struct relay_command take[RELAY_TAKES_MAX];
};

#define LINE_NS 250000000ull /* interval of RELAY_LINE notes */

struct relay_port {
	struct spsc commands, notes;
	int notify_fd;
	bool tell; /* notes were put in this turn */
	uint64_t line_ns, line_bytes; /* when it was told last, and what had been sent by then */
	struct take_queue queue[RELAY_CHANNELS_MAX];
	struct relay_status told[RELAY_CHANNELS_MAX];
};

struct relay_port *relay_port_new(int notify_fd)
{
	struct relay_port *r = calloc(1, sizeof(*r));

	if (r && spsc_init(&r->commands, RELAY_COMMANDS, sizeof(struct relay_command)) &&
	    spsc_init(&r->notes, RELAY_NOTES, sizeof(struct relay_note))) {
		r->notify_fd = notify_fd;
		return r;
	}
	relay_port_free(r);
	return NULL;
}

void relay_port_free(struct relay_port *r)
{
	if (!r)
		return;
	spsc_free(&r->commands);
	spsc_free(&r->notes);
	free(r);
}

bool relay_port_command(struct relay_port *r, const struct relay_command *c)
{
	return spsc_put(&r->commands, c);
}

bool relay_port_note(struct relay_port *r, struct relay_note *n)
{
	return spsc_take(&r->notes, n);
}

bool relay_port_has_room(struct relay_port *r)
{
	return spsc_used(&r->commands) + RELAY_ROOM <= RELAY_COMMANDS;
}

static void write_event(int fd)
{
	static const uint64_t one = 1;

	if (write(fd, &one, sizeof(one)) < 0)
		return; /* it is set already */
}

void relay_port_wake(struct worker *w)
{
	write_event(w->command_fd);
}

void *worker_relay_arena(const struct worker *w, size_t *len)
{
	*len = w->arena.map_len;
	return w->arena.region;
}

void worker_relay_open(struct worker *w, struct relay_port *r)
{
	w->relay = r;
}

/* Puts a note into the ring; the caller has checked its room. */
static void note(struct relay_port *r, const struct relay_note *n)
{
	spsc_put(&r->notes, n);
	r->tell = true;
}

/* True if notes that answer no command have room: half of the ring is for answers. */
static bool room_for_notes(struct relay_port *r, uint32_t n)
{
	return spsc_used(&r->notes) + n <= RELAY_NOTES;
}

static void run_command(struct worker *w, struct relay_port *r, const struct relay_command *c)
{
	struct take_queue *q = &r->queue[c->channel % RELAY_CHANNELS_MAX];

	switch (c->type) {
	case RELAY_TAKE:
		if (q->n < RELAY_TAKES_MAX)
			q->take[(q->head + q->n++) % RELAY_TAKES_MAX] = *c;
		return;
	case RELAY_COMMIT:
		proxy_relay_commit(w->core, w->now_ns, c->slot);
		if (c->tell)
			note(r, &(struct relay_note){.type = RELAY_COMMITTED, .channel = c->channel, .token = c->token});
		return;
	case RELAY_GIVE_UP:
		proxy_relay_void(w->core, w->now_ns, c->slot);
		return;
	case RELAY_FINISH:
		proxy_relay_done(w->core, w->now_ns, c->slot);
		return;
	}
}

static unsigned run_commands(struct worker *w, struct relay_port *r)
{
	struct relay_command c;
	unsigned n = 0;

	while (n < RELAY_TURN && room_for_notes(r, RELAY_CHANNELS_MAX + 1) && spsc_take(&r->commands, &c)) {
		run_command(w, r, &c);
		n++;
	}
	return n;
}

static unsigned run_takes(struct worker *w, struct relay_port *r, uint32_t channel)
{
	struct take_queue *q = &r->queue[channel];
	unsigned n = 0;

	while (q->n > 0 && n < RELAY_TURN && room_for_notes(r, RELAY_CHANNELS_MAX + 1)) {
		const struct relay_command *c = &q->take[q->head];
		struct relay_note answer = {.type = RELAY_TAKEN, .channel = channel, .token = c->token};
		int rc = proxy_relay_take(w->core, w->now_ns, channel, c->len, c->answer, &answer.chunk);

		if (rc == -EAGAIN)
			break;
		if (rc < 0)
			answer.type = RELAY_REFUSED;
		note(r, &answer);
		q->head = (q->head + 1) % RELAY_TAKES_MAX;
		q->n--;
		n++;
	}
	return n;
}

static unsigned hand_over(struct worker *w, struct relay_port *r)
{
	struct relay_note came = {.type = RELAY_CAME};
	unsigned n = 0;

	while (n < RELAY_TURN && room_for_notes(r, RELAY_NOTES / 2) &&
	       proxy_relay_next(w->core, w->now_ns, &came.chunk)) {
		came.channel = came.chunk.channel;
		note(r, &came);
		n++;
	}
	return n;
}

static void tell_status(struct worker *w, struct relay_port *r, uint32_t channel)
{
	struct relay_note moved = {.type = RELAY_MOVED, .channel = channel};
	struct relay_status *told = &r->told[channel], *now = &moved.status;

	if (!proxy_relay_status(w->core, channel, now) ||
	    (now->life == told->life && now->out_next == told->out_next && now->out_received == told->out_received &&
	     now->out_done == told->out_done && now->in_done == told->in_done))
		return;
	*told = *now;
	note(r, &moved);
}

/* Tells the relay the rate that the paths may send now, and the unused part of it. */
static void tell_line(struct worker *w, struct relay_port *r)
{
	struct relay_note n = {.type = RELAY_LINE};
	uint64_t bytes = 0, took_ns = w->now_ns - r->line_ns, sent_bps;
	struct proxy_path_status s;

	if (took_ns < LINE_NS)
		return;
	for (uint32_t i = 0; i < w->config.npaths; i++) {
		proxy_path_status(w->core, i, w->now_ns, &s);
		n.line.pace_bps += s.pace_bps;
		bytes += s.stats.tx_bytes;
		if (s.rtt_smoothed_ns > n.line.rtt_ns)
			n.line.rtt_ns = s.rtt_smoothed_ns;
	}
	sent_bps = (uint64_t)((double)(bytes - r->line_bytes) * 8e9 / (double)took_ns);
	n.line.free_bps = n.line.pace_bps > sent_bps ? n.line.pace_bps - sent_bps : 0;
	r->line_ns = w->now_ns;
	r->line_bytes = bytes;
	note(r, &n);
}

unsigned worker_run_relay(struct worker *w)
{
	struct relay_port *r = w->relay;
	unsigned n;

	if (!r)
		return 0;
	n = run_commands(w, r);
	if (room_for_notes(r, RELAY_CHANNELS_MAX + 1)) {
		for (uint32_t i = 0; i < w->core_config.relay_channels; i++)
			tell_status(w, r, i); /* before its slots, so that the relay knows their life */
		tell_line(w, r);
	}
	for (uint32_t i = 0; i < w->core_config.relay_channels; i++)
		n += run_takes(w, r, i);
	n += hand_over(w, r);
	if (r->tell)
		write_event(r->notify_fd);
	r->tell = false;
	return n;
}
