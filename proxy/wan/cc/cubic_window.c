/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of RFC 9438: C 0.4 segments/s^3 and beta 0.7 (section 4.6), fast convergence (4.7), Reno's window as a lower
 * bound (4.3), growth by at most a half in a round trip (4.2). */
#include "cubic_window.h"

#define AWAY_MAX_MS 100000u /* from the plateau: keeps the cube within 64 bits */

static uint64_t percent(uint64_t v, uint64_t of_100)
{
	return v * of_100 / 100;
}

uint64_t cube_root(uint64_t v)
{
	uint64_t root = 0;

	for (uint64_t bit = 1ull << 20; bit; bit >>= 1)
		if ((root + bit) * (root + bit) * (root + bit) <= v)
			root += bit;
	return root;
}

void cubic_window_start(struct cubic_window *w, uint64_t now_ns, uint64_t bytes, uint64_t segment_bytes)
{
	*w = (struct cubic_window){.bytes = bytes,
	                           .most_bytes = bytes,
	                           .reno_bytes = bytes,
	                           .epoch_ns = now_ns,
	                           .segment_bytes = segment_bytes};
}

void cubic_window_cut(struct cubic_window *w, uint64_t now_ns)
{
	w->most_bytes = w->bytes < w->most_bytes ? percent(w->bytes, 85) : w->bytes;
	w->bytes = w->reno_bytes = percent(w->bytes, 70);
	w->epoch_ns = now_ns;
	/* K = cbrt((W_max - cwnd) / C), in ms */
	w->flat_after_ms = cube_root((w->most_bytes - w->bytes) / w->segment_bytes * 2500000000ull);
}

/* W_cubic(t) = C (t - K)^3 + W_max */
static uint64_t wanted(const struct cubic_window *w, uint64_t t_ms)
{
	uint64_t k_ms = w->flat_after_ms, away_ms = t_ms > k_ms ? t_ms - k_ms : k_ms - t_ms, bytes;

	away_ms = away_ms < AWAY_MAX_MS ? away_ms : AWAY_MAX_MS;
	bytes = away_ms * away_ms * away_ms / 1000000 * w->segment_bytes / 2500;
	if (t_ms > k_ms)
		return w->most_bytes + bytes;
	return w->most_bytes > bytes ? w->most_bytes - bytes : 0;
}

void cubic_window_grow(struct cubic_window *w, uint64_t now_ns)
{
	uint64_t want = wanted(w, (now_ns - w->epoch_ns) / 1000000), most = percent(w->bytes, 150);

	w->reno_bytes += w->reno_bytes < w->most_bytes ? percent(w->segment_bytes, 53) : w->segment_bytes;
	want = want > w->reno_bytes ? want : w->reno_bytes;
	want = want < most ? want : most;
	w->bytes = want > w->bytes ? want : w->bytes;
}
