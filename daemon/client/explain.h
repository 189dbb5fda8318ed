/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - `longreach explain`: why a queue pair is dead, failed or slow.
 *
 * The daemon is asked twice, a second apart, for the flows that somebody names. Each cause of explain_causes looks at
 * one flow and says what it has seen, in words and numbers, and what to do. Of the causes that end a queue pair only
 * the first one that fits is told, as it explains all other findings; of the causes that make it slow all are told.
 * Nothing is said of a healthy flow. */
#ifndef DAEMON_CLIENT_EXPLAIN_H
#define DAEMON_CLIENT_EXPLAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "client_json.h"

#define EXPLAIN_TEXT_MAX 640

/* One flow, and what is known around it. */
struct explain_flow {
	const struct json_object *link, *link_before; /* the link in the daemon's answer; link_before: a second earlier,
	                                               * or NULL */
	const struct json_object *flow, *before;      /* before NULL: the flow was not there yet, or has ended */
	const struct json_object *facts;
	double seconds;    /* between the two looks */
	bool near;         /* seen beside its requester */
	bool host_deaf;    /* the host on this side answers no ARP */
	bool failed_before; /* near: an earlier life of the queue pair was given up, which is the real cause */
	bool host_answers; /* other queue pairs of the responder answer, or its own requests come here */
};

struct explain_finding {
	char what[EXPLAIN_TEXT_MAX], todo[EXPLAIN_TEXT_MAX];
};

struct explain_cause {
	const char *name;
	bool ends;       /* the cause ends the queue pair; else it makes the queue pair slow */
	uint32_t errors; /* bits 1 << completion status that a program may see (enum ibv_wc_status) */
	bool (*look)(const struct explain_flow *f, struct explain_finding *out);
	const char *text; /* for --list and longreach(1) */
};

extern const struct explain_cause explain_causes[];
extern const uint32_t explain_ncauses;

/* Writes "what\nwhat to do" into a finding. Always true. */
bool explain_say(struct explain_finding *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The meaning of a program's completion status. number: of enum ibv_wc_status. */
struct explain_error {
	unsigned number;
	const char *name; /* without IBV_WC_ */
	const char *text;
};

/* Finds an error by number or by name, with or without IBV_WC_ and _ERR. NULL: unknown. */
const struct explain_error *explain_error_find(const char *text);

/* "near:3 10.1.0.2:0x12 > 10.2.0.2:0x15"; returns text. */
const char *explain_flow_name(const struct json_object *flow, char *text, size_t cap);

/* longreach explain ...: the exit status. argv[0] is "explain", control_path what --control said before it. */
int explain_main(int argc, char **argv, const char *control_path);

#endif
