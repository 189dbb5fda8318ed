/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_status.h"

#include <stdio.h>

#include "daemon/config/config_keys.h"
#include "status.h"

static const char *pairing_name(enum flow_pairing p)
{
	return p == PAIR_LEARNING ? "learning" : p == PAIR_PROVISIONAL ? "provisional" : "paired";
}

void flow_status_write(struct json *j, const struct proxy_flow_status *f)
{
	json_string(j, "side", f->side == FLOW_NEAR ? "near" : "far");
	json_uint(j, "id", f->flow);
	json_uint(j, "incarnation", f->inc);
	status_write_address(j, "src", &f->src);
	status_write_address(j, "dst", &f->dst);
	json_uint(j, "vlan", f->vlan_tci & 0xfffu);
	json_uint(j, "dest_qpn", f->dest_qpn);
	json_uint(j, "requester_qpn", f->pairing == PAIR_LEARNING ? 0 : f->requester_qpn);
	json_string(j, "pairing", pairing_name(f->pairing));
	json_string(j, "ack_mode", ack_mode_name(f->mode));
	json_uint(j, "pmtu", f->pmtu);
	json_uint(j, "pos_base", f->pos_base);
	json_uint(j, "pos_next", f->pos_next);
	json_uint(j, "pos_acked", f->pos_acked);
	json_uint(j, "pos_delivered", f->pos_delivered);
	json_uint(j, "buffered_bytes", f->buffered_bytes);
	json_uint(j, "bytes", f->bytes);
	json_uint(j, "messages", f->messages);
	json_bool(j, "rnr_back_pressure", f->rnr_back_pressure);
	json_bool(j, "stalled", f->stalled);
	json_bool(j, "rnr", f->rnr);
}

/* --- flows whole --- */

static void write_age(struct json *j, const char *name, uint64_t at_ns, uint64_t now_ns)
{
	char key[64];

	if (at_ns == 0)
		return;
	snprintf(key, sizeof(key), "%s_age_ns", name);
	json_uint(j, key, now_ns > at_ns ? now_ns - at_ns : 0);
}

static void write_with_unit(struct json *j, const char *name, const char *unit, uint64_t value)
{
	char key[64];

	snprintf(key, sizeof(key), "%s_%s", name, unit);
	json_uint(j, key, value);
}

#define WRITE_AGE(name, value)	 write_age(j, name, value, now_ns)
#define WRITE_NS(name, value)	 write_with_unit(j, name, "ns", value)
#define WRITE_BYTES(name, value) write_with_unit(j, name, "bytes", value)
#define WRITE_COUNT(name, value) json_uint(j, name, value)
#define WRITE_POS(name, value)	 json_uint(j, name, value)
#define WRITE_FLAG(name, value)	 json_bool(j, name, (value) != 0)

static void write_facts(struct json *j, const struct flow_facts *f, uint64_t now_ns)
{
	json_object(j, "facts");
#define X(member, name, text) json_uint(j, name, f->n.member);
	FLOW_COUNTS(X)
#undef X
#define X(member, name, unit, text) WRITE_##unit(name, f->member);
	FLOW_VALUES(X)
#undef X
	json_string(j, "ceiling_reason", ceiling_reason_name(f->why));
	json_string(j, "ceiling_text", ceiling_reason_text(f->why));
	json_object_end(j);
}

static void write_view(struct json *j, const struct proxy_flow_view *v, uint64_t now_ns)
{
	bool ended = v->facts.ended_ns != 0;

	json_object(j, NULL);
	flow_status_write(j, &v->status);
	json_bool(j, "ended", ended);
	if (ended) {
		write_age(j, "ended", v->facts.ended_ns, now_ns);
		json_string(j, "end", flow_end_name(v->facts.end));
		json_string(j, "end_text", flow_end_text(v->facts.end));
	}
	write_facts(j, &v->facts, now_ns);
	json_object_end(j);
}

void flow_status_write_views(struct json *j, const struct flow_views *v, uint64_t now_ns)
{
	static const char *const heard[] = {"host", "src", "dst"};

	json_uint(j, "running_ns", v->running_ns);
	json_object(j, "connections_seen");
	for (unsigned i = 0; i < sizeof(heard) / sizeof(heard[0]); i++)
		write_age(j, heard[i], v->heard_ns[i], now_ns);
	json_object_end(j);
	json_uint(j, "flows_left_out", v->left_out);
	json_array(j, "flows");
	for (uint32_t i = 0; i < v->n; i++)
		write_view(j, &v->list[i], now_ns);
	json_array_end(j);
}
