/* SPDX-License-Identifier: Apache-2.0 */
/* failed_record.h - a line for each flow that failed, whatever the log leaves out: of thousands of queue pairs that fail
 * together each has its name here.
 *
 * The last FAILED_RECORD_MAX are kept, in memory and in a file that the next daemon reads: a header, and behind it a
 * ring of entries of one length. Where the file cannot be written, they wait in memory until it can. An entry that does
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
	uint64_t bytes;   /* held here from there on */
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

/* Opens or makes the file, and takes the room of all its entries. One that is no record is kept beside it as PATH.old. NULL:
 * no memory. */
struct failed_record *failed_record_open(const char *path);
/* What could not be written is counted in the log. */
void failed_record_close(struct failed_record *r);

void failed_record_add(struct failed_record *r, const char *link, const struct proxy_event *ev);
/* Writes what the file lacks, if anything: to be called every second. What cannot be written, or opened, is kept in memory,
 * and logged once. */
void failed_record_write(struct failed_record *r);
/* How many are in memory alone, of those that can be read. */
uint64_t failed_record_waiting(const struct failed_record *r);
/* How many had to make room for later ones before they could be written, since it was opened. */
uint64_t failed_record_unwritten(const struct failed_record *r);
/* Ever, the lost ones included. */
uint64_t failed_record_total(const struct failed_record *r);
/* How many can be read: the last ones. */
uint32_t failed_record_count(const struct failed_record *r);
/* i from 0, the oldest, to failed_record_count() - 1. NULL: it was not written whole. */
const struct failed_flow *failed_record_at(const struct failed_record *r, uint32_t i);

#endif
