/* SPDX-License-Identifier: Apache-2.0 */
/* relay_counters.h - what the relay counts, for status and metrics alike. */
#ifndef DAEMON_RELAY_COUNTERS_H
#define DAEMON_RELAY_COUNTERS_H

#include <stdint.h>

#define RELAY_SILENT_FILE_MAX 80

/* X(name, what is counted). The relay's thread alone counts. */
#define RELAY_COUNTERS(X)                                                                                              \
	X(relay_programs, "programs that connected to the relay's socket")                                             \
	X(relay_programs_refused, "programs that the relay's socket refused: not of Group=, or too many at once")      \
	X(relay_operations, "puts, gets and calls that programs and RDMA clients of this site began")                  \
	X(relay_operations_failed, "puts, gets and calls of this site that ended with an error, at once or late")      \
	X(relay_copied_bytes,                                                                                          \
	  "bytes of regions, files and GPU memory that this edge's processors copied into or out of the buffer")       \
	X(relay_files_silent, "times that a mount with files of this edge's programs did not answer for 10 s: "        \
	                      "operations on these files failed")                                                      \
	X(relay_descriptors_refused,                                                                                   \
	  "descriptors of programs that were refused, as too many of their mount or of the link wait to be closed")    \
	X(relay_rdma_connections, "RDMA clients that connected to RelayListen=")                                       \
	X(relay_rdma_refused_address, "RDMA clients that were refused: RelayAllow= does not name their address")       \
	X(relay_rdma_refused_version, "RDMA clients that were refused: their library speaks another version")          \
	X(relay_rdma_refused_no_reads, "RDMA clients that were refused: their device answers no READs")                \
	X(relay_rdma_refused_too_many, "RDMA clients that were refused: too many at once, of one host or of all")      \
	X(relay_rdma_refused_device,                                                                                   \
	  "RDMA clients that were refused: this edge's device has gone or has no queue pair left")                     \
	X(relay_rdma_broken, "connections of RDMA clients that ended by an error; the log names the error")            \
	X(relay_rdma_requests, "puts, gets, cancels, exports and unexports that RDMA clients asked for")               \
	X(relay_rdma_requests_refused_region,                                                                          \
	  "requests of RDMA clients for a region that RelayAllow= does not give them")                                 \
	X(relay_rdma_requests_refused_too_many,                                                                        \
	  "requests of RDMA clients that had too many under way, or puts while too many of clients that have gone "    \
	  "waited for the other edge")                                                                                 \
	X(relay_rdma_requests_refused, "requests of RDMA clients that were refused for another reason")                \
	X(relay_rdma_notices_refused,                                                                                  \
	  "puts of the other site that ended with an error, as the RDMA client with the region takes no notices")      \
	X(relay_rdma_read_bytes, "bytes that the RDMA device read from clients' memory into the buffer")               \
	X(relay_rdma_written_bytes, "bytes that the RDMA device wrote out of the buffer into clients' memory")

#define X(name, text) uint64_t name;
struct relay_counts {
	RELAY_COUNTERS(X)
	uint32_t rdma_clients; /* connected now */
	uint32_t unclosed;     /* descriptors that wait to be closed now */
	char silent_file[RELAY_SILENT_FILE_MAX]; /* one that does not answer now, by its region; empty: none */
};
#undef X

#endif
