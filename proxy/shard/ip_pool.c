/* SPDX-License-Identifier: Apache-2.0 */
#include "ip_pool.h"

/* Small ones for connection set-up and short messages, Ethernet's 1500 and jumbo frames with the usual snapshot behind
 * them, and some for the largest of both. Shares of the bytes, in sixteenths. */
static const struct {
	uint16_t bytes;
	uint8_t share;
} class[IP_CLASSES] = {{384, 1}, {2304, 5}, {9728, 8}, {(IP_BUF_MAX + 63) & ~63, 2}};

static uint32_t class_count(int c, uint32_t bytes)
{
	return (uint32_t)((uint64_t)bytes * class[c].share / 16 / class[c].bytes);
}

uint32_t ip_pool_bufs(uint32_t bytes)
{
	uint32_t n = 0;

	for (int c = 0; c < IP_CLASSES; c++)
		n += class_count(c, bytes);
	return n;
}

size_t ip_pool_data_bytes(uint32_t bytes)
{
	size_t n = 0;

	for (int c = 0; c < IP_CLASSES; c++)
		n += (size_t)class_count(c, bytes) * class[c].bytes;
	return n;
}

void ip_pool_init(struct ip_pool *pool, struct ip_buf *bufs, uint8_t *data, uint32_t bytes)
{
	struct ip_buf *b = bufs;

	*pool = (struct ip_pool){.bufs = bufs, .n = ip_pool_bufs(bytes), .capacity_bytes = ip_pool_data_bytes(bytes)};
	for (uint8_t c = 0; c < IP_CLASSES; c++) {
		dlist_init(&pool->free[c]);
		for (uint32_t i = 0; i < class_count(c, bytes); i++, b++) {
			b->data = data;
			b->size_class = c;
			dlist_append(&pool->free[c], &b->node);
			data += class[c].bytes;
		}
	}
}

struct ip_buf *ip_pool_take(struct ip_pool *pool, size_t len)
{
	for (int c = 0; c < IP_CLASSES && pool->n; c++) {
		struct dnode *n = dlist_first(&pool->free[c]);

		if (class[c].bytes < len || !n)
			continue;
		dlist_remove(n);
		pool->used_bytes += class[c].bytes;
		return dlist_entry(n, struct ip_buf, node);
	}
	return NULL;
}

void ip_pool_give(struct ip_pool *pool, struct ip_buf *b)
{
	dlist_remove(&b->node);
	pool->used_bytes -= class[b->size_class].bytes;
	dlist_append(&pool->free[b->size_class], &b->node);
}
