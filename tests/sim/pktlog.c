/* SPDX-License-Identifier: Apache-2.0 */
#include "pktlog.h"

#include <stdlib.h>
#include <string.h>

#include "proxy/util/bytes.h"
#include "proxy/roce/roce.h"

void pktlog_init(struct pktlog *l, uint32_t cap)
{
	*l = (struct pktlog){.cap = cap, .ring = calloc(cap, sizeof(*l->ring))};
	if (!l->ring) {
		perror("lrsim: packet log");
		exit(2);
	}
}

void pktlog_free(struct pktlog *l)
{
	free(l->ring);
	*l = (struct pktlog){0};
}

void pktlog_reset(struct pktlog *l)
{
	l->n = 0;
}

static uint32_t bth_offset(const uint8_t *d)
{
	return d[0] >> 4 == 6 ? 48 : 28;
}

static void print_aeth(FILE *f, const uint8_t *aeth)
{
	static const char *const kind[8] = {"ack", "rnr-nak", "reserved", "nak"};
	const char *name = kind[aeth[0] >> 5];

	fprintf(f, " %s/%u msn %u", name ? name : "?", aeth[0] & 31u, get_be24(aeth + 1));
}

static void print_lan(const struct pktlog_entry *e, FILE *f)
{
	const uint8_t *bth = e->data + bth_offset(e->data), *ext = bth + ROCE_BTH_LEN;
	const struct roce_opinfo *op = roce_op(bth[0]);

	if (e->len < bth_offset(e->data) + ROCE_BTH_LEN) {
		fprintf(f, "%u bytes", e->len);
		return;
	}
	fprintf(f, "%-15s qp %06x psn %06x%s len %u", op->name, get_be24(bth + 5), get_be24(bth + 9),
	        bth[8] & 0x80 ? " AR" : "", e->len);
	if (op->flags & ROP_RETH)
		fprintf(f, " va %llx dma %u", (unsigned long long)get_be64(ext), get_be32(ext + 12));
	if (op->flags & ROP_AETH)
		print_aeth(f, ext);
	fprintf(f, "  %u>%u", e->data[bth_offset(e->data) == 28 ? 15 : 23],
	        e->data[bth_offset(e->data) == 28 ? 19 : 39]);
}

static void print_wan(const struct pktlog_entry *e, FILE *f)
{
	const uint8_t *d = e->data;

	if (e->len < 16)
		fprintf(f, "datagram of %u bytes", e->len);
	else
		fprintf(f, "dgram lane %u epoch %u pn %llu len %u frame %02x", d[1], get_be32(d + 4),
		        (unsigned long long)get_be64(d + 8), e->len, e->len > 16 ? d[16] : 0);
}

static void print_entry(const struct pktlog_entry *e, FILE *f)
{
	char who[8] = "edge";

	if (e->host != PKTLOG_EDGE)
		snprintf(who, sizeof(who), "h%u", e->host);
	fprintf(f, "%14.6f us %c %-5s %-9s", (double)e->now_ns / 1e3, 'A' + e->site, who, e->what);
	if (e->kind == LOG_LAN)
		print_lan(e, f);
	else if (e->kind == LOG_WAN)
		print_wan(e, f);
	else
		fprintf(f, "%s", (const char *)e->data);
	fputc('\n', f);
}

static struct pktlog_entry *next_entry(struct pktlog *l)
{
	return &l->ring[l->n++ & (l->cap - 1)];
}

void pktlog_add(struct pktlog *l, uint64_t now_ns, enum pktlog_kind kind, const char *what, uint8_t site, uint8_t host,
                const uint8_t *data, uint32_t len)
{
	struct pktlog_entry *e = next_entry(l);

	e->now_ns = now_ns;
	e->what = what;
	e->len = len;
	e->kind = (uint8_t)kind;
	e->site = site;
	e->host = host;
	memcpy(e->data, data, len < PKTLOG_BYTES ? len : PKTLOG_BYTES);
	if (l->live)
		print_entry(e, l->live);
}

void pktlog_note(struct pktlog *l, uint64_t now_ns, uint8_t site, const char *fmt, ...)
{
	struct pktlog_entry *e = next_entry(l);
	va_list ap;

	*e = (struct pktlog_entry){.now_ns = now_ns, .what = "--", .kind = LOG_NOTE, .site = site, .host = PKTLOG_EDGE};
	va_start(ap, fmt);
	vsnprintf((char *)e->data, sizeof(e->data), fmt, ap);
	va_end(ap);
	if (l->live)
		print_entry(e, l->live);
}

void pktlog_print(const struct pktlog *l, FILE *f, uint32_t lines)
{
	uint64_t kept = l->n < l->cap ? l->n : l->cap, from = l->n - (kept < lines ? kept : lines);

	for (uint64_t i = from; i < l->n; i++)
		print_entry(&l->ring[i & (l->cap - 1)], f);
}
