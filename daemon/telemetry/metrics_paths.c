/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_paths.h"

#include <inttypes.h>

#include <event2/buffer.h>

#include "metrics_text.h"

#define SECONDS(ns) ((double)(ns) / 1e9)

/* X(identifier, family, suffix, type, what it is, expression of `s`, the path, and `fec`, its FEC) */
#define PATH_FAMILIES(X)                                                                                               \
	X(UP, "path_up", "", "gauge", "1: the path answers.", s->state == PATH_UP)                                     \
	X(USABLE, "path_in_use", "", "gauge", "1: packets may take the path.", s->usable)                              \
	X(RTT, "path_rtt_seconds", "", "gauge", "Round trip, smoothed; 0: not measured.", SECONDS(s->rtt_smoothed_ns)) \
	X(RTT_AGE, "path_rtt_age_seconds", "", "gauge", "Time since the last measurement of the round trip.",          \
	  SECONDS(s->rtt_age_ns))                                                                                      \
	X(RTT_LEAST, "path_rtt_least_seconds", "", "gauge", "Least round trip.", SECONDS(s->rtt_min_ns))               \
	X(RTT_P99, "path_rtt_p99_seconds", "", "gauge", "What 99 of 100 round trips stay below.",                      \
	  SECONDS(s->rtt_p99_ns))                                                                                      \
	X(EPOCH, "path_epoch", "", "gauge", "Of the session; 0: there is none.", s->epoch_tx)                          \
	X(LOSS, "path_loss_ratio", "", "gauge", "Share of the datagrams that were lost of late.",                      \
	  (double)s->loss_ppm / 1e6)                                                                                   \
	X(LINE_LOSS, "path_line_loss_ratio", "", "gauge",                                                              \
	  "Share of the datagrams that did not come by themselves, says the other edge; FEC made up for some.",        \
	  fec->loss)                                                                                                   \
	X(LINE_BURST, "path_line_loss_burst_datagrams", "", "gauge", "Mean length of bursts of these; 0: not known.",  \
	  fec->burst_known ? fec->burst : 0)                                                                           \
	X(BURST_LONGEST, "path_loss_burst_longest_datagrams", "", "gauge",                                             \
	  "Most datagrams in a row that were found lost.", s->loss_run_longest)                                        \
	X(FEC_GROUP, "path_fec_group_datagrams", "", "gauge", "K of the K+M in force; 0: none.", fec->plan.k)          \
	X(FEC_REPAIRS, "path_fec_group_repairs", "", "gauge", "M of the K+M in force.", fec->plan.k ? fec->plan.m : 0) \
	X(DELIVERY, "path_delivery_bits_per_second", "", "gauge", "UDP payload that the other edge said to have.",     \
	  s->delivery_bps)                                                                                             \
	X(IN_FLIGHT, "path_in_flight_bytes", "", "gauge", "Sent and not reported yet.", s->in_flight_bytes)            \
	X(TX_DGRAMS, "path_tx_datagrams", "_total", "counter", "Datagrams sent.", s->stats.tx_dgrams)                  \
	X(TX_BYTES, "path_tx_bytes", "_total", "counter", "UDP payload sent.", s->stats.tx_bytes)                      \
	X(RX_DGRAMS, "path_rx_datagrams", "_total", "counter", "Datagrams received.", s->stats.rx_dgrams)              \
	X(RX_BYTES, "path_rx_bytes", "_total", "counter", "UDP payload received.", s->stats.rx_bytes)                  \
	X(LOST, "path_lost", "_total", "counter", "Datagrams found lost.", s->stats.lost)                              \
	X(SPURIOUS, "path_lost_spuriously", "_total", "counter", "Of these, datagrams that had arrived after all.",    \
	  s->stats.spurious)                                                                                           \
	X(BURSTS, "path_loss_bursts", "_total", "counter", "Runs of datagrams found lost.", s->loss_runs)              \
	X(REPAIRS, "path_repairs", "_total", "counter", "Packets or pieces sent again.", s->stats.repairs)             \
	X(SPARED, "path_repaired_by_fec", "_total", "counter", "Datagrams that FEC made up for at the other edge.",    \
	  s->stats.spared)                                                                                             \
	X(REBUILT, "path_rebuilt", "_total", "counter", "Datagrams of the other edge that FEC made up for.",           \
	  s->stats.rebuilt)                                                                                            \
	X(REORDERED, "path_reordered", "_total", "counter", "Datagrams that a later one had overtaken.",               \
	  s->stats.reordered)                                                                                          \
	X(REORDER_MOST, "path_reordered_by_most_datagrams", "", "gauge", "By how many at most.",                       \
	  s->stats.reorder_most)                                                                                       \
	X(MARKED, "path_marked", "_total", "counter", "Datagrams that came with the ECN mark CE, and were obeyed.",    \
	  s->stats.marked)                                                                                             \
	X(MOVED, "path_moved", "_total", "counter", "Datagrams whose contents went again elsewhere when it died.",     \
	  s->stats.moved)                                                                                              \
	X(DEATHS, "path_deaths", "_total", "counter", "Times that the path was found dead.", s->stats.deaths)

#define X(id, family, suffix, type, help, value) PATH_FAMILY_##id,
enum path_family { PATH_FAMILIES(X) PATH_FAMILY_COUNT };
#undef X

static const struct {
	const char *family, *suffix, *type, *help;
} families[] = {
#define X(id, family, suffix, type, help, value) {family, suffix, type, help},
    PATH_FAMILIES(X)
#undef X
};

static double value_of(enum path_family f, const struct proxy_path_status *s, const struct proxy_fec_status *fec)
{
	switch (f) {
#define X(id, family, suffix, type, help, value)                                                                       \
	case PATH_FAMILY_##id:                                                                                         \
		return (double)(value);
		PATH_FAMILIES(X)
#undef X
	default:
		return 0;
	}
}

static void put_sample(struct evbuffer *out, enum path_family f, const struct link_config *c, uint32_t path,
                       const struct link_snapshot *snap)
{
	double value = value_of(f, &snap->paths[path], &snap->status.fec[path]);


	evbuffer_add_printf(out, "longreach_%s%s{link=", families[f].family, families[f].suffix);
	metrics_quoted(out, c->name);
	evbuffer_add_printf(out, ",path=");
	metrics_quoted(out, c->paths[path].name);
	if (families[f].suffix[0] != '\0') /* counters are whole; a double holds 2^53 of them */
		evbuffer_add_printf(out, "} %" PRIu64 "\n", (uint64_t)value);
	else
		evbuffer_add_printf(out, "} %.15g\n", value);
}

void metrics_paths(struct evbuffer *out, const struct gathered *links, uint32_t n)
{
	for (unsigned f = 0; f < PATH_FAMILY_COUNT; f++) {
		metrics_head(out, families[f].family, families[f].suffix, families[f].type, families[f].help);
		for (uint32_t i = 0; i < n; i++) {
			const struct link_config *c = site_config(links[i].site);

			for (uint32_t p = 0; links[i].snap != NULL && p < c->npaths && p < links[i].snap->npaths; p++)
				put_sample(out, (enum path_family)f, c, p, links[i].snap);
		}
	}
}
