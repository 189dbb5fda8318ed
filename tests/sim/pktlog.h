/* SPDX-License-Identifier: Apache-2.0 */
/* pktlog.h - the last packet events of a world, for the moment when something goes wrong.
 *
 * Only the first bytes are kept; they are decoded when they are printed. */
#ifndef SIM_PKTLOG_H
#define SIM_PKTLOG_H

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#define PKTLOG_BYTES 88
#define PKTLOG_NOTE  88

enum pktlog_kind { LOG_LAN, LOG_WAN, LOG_NOTE };

struct pktlog_entry {
	uint64_t now_ns;
	const char *what; /* a literal: "tx", "rx", "lost", ... */
	uint32_t len;
	uint16_t vlan_tci;
	uint8_t kind;
	uint8_t site, host; /* host 0xff: the edge */
	uint8_t data[PKTLOG_BYTES];
};

struct pktlog {
	struct pktlog_entry *ring;
	uint32_t cap; /* power of two */
	uint64_t n;
	FILE *live; /* printed as they come too; NULL: not */
};

#define PKTLOG_EDGE 0xff

void pktlog_init(struct pktlog *l, uint32_t cap);
void pktlog_free(struct pktlog *l);
void pktlog_reset(struct pktlog *l);
void pktlog_add(struct pktlog *l, uint64_t now_ns, enum pktlog_kind kind, const char *what, uint8_t site, uint8_t host,
                const uint8_t *data, uint32_t len);
void pktlog_note(struct pktlog *l, uint64_t now_ns, uint8_t site, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The last `lines` events. */
void pktlog_print(const struct pktlog *l, FILE *f, uint32_t lines);

#endif
