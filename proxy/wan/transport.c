/* SPDX-License-Identifier: Apache-2.0 */
#include "transport.h"

void transport_register(struct transport *t, uint8_t id, const struct wan_source *s)
{
	t->source[id] = s;
	for (unsigned i = 0; i < SLOT_KINDS; i++)
		if (s->slot_kinds >> i & 1)
			t->of_slot[i] = s;
	for (unsigned i = 0; i < WAN_PACKET_KINDS; i++)
		if (s->packets_taken >> i & 1)
			t->of_packet[i] = s;
	for (unsigned i = 0; i < WAN_FRAME_TYPES_MAX; i++) {
		if (s->frames_taken >> i & 1)
			t->taker[i] = s;
		if (s->frames_sent >> i & 1)
			t->sender_of[i] = s;
	}
	t->frames_quiet |= s->frames_quiet;
	if (s->put_new)
		t->sender[t->nsenders++] = id;
	t->ntalkers = 0;
	for (unsigned i = 0; i < WAN_SOURCES_MAX; i++)
		if (t->source[i] && t->source[i]->put_control)
			t->talker[t->ntalkers++] = t->source[i];
}
