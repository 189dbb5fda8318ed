/* SPDX-License-Identifier: Apache-2.0 */
#include "fec_plan.h"

#define FADE_NUMBERS 262144.0 /* sums are halved here: 1,000 losses at 0.4 % */
#define LOST_SEEN    8.0      /* fewer losses say nothing of their rate, ... */
#define BURSTS_SEEN  4.0      /* ... fewer bursts nothing of their length */
#define CLEAN_SEEN   16384.0  /* so many without bursts worth counting: there are none */
#define K_LEAST      8        /* smaller groups cost more than they are worth */
#define K_AUTO_MAX   64
#define M_AUTO_MAX   8
#define LESS_MARGIN  1.5

void fec_measure_add(struct fec_measure *m, uint64_t numbers, uint64_t lost, uint64_t bursts)
{
	m->numbers += (double)numbers;
	m->lost += (double)lost;
	m->bursts += (double)bursts;
	while (m->numbers > FADE_NUMBERS) {
		m->numbers /= 2;
		m->lost /= 2;
		m->bursts /= 2;
	}
}

double fec_measure_loss(const struct fec_measure *m)
{
	return m->numbers > 0 ? m->lost / m->numbers : 0;
}

double fec_measure_burst(const struct fec_measure *m)
{
	return m->bursts >= BURSTS_SEEN ? m->lost / m->bursts : m->numbers >= CLEAN_SEEN ? 1 : FEC_BURST_UNKNOWN;
}

double fec_left_over(unsigned k, unsigned m, double loss)
{
	double mean = (k + m) * loss, term = 1, losses = 0, over = 0;

	if (mean <= 0)
		return 0;
	for (unsigned n = 0; n <= k + m; n++) {
		losses += n * term;
		if (n > m)
			over += n * term;
		term *= mean / (n + 1);
	}
	return over / losses;
}

static unsigned repairs_for(unsigned k, double loss)
{
	unsigned m = 1;

	while (m < M_AUTO_MAX && fec_left_over(k, m, loss) > FEC_LEFT)
		m++;
	return m;
}

static unsigned depth_for(double burst)
{
	unsigned depth = burst < 1.25 ? 1 : (unsigned)(4 * burst);

	return depth < FEC_DEPTH_MAX ? depth : FEC_DEPTH_MAX;
}

/* Groups that fill in time: fewer at a time first, then smaller ones. */
static void fit_line(struct fec_plan *p, const struct fec_line *line, unsigned k_least)
{
	double room = line->quarter_rtt_datagrams;

	while (p->depth > 1 && (double)p->k * p->depth > room)
		p->depth--;
	while (p->k > k_least && p->k > room)
		p->k--;
}

static bool better(const struct fec_plan *a, const struct fec_plan *b)
{
	return !b->k || (unsigned)a->m * b->k > (unsigned)b->m * a->k;
}

static struct fec_plan plan_for(double loss, double burst, const struct fec_line *line)
{
	struct fec_plan p = {.k = K_AUTO_MAX, .m = 1, .depth = (uint8_t)depth_for(burst)};

	fit_line(&p, line, K_LEAST);
	while (p.k > K_LEAST && fec_left_over(p.k, M_AUTO_MAX, loss) > FEC_LEFT)
		p.k /= 2;
	if (p.k < K_LEAST)
		p.k = K_LEAST;
	p.m = (uint8_t)repairs_for(p.k, loss);
	return p;
}

static void set(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_plan *to, uint64_t now_ns)
{
	if (plan->k == to->k && plan->m == to->m && plan->depth == to->depth)
		return;
	*plan = *to;
	*changed_ns = now_ns;
}

static void update_auto(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_measure *m,
                        const struct fec_line *line, uint64_t now_ns)
{
	double loss = fec_measure_loss(m), burst = fec_measure_burst(m);
	bool may_drop = now_ns >= *changed_ns + FEC_HOLD_NS;
	struct fec_plan want = plan_for(loss, burst, line), less;

	if (!plan->k) {
		if (loss >= FEC_ON_LOSS && m->lost >= LOST_SEEN && line->quarter_rtt_datagrams >= K_LEAST)
			set(plan, changed_ns, &want, now_ns);
		return;
	}
	if (loss < FEC_ON_LOSS / 2 || line->quarter_rtt_datagrams < K_LEAST / 2.0) {
		if (may_drop)
			set(plan, changed_ns, &(struct fec_plan){0}, now_ns);
		return;
	}
	if (better(&want, plan) || want.depth > plan->depth) {
		if (want.depth < plan->depth)
			want.depth = plan->depth;
		set(plan, changed_ns, &want, now_ns);
		return;
	}
	less = plan_for(LESS_MARGIN * loss, 1 + LESS_MARGIN * (burst - 1), line);
	if (may_drop && (better(plan, &less) || less.depth < plan->depth))
		set(plan, changed_ns, &less, now_ns);
}

static void update_fixed(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_config *c,
                         const struct fec_measure *m, const struct fec_line *line, uint64_t now_ns)
{
	struct fec_plan want = {.k = c->k, .m = c->m, .depth = (uint8_t)depth_for(fec_measure_burst(m))};

	fit_line(&want, line, c->k);
	if (plan->k && want.depth < plan->depth) {
		struct fec_plan less = {.k = c->k, .m = c->m};

		less.depth = (uint8_t)depth_for(1 + LESS_MARGIN * (fec_measure_burst(m) - 1));
		fit_line(&less, line, c->k);
		if (now_ns < *changed_ns + FEC_HOLD_NS || less.depth >= plan->depth)
			return;
		want = less;
	}
	set(plan, changed_ns, &want, now_ns);
}

void fec_plan_update(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_config *c,
                     const struct fec_measure *m, const struct fec_line *line, uint64_t now_ns)
{
	if (c->mode == FEC_AUTO)
		update_auto(plan, changed_ns, m, line, now_ns);
	else if (c->mode == FEC_FIXED)
		update_fixed(plan, changed_ns, c, m, line, now_ns);
	else
		plan->k = 0;
}
