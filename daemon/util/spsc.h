/* SPDX-License-Identifier: Apache-2.0 */
/* spsc.h - a bounded ring between exactly one producing and one consuming thread, without locks.
 *
 * Items are copied in and out. head is written by the consumer alone, tail by the producer alone; both only grow. */
#ifndef DAEMON_SPSC_H
#define DAEMON_SPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct spsc {
	_Alignas(64) _Atomic uint32_t head; /* next to take */
	_Alignas(64) _Atomic uint32_t tail; /* next to put */
	_Alignas(64) uint8_t *items;
	size_t item_len;
	uint32_t mask;
};

/* slots: a power of two. False without memory. */
static inline bool spsc_init(struct spsc *q, uint32_t slots, size_t item_len)
{
	atomic_init(&q->head, 0);
	atomic_init(&q->tail, 0);
	q->items = calloc(slots, item_len);
	q->item_len = item_len;
	q->mask = slots - 1;
	return q->items != NULL;
}

static inline void spsc_free(struct spsc *q)
{
	free(q->items);
	q->items = NULL;
}

/* Producer. False if the ring is full. */
static inline bool spsc_put(struct spsc *q, const void *item)
{
	uint32_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);

	if (tail - atomic_load_explicit(&q->head, memory_order_acquire) > q->mask)
		return false;
	memcpy(q->items + (size_t)(tail & q->mask) * q->item_len, item, q->item_len);
	atomic_store_explicit(&q->tail, tail + 1, memory_order_release);
	return true;
}

/* Producer. */
static inline bool spsc_full(struct spsc *q)
{
	return atomic_load_explicit(&q->tail, memory_order_relaxed) -
	               atomic_load_explicit(&q->head, memory_order_acquire) >
	       q->mask;
}

/* Number of items: never too low for the producer, never too high for the consumer. */
static inline uint32_t spsc_used(struct spsc *q)
{
	return atomic_load_explicit(&q->tail, memory_order_acquire) - atomic_load_explicit(&q->head, memory_order_acquire);
}

/* Consumer. False if the ring is empty. */
static inline bool spsc_take(struct spsc *q, void *item)
{
	uint32_t head = atomic_load_explicit(&q->head, memory_order_relaxed);

	if (head == atomic_load_explicit(&q->tail, memory_order_acquire))
		return false;
	memcpy(item, q->items + (size_t)(head & q->mask) * q->item_len, q->item_len);
	atomic_store_explicit(&q->head, head + 1, memory_order_release);
	return true;
}

#endif
