/* SPDX-License-Identifier: Apache-2.0 */
/* failed_record.h - an entry for each flow that failed, even if the log leaves it out: when thousands of queue pairs
 * fail together, each of them is named here.
 *
 * The last FAILED_RECORD_MAX are kept, in memory and in a file that the next daemon reads: a header, and behind it a
 * ring of entries of one length. If the file cannot be written, entries wait in memory until it can. An entry that does
 * not have its checksum, because it was being written when the machine died, counts as lost. */
#ifndef DAEMON_FAILED_RECORD_H
#define DAEMON_FAILED_RECORD_H

#include <stdint.h>

#include "daemon/config/config.h"

#define FAILED_RECORD_MAX 16384 /* 2 MiB; as many flows as MaxFlows= has by default */

/* 128 bytes in the file, in this machine's byte order. */
struct failed_flow {
	uint64_t wall_ns; /* CLOCK_REALTIME */
	uint64_t pos;     /* the first position that was not delivered */
	uint64_t bytes;   /* bytes held here from pos on */
	struct ip_addr src, dst; /* requester, responder */
	uint32_t dest_qpn, requester_qpn; /* requester_qpn 0: never learned */
	uint8_t side;     /* enum flow_side */
	uint8_t failure;  /* enum proxy_failure */
	uint8_t syndrome; /* of the responder's NAK; 0: none */
	uint8_t reserved[25];
	char link[LINK_NAME_MAX];
	uint32_t crc; /* of all before it, begun with the entry's number */
};
_Static_assert(sizeof(struct failed_flow) == 128, "an entry is the same in every build");

struct failed_record;

/* Opens or makes the file, and takes the room of all its entries. A file that is no record is renamed to PATH.old,
 * PATH.old.1 ... PATH.old.8, and overwrites none of them. NULL: no memory. */
struct failed_record *failed_record_open(const char *path);
/* Logs the number of entries that could not be written. */
void failed_record_close(struct failed_record *r);

void failed_record_add(struct failed_record *r, const char *link, const struct proxy_event *ev);
/* Writes what the file lacks, if anything: call every second. If the file cannot be opened or written, the entries stay
 * in memory, and one log line says so. */
void failed_record_write(struct failed_record *r);
/* How many of the readable entries are only in memory. */
uint64_t failed_record_waiting(const struct failed_record *r);
/* How many entries were overwritten before they could be written, since the record was opened. */
uint64_t failed_record_unwritten(const struct failed_record *r);
/* Ever, the lost ones included. */
uint64_t failed_record_total(const struct failed_record *r);
/* How many can be read: the last ones. */
uint32_t failed_record_count(const struct failed_record *r);
/* i from 0, the oldest, to failed_record_count() - 1. NULL: it was not written whole. */
const struct failed_flow *failed_record_at(const struct failed_record *r, uint32_t i);

#endif
