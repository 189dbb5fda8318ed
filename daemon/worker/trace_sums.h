/* SPDX-License-Identifier: Apache-2.0 */
/* trace_sums.h - the sums in a sample of a trace (trace.h), for those who write it and those who read it. */
#ifndef DAEMON_TRACE_SUMS_H
#define DAEMON_TRACE_SUMS_H

/* X(field, its name in a line of JSON, member of struct wan_path_stats) */
#define TRACE_SUMS(X)                                                                                                  \
	X(tx_bytes, "tx_bytes", tx_bytes)                                                                              \
	X(acked_bytes, "acked_bytes", acked_bytes)                                                                     \
	X(tx_dgrams, "tx_datagrams", tx_dgrams)                                                                        \
	X(lost, "lost", lost)                                                                                          \
	X(resent, "resent", repairs)                                                                                   \
	X(spared, "spared_by_fec", spared)                                                                             \
	X(rebuilt, "rebuilt_by_fec", rebuilt)                                                                          \
	X(probes, "probe_timeouts", probes)

#endif
