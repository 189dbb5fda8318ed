/* SPDX-License-Identifier: Apache-2.0 */
/* counters_page.c - longreach-counters(7), out of the lists that status, metrics and log are made from. */
#include <stdio.h>

#include "daemon/link/path_counters.h"
#include "daemon/link/site.h"
#include "daemon/peer/peer.h"
#include "daemon/relay/relay_counters.h"
#include "daemon/telemetry/link_counters.h"
#include "daemon/telemetry/metric_families.h"
#include "proxy/util/counters.h"

/* A paragraph. troff takes "-" for a hyphen where it breaks lines, which no text here minds, and a full stop or a quote
 * at the beginning of a line for its own. */
static void page_entry(FILE *out, const char *name, const char *mark, const char *text)
{
	fprintf(out, ".TP\n.B %s%s\n\\&%s\n", name, mark, text);
}

static void page_section(FILE *out, const char *title, const char *text)
{
	fprintf(out, ".SH %s\n%s\n", title, text);
}

static void page_drops(FILE *out)
{
	page_section(out, "DROP REASONS",
	             "In \\fBdrops\\fR of status, and as \\fBlongreach_drops_total\\fR by \\fIreason\\fR: packets, "
	             "datagrams and\nframes that longreach dropped.");
#define X(e, name, text)                                                                                               \
	if (DROP_##e != DROP_NONE)                                                                                     \
		page_entry(out, name, "", text);
	PROXY_DROPS(X)
#undef X
#define X(name, field, text) page_entry(out, #name, "", text);
	LINK_DROPS(X)
#undef X
}

static void page_counters(FILE *out)
{
	page_section(out, "COUNTERS", "In \\fBcounters\\fR of status, and as \\fBlongreach_\\fINAME\\fB_total\\fR.");
#define X(e, name, text) page_entry(out, name, "", text);
	PROXY_COUNTERS(X)
#undef X
#define X(name, field, text) page_entry(out, #name, "", text);
	LINK_COUNTERS(X)
#undef X
#define X(name, text) page_entry(out, #name, "", text);
	RELAY_COUNTERS(X)
#undef X
	page_section(out, "OTHER COUNTERS",
	             "As \\fBlongreach_\\fINAME\\fB_total\\fR. In status they are \\fBsteps\\fR of "
	             "\\fBdistance\\fR, \\fBmissed\\fR of\n\\fBbursts\\fR, \\fBjumps\\fR of "
	             "\\fBclock\\fR and \\fBsessions\\fR of \\fBpeer\\fR, in the order below.");
#define X(name, field, text) page_entry(out, #name, "", text);
	SITE_COUNTERS(X)
#undef X
}

static void page_paths(FILE *out)
{
	page_section(out, "COUNTERS OF A PATH",
	            "In \\fBpaths\\fR of status under this name, and as \\fBlongreach_path_...\\fR by \\fIpath\\fR.");
#define X(member, op, json, metric, help) page_entry(out, json, " (" metric ")", help);
	PATH_COUNTERS(X)
#undef X
	page_entry(out, "loss_bursts", " (path_loss_bursts)", PATH_LOSS_BURSTS_TEXT);
}

/* Rows without a text are further labels of the family before. */
static void page_metric(FILE *out, const char *family, const char *suffix, const char *help)
{
	if (help[0] != '\0')
		fprintf(out, ".TP\n.B longreach_%s%s\n\\&%s\n", family, suffix, help);
}

static void page_metrics(FILE *out)
{
	page_section(out, "OTHER METRICS",
	            "States, sizes and times as they are now, of each \\fIlink\\fR and of each of its \\fIpath\\fRs.");
	page_entry(out, PROCESS_START_FAMILY, "", PROCESS_START_TEXT);
#define X(id, family, suffix, type, help) page_metric(out, family, suffix, help);
	OTHER_FAMILIES(X)
#undef X
#define X(id, family, help, label, value) page_metric(out, family, "", help);
	GAUGES(X)
#undef X
#define X(id, family, suffix, type, help, value) page_metric(out, family, suffix, help);
	PATH_FAMILIES(X)
#undef X
}

static void page_events(FILE *out)
{
	page_section(out, "EVENTS",
	             "In the log, in \\fBevents\\fR of status, and as \\fBlongreach_events_total\\fR by \\fIevent\\fR. "
	             "The log\nhas them as information, as warnings or as errors.");
#define X(e, name, severity, text)                                                                                     \
	page_entry(out, name, severity == 'e' ? " (error)" : severity == 'w' ? " (warning)" : "", text);
	PROXY_EVENTS(X)
#undef X
	page_section(out, "WHY A FLOW FAILED", "In lines of \\fBflow_failed\\fR and in \\fBlongreach failed\\fR.");
#define X(e, name, text) page_entry(out, name, "", text);
	PROXY_FAILURES(X)
#undef X
}

static void page_states(FILE *out)
{
#define X(e, name, text) page_entry(out, name, "", text);
	page_section(out, "STATES OF A LINK",
	            "In \\fBstate\\fR of status, and as \\fBlongreach_link_state\\fR by \\fIstate\\fR.");
	SITE_STATES(X)
	page_section(out, "STATES OF A PATH", "In \\fBpaths\\fR of status.");
	PATH_STATES(X)
	page_section(out, "STATES OF REAUTHENTICATION",
	            "In \\fBreauthentication\\fR of status: whether the session in force was proven under the keys in force.");
	REAUTH_STATES(X)
#undef X
}

static void page_facts(FILE *out)
{
	page_section(out, "FACTS OF A FLOW",
	             "In \\fBfacts\\fR of \\fBlongreach flow\\fR. near: at the edge of the requester's site; far: at "
	             "the edge of the\nresponder's site. Times are ages: their names end in \\fB_age_ns\\fR, and an "
	             "age is missing if its event never happened.");
#define X(member, name, text) page_entry(out, name, "", text);
	FLOW_COUNTS(X)
#undef X
#define SUFFIX_AGE   "_age_ns"
#define SUFFIX_NS    "_ns"
#define SUFFIX_BYTES "_bytes"
#define SUFFIX_COUNT ""
#define SUFFIX_POS   ""
#define SUFFIX_FLAG  ""
#define X(member, name, unit, text) page_entry(out, name SUFFIX_##unit, "", text);
	FLOW_VALUES(X)
#undef X
	page_section(out, "HOW FAR ACKS MAY REACH", "In \\fBceiling_reason\\fR of a flow's facts, and in traces of flows.");
#define X(e, name, text)                                                                                               \
	if (CEILING_##e != CEILING_NONE)                                                                               \
		page_entry(out, name, "", text);
	CEILING_REASONS(X)
#undef X
	page_section(out, "HOW A FLOW ENDED", "In \\fBend\\fR of \\fBlongreach flow\\fR.");
#define X(e, name, text)                                                                                               \
	if (FLOW_END_##e != FLOW_END_NONE)                                                                             \
		page_entry(out, name, "", text);
	FLOW_ENDS(X)
#undef X
}

static void counters_page(FILE *out)
{
	fputs(".\\\" SPDX-License-Identifier: Apache-2.0\n"
	      ".TH LONGREACH-COUNTERS 7 \"\" \"longreach\" \"longreach\"\n"
	      ".SH NAME\n"
	      "longreach-counters \\- drop reasons, counters, events and states of longreach\n"
	      ".SH DESCRIPTION\n"
	      "This page describes, by name, the counters, events and states of \\fBlongreach status \\-\\-json\\fR,\n"
	      "\\fBlongreachd \\-\\-metrics\\fR and the log.\n"
	      "Counts begin with the start of the link: \\fBlongreach restart\\fR sets them to 0.\n"
	      "Those of events and of \\fBdistance_steps\\fR go on then: they begin when the daemon first reads the link's file.\n"
	      "\\fBlongreach\\fR(7) says what to do about each event, failure, state and drop.\n",
	      out);
	page_drops(out);
	page_counters(out);
	page_paths(out);
	page_metrics(out);
	page_events(out);
	page_states(out);
	page_facts(out);
	fputs(".SH SEE ALSO\n.BR longreach (1),\n.BR longreach (7),\n.BR longreachd (8)\n", out);
}

#ifndef COUNTERS_PAGE_TEST
int main(void)
{
	counters_page(stdout);
	return 0;
}
#endif
