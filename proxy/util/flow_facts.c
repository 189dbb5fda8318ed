/* SPDX-License-Identifier: Apache-2.0 */
/* flow_facts.c - names and texts out of the lists in flow_facts.h. */
#include "flow_facts.h"

struct label {
	const char *name;
	const char *text;
};

#define X(e, name, text) {name, text},
static const struct label reasons[CEILING_REASON_COUNT] = {CEILING_REASONS(X)};
static const struct label ends[FLOW_END_COUNT] = {FLOW_ENDS(X)};
#undef X

const char *ceiling_reason_name(enum ceiling_reason r)
{
	return (unsigned)r < CEILING_REASON_COUNT ? reasons[r].name : "";
}

const char *ceiling_reason_text(enum ceiling_reason r)
{
	return (unsigned)r < CEILING_REASON_COUNT ? reasons[r].text : "";
}

const char *flow_end_name(enum flow_end e)
{
	return (unsigned)e < FLOW_END_COUNT ? ends[e].name : "";
}

const char *flow_end_text(enum flow_end e)
{
	return (unsigned)e < FLOW_END_COUNT ? ends[e].text : "";
}
