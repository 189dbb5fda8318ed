/* SPDX-License-Identifier: Apache-2.0 */
/* flow_filter.h - which flows somebody asks for: by hosts, queue pairs, side and number, in words.
 *
 * Words that are not given match any flow. The words, each followed by its value, go over the control socket:
 *
 *     side near|far   flow N       as `longreach status --flows` numbers them
 *     host A          qpn N        of that host, as requester or as responder; qpn alone: of any host
 *     src A           src_qpn N    the requester
 *     dst A           dst_qpn N    the responder
 *     vlan N */
#ifndef DAEMON_FLOW_FILTER_H
#define DAEMON_FLOW_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proxy/proxy.h"

struct flow_filter {
	bool has_side, has_flow, has_host, has_qpn, has_src, has_src_qpn, has_dst, has_dst_qpn, has_vlan;
	enum flow_side side;
	uint32_t flow, qpn, src_qpn, dst_qpn, vlan;
	struct ip_addr host, src, dst;
};

#define FLOW_FILTER_WORDS 16 /* that a filter takes at most */

/* One word and its value. 0; -ENOENT: no such word; -EINVAL: the value makes no sense. */
int flow_filter_read(struct flow_filter *f, const char *word, const char *value);
/* Writes the filter as words that flow_filter_read() reads back. Returns text. */
const char *flow_filter_write(const struct flow_filter *f, char *text, size_t cap);

/* Reads a user's text: HOST, HOST:QPN, [IPV6]:QPN, QPN, SRC[:QPN]>DST[:QPN] (-> or to in place of >), near:N or far:N.
 * Numbers are decimal, or hexadecimal with 0x. 0, or -EINVAL with *what the part that makes no sense. */
int flow_filter_parse(struct flow_filter *f, const char *text, const char **what);

/* True if the filter fits the flow. A flow without a pair has no known requester's QPN: it fits any. */
bool flow_filter_fits(const struct flow_filter *f, const struct proxy_flow_status *s);

#endif
