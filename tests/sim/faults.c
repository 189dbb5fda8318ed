/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "fault_table.h"
#include "proxy/util/fault.h"

struct fault {
	const char *name, *rule, *what;
};

static const struct fault faults[FAULT_COUNT] = {
#define X(name, rule, what) {#name, rule, what},
#include "proxy/util/fault_list.h"
#undef X
};

/* For each fault the violations that its rule is known by; see faults_shown_by. A new fault needs a line here, or one in
 * fault_table.c that names a unit test. */
static const char *const shown_by[FAULT_COUNT] = {
    [FAULT_ACK_TOO_FAR] = "ack-ceiling",
    [FAULT_WRONG_MSN] = "msn",
    [FAULT_DROP_SLOT] = "progress, late, incomplete, endless",
    [FAULT_MISPAIR] = "mispaired, stray",
    [FAULT_UNPAIRED_UNBOUNDED] = "refused",
    [FAULT_STALE_INCARNATION] = "request-unsent, ack-unsent, execution",
    [FAULT_FAR_AS_NEAR] = "ack-promise, far-promise, completion-early",
    [FAULT_STALE_FLOW_OVERTAKEN] = "word-overtakes, flag-overtakes, dreq-overtakes",
    [FAULT_STALE_FLOW_DROPPED] = "far-promise",
    [FAULT_NO_DEMOTION] = "ack-for-dead",
    [FAULT_REPETITION_ASSUMED] = "progress, qp-error, ack-unsent, incomplete, word-overtakes, dreq-overtakes",
    [FAULT_WORK_UNBOUNDED] = "steps",
    [FAULT_NOT_READ_AGAIN] = "qp-error, progress, late, endless",
    [FAULT_LATE_ANSWER_PAIRS] = "mispaired, stray, ack-unsent, ack-ceiling, msn",
    [FAULT_LATE_MSN_TRUSTED] = "msn",
    [FAULT_END_TO_END_CLAIMED] = "mispaired, stray, progress, qp-error, ack-unsent, ack-of-answer",
    [FAULT_FLUSH_UNANSWERED] = "qp-error, progress, incomplete, late",
    [FAULT_RESET_BY_ONE_PACKET] = "lives, request-unsent",
    [FAULT_IDLE_UNTOLD] = "late-error",
    [FAULT_PAST_READ] = "implied-nak, atomic-counter",
    [FAULT_ACK_OVER_ANSWER] = "ack-of-answer",
    [FAULT_FORGET_ANSWERS] = "qp-error, atomic-result",
    [FAULT_ROOM_NOT_RESERVED] = "refused",
    [FAULT_CREDIT_UNTOLD] = "refused",
    [FAULT_FEW_ANSWERS_KEPT] = "qp-error, atomic-result",
    [FAULT_NO_REFRAME] = "response-framing, implied-nak",
    [FAULT_RNR_IN_READ] = "qp-error",
    [FAULT_BARRIER_OFF] = "word-overtakes, word-waived, dreq-overtakes, dreq-waived",
    [FAULT_CAUSAL_IGNORED] = "flag-overtakes, flag-waived",
    [FAULT_ALIASES_SEPARATE] = "word-overtakes",
    [FAULT_NAK_TOO_FAR] = "ack-ceiling",
    [FAULT_EARLY_ACKS] = "ack-promise, completion-early",
    [FAULT_AETH_CREDIT_SENT] = "credits",
    [FAULT_TEMPLATE_IGNORED] = "template",
    [FAULT_ICRC_UNCHECKED] = "icrc",
    [FAULT_ICRC_UNPATCHED] = "icrc",
    [FAULT_FIRST_SEEN_IS_FIRST] = "late, lives",
    [FAULT_BASE_NOT_LOWERED] = "late",
    [FAULT_PROBE_TOGETHER] = "qp-error, progress, late",
    [FAULT_NO_QUARANTINE] = "mispaired, stray",
    [FAULT_NO_RESTART_QUARANTINE] = "mispaired, stray",
    [FAULT_UNCONFIRMED_ACKED] = "ack-unsent, ack-below-start, completion-unsent, ack-promise",
    [FAULT_PAIRED_QPN_PROBED] = "mispaired, stray",
    [FAULT_UNSENT_ACK_TAKEN] = "ack-promise, ack-unsent",
    [FAULT_CM_REPEATED] = "lives",
    [FAULT_OLD_LIFE_OVERTAKEN] = "request-unsent, execution",
    [FAULT_DELIVERED_AGAIN] = "slot-leak, execution, request-unsent",
    [FAULT_FAR_PAST_READ] = "progress, late, endless",
    [FAULT_NAK_REPEATED] = "qp-error",
    [FAULT_HOLD_BY_SILENCE] = "qp-error, late",
    [FAULT_RNR_TO_FINITE] = "rnr-spent",
    [FAULT_CREDIT_IGNORED] = "progress, late, endless",
    [FAULT_NEAR_FREES_FIRST] = "slot-leak",
    [FAULT_FAR_FREES_FIRST] = "progress, late, endless, slot-leak",
    [FAULT_ARENA_EPOCH] = "word-overtakes, flag-overtakes, dreq-overtakes, ack-promise, far-promise",
    [FAULT_LANE_ASYMMETRIC] = "qp-error, progress, late",
    [FAULT_ONE_POOL] = "progress, late",
    [FAULT_END_TO_END_ON_TIME] = "mispaired, stray",
    [FAULT_LATE_TURN_ENDS] = "progress, late, qp-error",
    [FAULT_REST_ASKED] = "progress, late, qp-error, endless",
    [FAULT_RNR_IN_REST] = "qp-error, progress, late",
    [FAULT_LAST_UNCOUNTED] = "progress, late, qp-error",
    [FAULT_LARGEST_UNKEPT] = "progress, late, qp-error",
    [FAULT_QUEUE_STALE] = "progress, late, endless",
    [FAULT_REFUSED_FORGOTTEN] = "progress, late, endless",
    [FAULT_DEAD_PATH_KEEPS] = "progress, late, endless",
    [FAULT_EVICTED_IS_GONE] = "word-overtakes, flag-overtakes",
    [FAULT_MODE_OF_THE_MOMENT] = "far-promise, progress, late",
    [FAULT_NO_CREDIT] = "late, qp-error",
    [FAULT_WINDOW_UNTOLD] = "late, qp-error",
    [FAULT_NO_EVICT] = "late, qp-error",
    [FAULT_PAIR_FOR_EVER] = "mispaired, stray, qp-error, progress",
    [FAULT_REQUESTER_SHARED] = "ack-ceiling, ack-below-start, ack-unsent",
    [FAULT_ANSWERS_NOT_KEPT] = "qp-error, atomic-result",
    [FAULT_PMTU_GUESSED] = "msn, response-framing",
    [FAULT_MIDDLE_IS_REPETITION] = "ack-unsent, ack-below-start, completion-unsent, ack-promise",
    [FAULT_NO_TURNS] = "unequal",
    [FAULT_NO_HOST_WINDOW] = "port-overrun",
    [FAULT_CNP_IGNORED] = "port-overrun, unequal",
    [FAULT_MARKS_IGNORED] = "marks-ignored",
    [FAULT_REBUILT_REFUSED] = "progress, late, endless, relay-lost",
    [FAULT_NO_SOFT_CNP] = "unwarned",
    [FAULT_READ_CROSSES_AGAIN] = "twice",
    [FAULT_RESPONSES_TWICE] = "twice",
    [FAULT_REFUSAL_UNTOLD] = "late-error, told-early, told-busy",
    [FAULT_RNR_WAITED_FOR] = "barrier-expired",
    [FAULT_ANY_LAYOUT] = "layout",
    [FAULT_PIN_IGNORED] = "icrc, audit",
    [FAULT_BLANK_FILLED_AGAIN] = "icrc, progress, late, incomplete, endless, qp-error, word-waived",
    [FAULT_BLANK_SURVIVES] = "damaged",
    [FAULT_RELAY_FENCE_EARLY] = "relay-fence, relay-order",
    [FAULT_RELAY_DONE_UNSTORED] = "relay-lost, slot-leak",
    [FAULT_RELAY_HOLES_LEFT] = "relay-lost, slot-leak",
    [FAULT_RELAY_LIFE_KEPT] = "relay-lost, slot-leak, relay-chunk, relay-position, relay-twice",
};

/* "WRONG_MSN" is called wrong_msn. */
static const char *lower(const char *name)
{
	static char s[64];
	size_t i;

	for (i = 0; name[i] && i < sizeof(s) - 1; i++)
		s[i] = (char)tolower((unsigned char)name[i]);
	s[i] = 0;
	return s;
}

const char *faults_name(int fault)
{
	return lower(faults[fault].name);
}

const char *faults_rule(int fault)
{
	return faults[fault].rule;
}

bool faults_set(const char *name)
{
	for (int i = 0; i < FAULT_COUNT; i++) {
		if (strcmp(name, lower(faults[i].name)) == 0) {
			proxy_faults[i] = true;
			return true;
		}
	}
	return false;
}

void faults_only(int fault)
{
	for (int i = 0; i < FAULT_COUNT; i++)
		proxy_faults[i] = i == fault;
}

struct fault_set faults_off(void)
{
	struct fault_set set;

	memcpy(set.on, proxy_faults, sizeof(set.on));
	faults_only(FAULT_COUNT);
	return set;
}

void faults_on(const struct fault_set *set)
{
	memcpy(proxy_faults, set->on, sizeof(set->on));
}

const char *faults_shown_by(int fault)
{
	return shown_by[fault];
}

bool faults_show(const char *violation)
{
	for (int i = 0; i < FAULT_COUNT; i++)
		if (proxy_faults[i] && shown_by[i] && check_named(shown_by[i], violation))
			return true;
	return false;
}

int faults_list(void)
{
	int unnamed = 0;

	for (int i = 0; i < FAULT_COUNT; i++) {
		const char *test = fault_table_unit_test(i);

		printf("%-24s %-58s %s\n%-24s shown by %s\n", faults_name(i), faults[i].rule, faults[i].what, "",
		       test          ? test
		       : shown_by[i] ? shown_by[i]
		                     : "NOTHING: name its violations in tests/sim/faults.c");
		unnamed += !shown_by[i] && !test;
	}
	printf("lrsim: %d faults, %d without a violation of their own\n", FAULT_COUNT, unnamed);
	return unnamed ? 1 : 0;
}
