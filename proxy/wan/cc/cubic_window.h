/* SPDX-License-Identifier: Apache-2.0 */
/* cubic_window.h - the window that TCP CUBIC (RFC 9438) would have in flight, in integer arithmetic, for sharing a line
 * with TCP.
 *
 * Call cubic_window_start() when contention begins, then cubic_window_grow() or cubic_window_cut() once a round
 * trip. */
#ifndef PROXY_CUBIC_WINDOW_H
#define PROXY_CUBIC_WINDOW_H

#include <stdint.h>

struct cubic_window {
	uint64_t bytes;                   /* the window: bytes that may be in flight */
	uint64_t most_bytes, reno_bytes;  /* W_max and W_est */
	uint64_t epoch_ns, flat_after_ms; /* when the window began to grow; K */
	uint64_t segment_bytes;
};

void cubic_window_start(struct cubic_window *w, uint64_t now_ns, uint64_t bytes, uint64_t segment_bytes);
/* cubic_window_grow() is called after a round trip without congestion, cubic_window_cut() after one with congestion. */
void cubic_window_grow(struct cubic_window *w, uint64_t now_ns);
void cubic_window_cut(struct cubic_window *w, uint64_t now_ns);

/* The largest whole number whose cube is not above v. */
uint64_t cube_root(uint64_t v);

#endif
