/* SPDX-License-Identifier: Apache-2.0 */
/* lr_rdma_wire.c - messages of RDMA clients, to and from bytes: the library's and the daemon's. */
#include "lr_rdma_wire.h"

#include <string.h>

#define MAGIC 0x6c727264u /* lrrd */

/* Own functions: the library includes no header of the daemon. */
static uint64_t get(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

static void put(uint8_t *p, unsigned n, uint64_t v)
{
	while (n-- > 0) {
		p[n] = (uint8_t)v;
		v >>= 8;
	}
}

static void hello_put(uint8_t *out, size_t len, const struct lr_rdma_hello *h)
{
	memset(out, 0, len);
	put(out, 4, MAGIC);
	put(out + 4, 2, LR_RDMA_VERSION);
	put(out + 6, 2, len);
	put(out + 8, 4, h->value);
	out[12] = h->status;
	put(out + 16, 8, h->op);
}

void lr_rdma_hello_put(uint8_t out[LR_RDMA_HELLO_LEN], const struct lr_rdma_hello *h)
{
	hello_put(out, LR_RDMA_HELLO_LEN, h);
}

void lr_rdma_reason_put(uint8_t out[LR_RDMA_REASON_LEN], const struct lr_rdma_hello *h)
{
	hello_put(out, LR_RDMA_REASON_LEN, h);
	memcpy(out + LR_RDMA_HELLO_LEN, h->name, strnlen(h->name, LR_NAME_MAX - 1));
}

/* Devices pad private data with zeros, and a later version may send more fields: len may exceed the hello. */
bool lr_rdma_hello_get(const void *data, size_t len, struct lr_rdma_hello *h)
{
	const uint8_t *p = data;

	if (!p || len < LR_RDMA_HELLO_LEN || get(p, 4) != MAGIC || get(p + 4, 2) != LR_RDMA_VERSION ||
	    get(p + 6, 2) < LR_RDMA_HELLO_LEN || get(p + 6, 2) > len || p[12] >= LR_STATUSES)
		return false;
	*h = (struct lr_rdma_hello){.value = (uint32_t)get(p + 8, 4), .status = p[12], .op = get(p + 16, 8)};
	if (get(p + 6, 2) >= LR_RDMA_REASON_LEN)
		memcpy(h->name, p + LR_RDMA_HELLO_LEN, LR_NAME_MAX - 1);
	return true;
}

size_t lr_rdma_request_put(uint8_t out[LR_RDMA_REQUEST_MAX], const struct lr_rdma_request *q)
{
	size_t len = LR_RDMA_REQUEST_LEN + q->notice_len;

	memset(out, 0, LR_RDMA_REQUEST_LEN);
	out[0] = q->type;
	out[1] = q->promise;
	put(out + 2, 2, len);
	put(out + 4, 4, q->serial);
	put(out + 8, 8, q->id);
	put(out + 16, 8, q->after);
	put(out + 24, 8, q->address);
	put(out + 32, 8, q->bytes);
	put(out + 40, 8, q->region_offset);
	put(out + 48, 4, q->rkey);
	memcpy(out + 56, q->name, strnlen(q->name, LR_NAME_MAX - 1));
	if (q->notice_len > 0)
		memcpy(out + LR_RDMA_REQUEST_LEN, q->notice, q->notice_len);
	return len;
}

static bool range_is_sound(const struct lr_rdma_request *q)
{
	return q->bytes <= INT64_MAX && q->region_offset <= INT64_MAX - q->bytes && q->address <= UINT64_MAX - q->bytes;
}

bool lr_rdma_name_is_plain(const char *name)
{
	while ((unsigned char)*name >= 0x20 && *name != 0x7f)
		name++;
	return *name == '\0';
}

static bool name_is_sound(const char name[LR_NAME_MAX])
{
	return name[0] && name[LR_NAME_MAX - 1] == '\0';
}

static bool request_is_sound(const struct lr_rdma_request *q)
{
	if (q->type == LRM_CANCEL || q->type == LR_RDMA_TAKEN)
		return true;
	if (!name_is_sound(q->name) || !range_is_sound(q) || (q->type != LRM_PUT && q->notice_len > 0))
		return false;
	switch (q->type) {
	case LRM_PUT:
		return q->promise <= LR_DONE;
	case LRM_GET:
		return q->promise <= LR_DONE && q->bytes > 0;
	case LRM_EXPORT:
		return q->promise > 0 && q->promise <= (LR_PEER_READ | LR_PEER_WRITE) && q->bytes > 0 && q->region_offset == 0;
	default:
		return q->type == LRM_UNEXPORT;
	}
}

bool lr_rdma_request_get(const uint8_t *data, size_t len, struct lr_rdma_request *q)
{
	if (len < LR_RDMA_REQUEST_LEN || len > LR_RDMA_REQUEST_MAX || get(data + 2, 2) != len || get(data + 52, 4) != 0)
		return false;
	*q = (struct lr_rdma_request){.type = data[0],
	                              .promise = data[1],
	                              .serial = (uint32_t)get(data + 4, 4),
	                              .id = get(data + 8, 8),
	                              .after = get(data + 16, 8),
	                              .address = get(data + 24, 8),
	                              .bytes = get(data + 32, 8),
	                              .region_offset = get(data + 40, 8),
	                              .rkey = (uint32_t)get(data + 48, 4),
	                              .notice = data + LR_RDMA_REQUEST_LEN,
	                              .notice_len = len - LR_RDMA_REQUEST_LEN};
	memcpy(q->name, data + 56, LR_NAME_MAX);
	return request_is_sound(q);
}

size_t lr_rdma_event_put(uint8_t out[LR_RDMA_EVENT_MAX], const struct lr_rdma_event *e)
{
	bool notice = e->type == LRM_EVENT && e->kind == LR_EV_NOTICE;
	size_t len = notice ? LR_RDMA_NOTICE_LEN + e->notice_len : LR_RDMA_EVENT_LEN;

	memset(out, 0, notice ? LR_RDMA_NOTICE_LEN : LR_RDMA_EVENT_LEN);
	out[0] = e->type;
	out[1] = e->kind;
	put(out + 2, 2, len);
	put(out + 4, 4, e->serial);
	put(out + 8, 4, (uint32_t)e->result);
	out[12] = e->status;
	out[13] = e->promise;
	put(out + 16, 8, e->id);
	put(out + 24, 8, e->bytes);
	if (!notice)
		return len;
	put(out + 32, 8, e->offset);
	memcpy(out + 40, e->name, strnlen(e->name, LR_NAME_MAX - 1));
	memcpy(out + LR_RDMA_NOTICE_LEN, e->notice, e->notice_len);
	return len;
}

static bool get_notice(const uint8_t *data, size_t len, struct lr_rdma_event *e)
{
	if (len < LR_RDMA_NOTICE_LEN || len > LR_RDMA_EVENT_MAX)
		return false;
	e->offset = get(data + 32, 8);
	memcpy(e->name, data + 40, LR_NAME_MAX);
	e->notice_len = len - LR_RDMA_NOTICE_LEN;
	memcpy(e->notice, data + LR_RDMA_NOTICE_LEN, e->notice_len);
	return name_is_sound(e->name);
}

bool lr_rdma_event_get(const uint8_t *data, size_t len, struct lr_rdma_event *e)
{
	if (len < LR_RDMA_EVENT_LEN || get(data + 2, 2) != len)
		return false;
	*e = (struct lr_rdma_event){.type = data[0],
	                            .kind = data[1],
	                            .serial = (uint32_t)get(data + 4, 4),
	                            .result = (int32_t)(uint32_t)get(data + 8, 4),
	                            .status = data[12],
	                            .promise = data[13],
	                            .id = get(data + 16, 8),
	                            .bytes = get(data + 24, 8)};
	if (e->status >= LR_STATUSES || e->promise > LR_DONE)
		return false;
	if (e->type == LRM_EVENT && e->kind == LR_EV_NOTICE)
		return get_notice(data, len, e);
	return len == LR_RDMA_EVENT_LEN &&
	       (e->type == LRM_ANSWER || (e->type == LRM_EVENT && (e->kind == LR_EV_DONE || e->kind == LR_EV_LATE)));
}
