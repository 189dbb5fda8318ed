/* SPDX-License-Identifier: Apache-2.0 */
#include "cert_days.h"

#include <stddef.h>

#define DAY_S 86400

static const int said_at[] = {0, 1, 7, 30};

void cert_days_init(struct cert_days *d, int64_t expires_s)
{
	*d = (struct cert_days){.expires_s = expires_s, .said = CERT_DAYS_NONE};
}

int64_t cert_days_left(int64_t expires_s, int64_t now_s)
{
	int64_t left = expires_s - now_s;

	return left >= 0 ? left / DAY_S : -((-left + DAY_S - 1) / DAY_S);
}

/* After a clock that was ahead was corrected: warnings that came too early are given again when they are true. A margin
 * of a day prevents repeated warnings by small corrections. */
static void take_back(struct cert_days *d, int64_t left_s)
{
	for (size_t i = 0; i < sizeof(said_at) / sizeof(said_at[0]); i++)
		if (d->said == said_at[i] && left_s > (int64_t)(said_at[i] + 1) * DAY_S)
			d->said = i + 1 < sizeof(said_at) / sizeof(said_at[0]) ? said_at[i + 1] : CERT_DAYS_NONE;
}

int cert_days_look(struct cert_days *d, int64_t now_s)
{
	if (d->expires_s == 0)
		return -1;
	take_back(d, d->expires_s - now_s);
	for (size_t i = 0; i < sizeof(said_at) / sizeof(said_at[0]); i++) {
		if (d->expires_s - now_s > (int64_t)said_at[i] * DAY_S)
			continue;
		if (said_at[i] >= d->said)
			return -1;
		d->said = said_at[i];
		return d->said;
	}
	return -1;
}
