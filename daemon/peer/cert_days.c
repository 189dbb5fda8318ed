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

/* A clock that is set back takes nothing back that was said. */
int cert_days_look(struct cert_days *d, int64_t now_s)
{
	if (d->expires_s == 0)
		return -1;
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
