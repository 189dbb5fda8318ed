/* SPDX-License-Identifier: Apache-2.0 */
/* cert_days.h - how long a certificate is still valid, and when to warn: at 30, 7 and 1 days, and when it has expired;
 * for a certificate that is read later than that, at once. Pure. */
#ifndef DAEMON_CERT_DAYS_H
#define DAEMON_CERT_DAYS_H

#include <stdint.h>

struct cert_days {
	int64_t expires_s; /* CLOCK_REALTIME; 0: there is no certificate */
	int said;          /* the least number of days warned of, CERT_DAYS_NONE: none yet */
};

#define CERT_DAYS_NONE 1000000

void cert_days_init(struct cert_days *d, int64_t expires_s);
/* 30, 7, 1 or 0 (expired) if that warning is due now; -1: none is. */
int cert_days_look(struct cert_days *d, int64_t now_s);
/* Whole days left, rounded down; negative: expired since. */
int64_t cert_days_left(int64_t expires_s, int64_t now_s);

#endif
