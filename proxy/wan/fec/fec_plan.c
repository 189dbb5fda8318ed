/* SPDX-License-Identifier: Apache-2.0 */
#include "fec_plan.h"

#define FADE_NUMBERS 262144.0 /* sums are halved here: 1,000 losses at 0.4 % */
#define PRIOR_LOST    1.0     /* after its first loss a line is assumed to lose this many */
#define PRIOR_NUMBERS 1000.0  /* of so many datagrams (0.1 %), until more is known */
#define BURSTS_SEEN  4.0      /* fewer bursts say nothing about their mean length */
#define CLEAN_SEEN   16384.0  /* after so many datagrams without enough bursts, the line has none */
#define K_LEAST      4        /* least k, and least datagrams of a block for FEC */
#define RTT_BEGIN    5        /* datagrams of a round trip for FEC to begin: with fewer, repetition is as quick */
#define RTT_LEAST    4        /* with fewer datagrams in a round trip FEC ends at once */
#define BLOCK_BURSTS 16       /* bursts of unknown length count only in blocks so many times as long */
#define FIXED_LOSS   0.001    /* for a fixed k and m, depth is chosen for at least this loss */
#define COST_MOST    1.0      /* most repairs for each datagram on an idle line: a long message waits for them */
#define FULL_SLACK   0.004    /* if load is known this well, a full line gives up repairs in steps */
#define FULL_LOSSES  10.0     /* repairs that a full line may keep at first for each lost datagram */
#define FULL_COST    0.05     /* but at least so many for each datagram */
#define FULL_MOST    0.5      /* and at most so many for each datagram */
#define FULL_STEP    0.93     /* share of the repairs that is left after a step */
#define FULL_NEAR    1.3      /* steps end at so many times the least useful cost */
#define FULL_LOOKS   40       /* looks for which a full line keeps that cost */
#define FULL_LEAST   0.003    /* fewer repairs for each datagram are not worth the coding */
#define WORTH        0.5      /* with a larger share of losses left over, FEC is worth nothing */
#define KEEP_COST    1.25
#define KEEP_LEFT    4.0      /* a 6 % error in the loss makes a factor of 2 */
#define KEEP_ROOM    1.25

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

double fec_measure_expected(const struct fec_measure *m)
{
	if (m->lost == 0 && !m->found)
		return 0; /* no loss is known yet: repairs would only cost */
	return (m->lost + PRIOR_LOST) / (m->numbers + PRIOR_NUMBERS);
}

double fec_measure_burst(const struct fec_measure *m)
{
	if (m->bursts >= BURSTS_SEEN)
		return m->lost / m->bursts;
	if (m->numbers < CLEAN_SEEN)
		return FEC_BURST_UNKNOWN;
	return m->bursts > 0 && m->lost > m->bursts ? m->lost / m->bursts : 1;
}

static double fourth(double v)
{
	v *= v;
	return v * v;
}

/* e^-x for x >= 0: e^(x/1024) by its series, squared ten times. (The core must not use libm.) */
static double exp_minus(double x)
{
	double y = x / 1024, e = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5))));

	e = fourth(fourth(fourth(fourth(fourth(e)))));
	return 1 / e;
}

static double power(double base, unsigned n)
{
	double v = 1;

	while (n--)
		v *= base;
	return v;
}

/* Iterates over the probabilities of n losses in one group, n = 0, 1, 2... */
struct losses {
	double mean;  /* of a group */
	double q, batches;
	double p, before; /* probability of n and of n - 1 losses */
	double within;    /* sum of i x p(i) up to n */
	unsigned n;
};

/* Probability that a burst which took one number of a group takes the group's next one, too. */
static double burst_goes_on(unsigned depth, double burst)
{
	return power(1 - 1 / (burst > 1 ? burst : 1), depth);
}

static struct losses losses_of(unsigned numbers, double loss, double q)
{
	struct losses s = {.mean = numbers * loss, .q = q};

	s.batches = s.mean * (1 - s.q);
	s.p = exp_minus(s.batches);
	return s;
}

/* A plan takes some 20,000 of these: no call, no branch. */
static inline __attribute__((always_inline)) void losses_next(struct losses *s)
{
	double n = ++s->n, p;

	p = ((s->batches * (1 - s->q) + 2 * s->q * (n - 1)) * s->p - s->q * s->q * (n - 2) * s->before) / n;
	s->before = s->p;
	s->p = (p + __builtin_fabs(p)) / 2; /* 0 if rounding has left it a little below */
	s->within += n * s->p;
}

static double left_over(const struct fec_plan *plan, double loss, double q)
{
	struct losses s = losses_of((unsigned)plan->k + plan->m, loss, q);

	if (s.mean <= 0)
		return 0;
	if (!plan->m)
		return 1;
	do
		losses_next(&s);
	while (s.n < plan->m);
	return s.within < s.mean ? 1 - s.within / s.mean : 0;
}

double fec_left_over(const struct fec_plan *plan, double loss, double burst)
{
	return left_over(plan, loss, burst_goes_on(plan->depth, burst));
}

static double cost_of(const struct fec_plan *p)
{
	return (double)p->m / p->k;
}

/* --- candidates for the plan --- */

struct best {
	/* few, most: the cheapest plans that leave no more than their limit; fewest: the plan that leaves fewest losses
	 * within the room that the line has */
	struct fec_plan few, fewest, most;
	double left;         /* share of losses that `few` may leave over, 0: `few` is not sought; `most` may leave
	                        FEC_LEFT_MOST */
	double afford, full; /* what `few` and `fewest` may cost, and what `most` may cost */
	double fewest_left;
};

static void cheaper(struct fec_plan *best, const struct fec_plan *p)
{
	if (!best->k || cost_of(p) < cost_of(best))
		*best = *p;
}

static unsigned m_most(unsigned k, unsigned depth)
{
	unsigned m = FEC_BLOCK_PARITY_MAX / depth, span = FEC_BLOCK_MAX / depth;

	if (m > FEC_M_MAX)
		m = FEC_M_MAX;
	return k + m <= span ? m : span > k ? span - k : 0;
}

/* The least m of from .. upto that leaves over at most `left`; 0: none does. A larger m always leaves fewer. */
static unsigned least_repairs(struct fec_plan p, unsigned from, unsigned upto, double left, double loss, double q)
{
	unsigned least = 0;

	while (from <= upto) {
		unsigned m = (from + upto) / 2;

		p.m = (uint8_t)m;
		if (left_over(&p, loss, q) <= left) {
			least = m;
			upto = m - 1;
		} else {
			from = m + 1;
		}
	}
	return least;
}

static unsigned affordable(double cost, unsigned k, unsigned most)
{
	double m = cost * k;

	return m < most ? (unsigned)m : most;
}

/* Tries the m of each plan in struct best for this k and depth, from the average loss on. */
static void try_groups(struct best *b, unsigned k, unsigned depth, unsigned repairs, double loss, double q)
{
	struct fec_plan p = {.k = (uint8_t)k, .depth = (uint8_t)depth};
	unsigned most = m_most(k, depth), m = (unsigned)(k * loss), few, afford;
	double left;

	if (most > repairs / depth)
		most = repairs / depth;
	if (!most)
		return;
	m = m < 1 ? 1 : m > most ? most : m;
	few = b->left > 0 ? least_repairs(p, m, most, b->left, loss, q) : 0;
	if (few) {
		p.m = (uint8_t)few;
		cheaper(&b->few, &p);
	}
	p.m = (uint8_t)least_repairs(p, m, few ? few : most, FEC_LEFT_MOST, loss, q);
	if (p.m && cost_of(&p) <= b->full)
		cheaper(&b->most, &p);
	afford = affordable(b->afford, k, few ? few : most);
	if (afford < m)
		return;
	p.m = (uint8_t)afford;
	left = left_over(&p, loss, q);
	if (!b->fewest.k || left < b->fewest_left) {
		b->fewest = p;
		b->fewest_left = left;
	}
}

static const uint8_t depths[] = {1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32};
static const uint8_t sizes[] = {240, 200, 160, 128, 96, 64, 48, 32, 24, 16, 12, 8};

/* Repairs for each datagram that the line has room for. */
static double cost_most(const struct fec_line *line)
{
	double most = fec_load_most(line);

	if (line->full || line->load >= most)
		return 0;
	return line->load > most / (1 + COST_MOST) ? most / line->load - 1 : COST_MOST;
}

/* Most repairs of a block: later datagrams wait until they are out. */
static unsigned repairs_most(const struct fec_line *line)
{
	double n = line->rtt_datagrams / FEC_REPAIRS_PART;

	return n >= FEC_BLOCK_PARITY_MAX ? FEC_BLOCK_PARITY_MAX : n < 2 ? 2 : (unsigned)n;
}

static void try_all(struct best *b, double loss, double burst, const struct fec_line *line)
{
	unsigned repairs = repairs_most(line);

	for (unsigned d = 0; d < sizeof(depths) && (d == 0 || depths[d] <= line->block_datagrams); d++) {
		double most = line->block_datagrams / depths[d], q = burst_goes_on(depths[d], burst);
		unsigned k = most > FEC_K_MAX ? FEC_K_MAX : most < 1 ? 1 : (unsigned)most;

		if (d > 0 && burst < 1.05)
			break; /* a larger m would only take longer */
		try_groups(b, k, depths[d], repairs, loss, q);
		for (unsigned i = 0; i < sizeof(sizes); i++)
			if (sizes[i] < k)
				try_groups(b, sizes[i], depths[d], repairs, loss, q);
	}
}

/* Share of losses that may be left over: hardly any datagram of a round trip. */
static double left_few(double loss, const struct fec_line *line)
{
	double lost = loss * line->rtt_datagrams;

	if (lost * FEC_LEFT_MOST <= FEC_LEFT_RTT)
		return FEC_LEFT_MOST;
	return lost * FEC_LEFT_FEW >= FEC_LEFT_RTT ? FEC_LEFT_FEW : FEC_LEFT_RTT / lost;
}

static struct fec_plan best_of(const struct best *b)
{
	if (b->few.k && cost_of(&b->few) <= b->afford)
		return b->few;
	return b->fewest.k && b->fewest_left <= WORTH ? b->fewest : (struct fec_plan){0};
}

static double cost_full(double loss)
{
	double cost = FULL_LOSSES * loss;

	return cost > FULL_MOST ? FULL_MOST : cost < FULL_COST ? FULL_COST : cost;
}

/* A full line does not tell how much more it is asked to carry. Often only a backlog of the last moment fills it: so
 * repairs go down in steps to the least useful cost, the last steps are small, and they stay there for a while. If the
 * line is still full then, it is full for good. */
static struct fec_plan step_down(const struct fec_plan *plan, double loss, double burst, const struct fec_line *line)
{
	struct best b = {.full = cost_full(loss)};
	double near, step = plan->k ? FULL_STEP * cost_of(plan) : 0;
	bool stays = line->full <= FULL_LOOKS;

	if (step < FULL_LEAST || line->slack > FULL_SLACK)
		return (struct fec_plan){0};
	if (stays)
		try_all(&b, loss, burst, line);
	near = b.most.k ? FULL_NEAR * cost_of(&b.most) : step;
	b = (struct best){.afford = near < step ? near : step, .full = b.full, .left = left_few(loss, line)};
	try_all(&b, loss, burst, line);
	return stays && b.most.k && !(b.fewest.k && b.fewest_left <= FEC_LEFT_MOST) ? b.most : best_of(&b);
}

static struct fec_plan plan_for(const struct fec_plan *plan, double loss, double burst, const struct fec_line *line)
{
	struct best b = {.afford = cost_most(line), .left = left_few(loss, line)};

	if (line->full)
		return step_down(plan, loss, burst, line);
	if (b.afford > 0)
		try_all(&b, loss, burst, line);
	return best_of(&b);
}

/* --- choice of the plan --- */

static void set(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_plan *to, uint64_t now_ns)
{
	if (plan->k == to->k && plan->m == to->m && plan->depth == to->depth)
		return;
	*plan = *to;
	*changed_ns = now_ns;
}

static bool fits(const struct fec_plan *p, const struct fec_line *line)
{
	return p->k * p->depth <= KEEP_ROOM * line->block_datagrams || (p->k <= K_LEAST && p->depth == 1);
}

/* The burst length to plan for. Bursts that were never seen count only in blocks that are long enough. */
static double burst_of(const struct fec_measure *m, const struct fec_line *line)
{
	double burst = fec_measure_burst(m), most = line->block_datagrams / BLOCK_BURSTS;

	if (m->bursts >= BURSTS_SEEN || burst <= most)
		return burst;
	return most > 1 ? most : 1;
}

static void update_auto(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_measure *m,
                        const struct fec_line *line, uint64_t now_ns)
{
	double loss = fec_measure_expected(m), burst = burst_of(m, line), left;
	bool may_drop = now_ns >= *changed_ns + FEC_HOLD_NS;
	struct fec_plan want;

	if (line->rtt_datagrams < (plan->k ? RTT_LEAST : RTT_BEGIN)) {
		set(plan, changed_ns, &(struct fec_plan){0}, now_ns);
		return;
	}
	if (!plan->k && (loss < FEC_ON_LOSS || line->block_datagrams < K_LEAST))
		return;
	if (plan->k && (loss < FEC_ON_LOSS / 2 || line->block_datagrams < K_LEAST / 2.0)) {
		if (may_drop)
			set(plan, changed_ns, &(struct fec_plan){0}, now_ns);
		return;
	}
	want = plan_for(plan, loss, burst, line);
	if (!plan->k || !want.k) {
		set(plan, changed_ns, &want, now_ns);
		return;
	}
	left = fec_left_over(&want, loss, burst);
	if (fits(plan, line) &&
	    fec_left_over(plan, loss, burst) <= KEEP_LEFT * (left > FEC_LEFT_FEW ? left : FEC_LEFT_FEW)) {
		bool too_much = line->full || line->load * (1 + cost_of(plan)) > fec_load_full(line->slack);

		if (!(too_much && cost_of(plan) > cost_of(&want)) &&
		    (cost_of(plan) <= KEEP_COST * cost_of(&want) || !may_drop))
			return;
	}
	set(plan, changed_ns, &want, now_ns);
}

/* k and m are configured: the least depth that leaves few enough losses, or the one that leaves fewest. */
static struct fec_plan fixed_for(const struct fec_config *c, double loss, double burst, const struct fec_line *line)
{
	struct fec_plan best = {.k = c->k, .m = c->m, .depth = 1}, p = best;
	double least = fec_left_over(&best, loss, burst);

	for (unsigned d = 1; d < sizeof(depths) && least > FEC_LEFT_FEW; d++) {
		double left;

		p.depth = depths[d];
		if (p.k * p.depth > line->block_datagrams || m_most(p.k, p.depth) < p.m)
			break;
		left = fec_left_over(&p, loss, burst);
		if (left < least / 2) {
			best = p;
			least = left;
		}
	}
	return best;
}

static void update_fixed(struct fec_plan *plan, uint64_t *changed_ns, const struct fec_config *c,
                         const struct fec_measure *m, const struct fec_line *line, uint64_t now_ns)
{
	double loss = fec_measure_loss(m), burst = fec_measure_burst(m);
	struct fec_plan want;

	if (loss < FIXED_LOSS)
		loss = FIXED_LOSS;
	want = fixed_for(c, loss, burst, line);
	if (plan->k == c->k && plan->m == c->m && fits(plan, line) &&
	    fec_left_over(plan, loss, burst) <= KEEP_LEFT * fec_left_over(&want, loss, burst) + FEC_LEFT_FEW &&
	    now_ns < *changed_ns + FEC_HOLD_NS)
		return;
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
		*plan = (struct fec_plan){0};
}
