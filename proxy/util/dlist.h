/* SPDX-License-Identifier: Apache-2.0 */
/* dlist.h - circular doubly linked lists, with nodes embedded in the linked structs. A node off every list is all
 * zero. */
#ifndef PROXY_DLIST_H
#define PROXY_DLIST_H

#include <stdbool.h>
#include <stddef.h>

struct dnode {
	struct dnode *next, *prev;
};

#define dlist_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void dlist_init(struct dnode *head)
{
	head->next = head->prev = head;
}

static inline bool dlist_empty(const struct dnode *head)
{
	return head->next == head;
}

static inline bool dnode_on(const struct dnode *n)
{
	return n->next != NULL;
}

static inline void dlist_append(struct dnode *head, struct dnode *n)
{
	n->next = head;
	n->prev = head->prev;
	head->prev->next = n;
	head->prev = n;
}

static inline void dlist_insert_before(struct dnode *at, struct dnode *n)
{
	dlist_append(at, n);
}

/* Appends unless it is on a list already. */
static inline void dlist_append_once(struct dnode *head, struct dnode *n)
{
	if (!dnode_on(n))
		dlist_append(head, n);
}

static inline void dlist_remove(struct dnode *n)
{
	if (!n->next)
		return;
	n->prev->next = n->next;
	n->next->prev = n->prev;
	n->next = n->prev = NULL;
}

static inline struct dnode *dlist_first(const struct dnode *head)
{
	return head->next == head ? NULL : head->next;
}

/* Moves all nodes of `from` to the end of the list. */
static inline void dlist_move_all(struct dnode *head, struct dnode *from)
{
	if (dlist_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	dlist_init(from);
}

/* Moves the first node to the end. */
static inline void dlist_rotate(struct dnode *head)
{
	struct dnode *n = dlist_first(head);

	if (n) {
		dlist_remove(n);
		dlist_append(head, n);
	}
}

#endif
