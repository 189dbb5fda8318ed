/* SPDX-License-Identifier: Apache-2.0 */
#include "pkt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t class_cap[] = {448, 4352, PKT_MAX};
static struct pkt *free_list[3];
static size_t live;

struct pkt *pkt_new(size_t cap)
{
	uint8_t c = 0;
	struct pkt *p;

	while (class_cap[c] < cap)
		c++;
	p = free_list[c];
	if (p) {
		free_list[c] = p->next;
	} else {
		p = malloc(sizeof(*p) + class_cap[c]);
		if (!p) {
			perror("lrsim: packet");
			exit(2);
		}
	}
	*p = (struct pkt){.cap = class_cap[c], .size_class = c};
	live++;
	return p;
}

struct pkt *pkt_dup(const struct pkt *p)
{
	struct pkt *d = pkt_new(p->len);

	d->len = p->len;
	d->vlan_tci = p->vlan_tci;
	d->damaged = p->damaged;
	d->strange = p->strange;
	d->plain = p->plain;
	d->dgram = p->dgram;
	d->ecn = p->ecn;
	memcpy(d->data, p->data, p->len);
	return d;
}

bool pkt_mark_ce(struct pkt *p)
{
	uint8_t *tos = p->data + 1, shift = p->data[0] >> 4 == 6 ? 4 : 0, ecn = *tos >> shift & 3;
	uint32_t sum;

	if (p->dgram) {
		p->ecn = p->ecn ? 3 : 0;
		return p->ecn;
	}
	if (ecn == 0)
		return false;
	*tos |= (uint8_t)(3u << shift);
	if (shift)
		return true;
	sum = (uint32_t)(p->data[10] << 8 | p->data[11]) + 0xffffu -
	      (3u - ecn); /* RFC 1624: it falls as the field grows */
	sum = (sum & 0xffff) + (sum >> 16);
	p->data[10] = (uint8_t)(sum >> 8);
	p->data[11] = (uint8_t)sum;
	return true;
}

void pkt_free(struct pkt *p)
{
	p->next = free_list[p->size_class];
	free_list[p->size_class] = p;
	live--;
}

size_t pkt_live(void)
{
	return live;
}
