/* SPDX-License-Identifier: Apache-2.0 */
/* counters.c - names and texts of drop reasons, counters and events, out of the lists in counters.h. */
#include "counters.h"

struct label {
	const char *name;
	const char *text;
};

static const struct label no_label = {"unknown", "unknown"};

#define X(e, name, text) {name, text},
static const struct label drops[DROP_COUNT] = {PROXY_DROPS(X)};
static const struct label counters[CTR_COUNT] = {PROXY_COUNTERS(X)};
#undef X

#define X(e, name, text) {name, text},
static const struct label failures[FAILURE_COUNT] = {PROXY_FAILURES(X)};
#undef X

#define X(e, name, sev, text) {name, text},
static const struct label events[EV_COUNT] = {PROXY_EVENTS(X)};
#undef X

#define X(e, name, sev, text) sev,
static const char severities[EV_COUNT] = {PROXY_EVENTS(X)};
#undef X

static const struct label *drop_label(enum proxy_drop d)
{
	return (unsigned)d < DROP_COUNT ? &drops[d] : &no_label;
}

static const struct label *counter_label(enum proxy_counter c)
{
	return (unsigned)c < CTR_COUNT ? &counters[c] : &no_label;
}

static const struct label *event_label(enum proxy_event_type e)
{
	return (unsigned)e < EV_COUNT ? &events[e] : &no_label;
}

const char *proxy_drop_name(enum proxy_drop d)
{
	return drop_label(d)->name;
}

const char *proxy_drop_text(enum proxy_drop d)
{
	return drop_label(d)->text;
}

const char *proxy_counter_name(enum proxy_counter c)
{
	return counter_label(c)->name;
}

const char *proxy_counter_text(enum proxy_counter c)
{
	return counter_label(c)->text;
}

const char *proxy_failure_name(enum proxy_failure f)
{
	return (unsigned)f < FAILURE_COUNT ? failures[f].name : no_label.name;
}

const char *proxy_failure_text(enum proxy_failure f)
{
	return (unsigned)f < FAILURE_COUNT ? failures[f].text : no_label.text;
}

const char *proxy_event_name(enum proxy_event_type e)
{
	return event_label(e)->name;
}

const char *proxy_event_text(enum proxy_event_type e)
{
	return event_label(e)->text;
}

char proxy_event_severity(enum proxy_event_type e)
{
	return (unsigned)e < EV_COUNT ? severities[e] : 'w';
}
