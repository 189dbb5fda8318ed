/* SPDX-License-Identifier: Apache-2.0 */
#include "live.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/util/addr.h"
#include "daemon/util/json.h"
#include "daemon/util/version.h"
#include "status.h"

bool live_wants_flows(const struct live *l)
{
	return l->nbefore <= LIVE_FLOWS_MANY || l->turn % LIVE_FLOWS_EVERY == 0;
}

void live_free(struct live *l)
{
	free(l->before);
	*l = (struct live){0};
}

/* --- flows --- */

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len-- > 0)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

/* Of one life of a flow. */
static uint64_t key_of(const char *link, const struct proxy_flow_status *f)
{
	uint32_t parts[] = {f->side, f->flow, f->inc, f->dest_qpn};
	uint64_t h = mix(mix(0xcbf29ce484222325ull, link, strlen(link)), parts, sizeof(parts));

	return mix(mix(h, &f->src, sizeof(f->src)), &f->dst, sizeof(f->dst));
}

static int by_key(const void *pa, const void *pb)
{
	uint64_t a = ((const struct live_flow *)pa)->key, b = ((const struct live_flow *)pb)->key;

	return (a > b) - (a < b);
}

static int by_rate(const void *pa, const void *pb)
{
	const struct live_flow *a = pa, *b = pb;
	double a_bps = a->bps > 0 ? a->bps : 0, b_bps = b->bps > 0 ? b->bps : 0;

	if (a_bps != b_bps)
		return a_bps < b_bps ? 1 : -1;
	/* new ones, whose rate is not known yet, and those that are held off stand in front of idle ones */
	if (a->status->buffered_bytes != b->status->buffered_bytes)
		return a->status->buffered_bytes < b->status->buffered_bytes ? 1 : -1;
	return by_key(pa, pb);
}

static uint32_t collect(struct live_flow *flows, const struct gathered *links, uint32_t n)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t k = 0; links[i].snap != NULL && k < links[i].snap->nflows && found < LIVE_FLOWS_MAX; k++) {
			const struct proxy_flow_status *f = &links[i].snap->flows[k];
			const char *link = site_config(links[i].site)->name;

			flows[found++] = (struct live_flow){.key = key_of(link, f), .bytes = f->bytes, .status = f, .link = link};
		}
	return found;
}

static void work_out_rates(const struct live *l, struct live_flow *flows, uint32_t n, uint64_t now_ns)
{
	double seconds = (double)(now_ns - l->before_ns) / 1e9;

	for (uint32_t i = 0; i < n; i++) {
		const struct live_flow *was =
		    l->nbefore ? bsearch(&flows[i], l->before, l->nbefore, sizeof(*was), by_key) : NULL;

		flows[i].bps = was == NULL || seconds <= 0 || flows[i].bytes < was->bytes
		                   ? -1
		                   : (double)(flows[i].bytes - was->bytes) * 8 / seconds;
	}
}

static void write_address(struct json *j, const char *key, const struct ip_addr *a)
{
	char t[ADDR_TEXT_MAX];

	json_string(j, key, addr_write(a, t, sizeof(t)));
}

static const char *state_of(const struct proxy_flow_status *f)
{
	return f->stalled                    ? "stalled"
	       : f->rnr                      ? "RNR heard"
	       : f->rnr_back_pressure        ? "RNR sent"
	       : f->pairing == PAIR_LEARNING ? "learning"
	                                     : "";
}

static void write_flow(struct json *j, const struct live_flow *flow)
{
	const struct proxy_flow_status *f = flow->status;

	json_object(j, NULL);
	json_string(j, "link", flow->link);
	json_string(j, "side", f->side == FLOW_NEAR ? "near" : "far");
	write_address(j, "src", &f->src);
	write_address(j, "dst", &f->dst);
	json_uint(j, "dest_qpn", f->dest_qpn);
	if (flow->bps >= 0)
		json_uint(j, "bps", (uint64_t)flow->bps);
	json_uint(j, "buffered_bytes", f->buffered_bytes);
	json_string(j, "state", state_of(f));
	json_object_end(j);
}

static void write_top_flows(struct live *l, struct json *j, const struct gathered *links, uint32_t n, uint64_t now_ns)
{
	struct live_flow *flows;
	uint32_t found = 0;

	for (uint32_t i = 0; i < n; i++)
		found += links[i].snap != NULL ? links[i].snap->nflows : 0;
	found = found < LIVE_FLOWS_MAX ? found : LIVE_FLOWS_MAX;
	flows = calloc((size_t)found + 1, sizeof(*flows));
	if (flows == NULL)
		return;
	found = collect(flows, links, n);
	work_out_rates(l, flows, found, now_ns);
	qsort(flows, found, sizeof(*flows), by_rate);
	json_array(j, "top_flows");
	for (uint32_t i = 0; i < found && i < LIVE_FLOWS_TOLD; i++)
		write_flow(j, &flows[i]);
	json_array_end(j);
	qsort(flows, found, sizeof(*flows), by_key);
	free(l->before);
	l->before = flows;
	l->nbefore = found;
	l->before_ns = now_ns;
}

void live_write(struct live *l, struct evbuffer *out, const struct gathered *links, uint32_t n, bool with_flows,
                uint64_t now_ns, uint64_t wall_ns)
{
	struct json j = {.out = out};

	l->turn++;
	json_object(&j, NULL);
	json_string(&j, "version", LONGREACH_VERSION);
	json_uint(&j, "time_ns", wall_ns);
	json_array(&j, "links");
	for (uint32_t i = 0; i < n; i++)
		status_write(&j, links[i].site, links[i].snap, STATUS_LINK);
	json_array_end(&j);
	if (with_flows)
		write_top_flows(l, &j, links, n, now_ns);
	json_object_end(&j);
}
