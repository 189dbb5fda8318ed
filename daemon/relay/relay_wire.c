/* SPDX-License-Identifier: Apache-2.0 */
/* relay_wire.c - heads of chunks, to and from bytes. */
#include "relay_wire.h"

#include <string.h>

#include "proxy/util/bytes.h"

#define VERSION        1
#define VERSION_PIECES 2

void relay_head_put(uint8_t out[RELAY_HEAD_LEN], const struct relay_head *h)
{
	out[0] = h->fence ? RELAY_FENCE : 0;
	out[1] = h->type;
	out[2] = h->status;
	out[3] = h->type == RW_GET && h->value > 0 ? VERSION_PIECES : VERSION;
	put_be32(out + 4, h->value);
	put_be64(out + 8, h->op);
	put_be64(out + 16, h->offset);
	put_be64(out + 24, h->length);
	memset(out + 32, 0, LR_NAME_MAX);
	memcpy(out + 32, h->name, strnlen(h->name, LR_NAME_MAX - 1));
}

/* Neither end of a range wraps. */
static bool range_is_sound(const struct relay_head *h)
{
	return h->offset <= INT64_MAX && h->length <= INT64_MAX && h->offset + h->length <= INT64_MAX;
}

bool relay_head_get(const uint8_t *chunk, size_t len, struct relay_head *h, const uint8_t **data, size_t *data_len)
{
	if (len < RELAY_HEAD_LEN || len > RELAY_HEAD_LEN + RELAY_DATA_MAX ||
	    (chunk[3] != VERSION && (chunk[3] != VERSION_PIECES || chunk[1] != RW_GET)))
		return false;
	h->fence = chunk[0] & RELAY_FENCE;
	h->type = chunk[1];
	h->status = chunk[2];
	h->value = get_be32(chunk + 4);
	h->op = get_be64(chunk + 8);
	h->offset = get_be64(chunk + 16);
	h->length = get_be64(chunk + 24);
	memcpy(h->name, chunk + 32, LR_NAME_MAX);
	if (h->type == 0 || h->type >= RW_TYPES || h->status >= LR_STATUSES || h->name[LR_NAME_MAX - 1] != '\0' ||
	    !range_is_sound(h))
		return false;
	*data = chunk + RELAY_HEAD_LEN;
	*data_len = len - RELAY_HEAD_LEN;
	return true;
}
