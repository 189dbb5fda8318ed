/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that answers in the kernel's own messages, with what drivers do: round, ignore, refuse. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/util/units.c"
#include "headroom/apply.c"

#include <linux/dcbnl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

struct driver {
	struct dcb_settings is;
	uint32_t cell;    /* sizes are rounded down to it */
	uint8_t lossless; /* bit mask of buffers */
	bool manual;      /* buffers were set once: from then on sizes are held against thresholds */
	bool no_thresholds;
	bool pauses;        /* 802.3x pause is on */
	bool forgets_delay; /* as mlx5 does with a cable of 1000 m */
	int refuses_pfc;    /* errno for a message with another pfc_en */
	int gone;           /* errno for everything */
	bool broken;        /* refuses everything after the first message that changed something */
	unsigned writes;
	char order[16]; /* 'b'uffer, 'p'fc */
	bool trusts_dscp;
};

static char *out_text, *err_text;

static size_t say_error(uint8_t *answer, uint32_t seq, int error)
{
	struct nlmsghdr h = {.nlmsg_len = 36, .nlmsg_type = NLMSG_ERROR, .nlmsg_seq = seq};

	memset(answer, 0, 36);
	memcpy(answer, &h, sizeof(h));
	memcpy(answer + sizeof(h), &error, sizeof(error));
	return 36;
}

/* The nested attribute of a set request, read with the library's own reader after it was made an answer. */
static void parse_set(const void *msg, size_t len, uint32_t seq, struct dcb_settings *s)
{
	_Alignas(4) uint8_t copy[DCB_MSG_MAX];
	uint16_t type = RTM_GETDCB;

	memcpy(copy, msg, len);
	memcpy(copy + offsetof(struct nlmsghdr, nlmsg_type), &type, sizeof(type));
	assert_int_equal(dcb_msg_read(copy, len, seq, s), 0);
}

/* update_xoff_threshold() of en/port_buffer.c at 100 Gbit/s and MTU 4200: can these buffers be lossless? */
static bool is_short(const struct driver *d, uint8_t lossless, const uint32_t *sizes)
{
	uint32_t xoff = (301u + 216u * d->is.delay / 100) * 100 + 272u * 4200 / 100;

	for (int i = 0; !d->no_thresholds && i < HEADROOM_PRIORITIES; i++)
		if ((lossless & 1u << i) != 0 && sizes[i] < xoff + 9978 + d->cell)
			return true;
	return false;
}

static uint8_t lossless_of(uint8_t pfc_en, const uint8_t *prio2buffer)
{
	uint8_t mask = 0;

	for (int p = 0; p < HEADROOM_PRIORITIES; p++)
		if ((pfc_en & 1u << p) != 0)
			mask |= (uint8_t)(1u << prio2buffer[p]);
	return mask;
}

/* mlx5e_dcbnl_ieee_setpfc(): PFC is set at once, whatever the buffers say then. */
static int take_pfc(struct driver *d, const struct dcb_settings *s)
{
	uint8_t lossless = lossless_of(s->pfc_en, d->is.prio2buffer);
	uint16_t delay = d->is.delay;
	bool changed = s->pfc_en != d->is.pfc_en, short_of = false;

	if (changed && d->refuses_pfc != 0)
		return -d->refuses_pfc;
	d->is.pfc_en = s->pfc_en;
	if (!d->forgets_delay)
		d->is.delay = s->delay;
	if (d->manual && d->is.delay != delay)
		short_of = is_short(d, d->lossless, d->is.buffer_size);
	if (d->manual && changed && !short_of)
		short_of = lossless != d->lossless && is_short(d, lossless, d->is.buffer_size);
	if (short_of) {
		d->is.delay = delay;
		return -ENOMEM;
	}
	d->lossless = lossless;
	return 0;
}

/* mlx5e_port_manual_buffer_config(): the map comes first, over the old sizes. */
static int take_buffers(struct driver *d, const struct dcb_settings *s)
{
	uint8_t lossless = lossless_of(d->pauses ? 0xff : d->is.pfc_en, s->prio2buffer);
	uint64_t sum = 0;

	if (memcmp(s->prio2buffer, d->is.prio2buffer, sizeof(s->prio2buffer)) == 0)
		lossless = d->lossless;
	if (lossless != d->lossless && is_short(d, lossless, d->is.buffer_size))
		return -ENOMEM;
	for (int i = 0; i < HEADROOM_PRIORITIES; i++)
		sum += s->buffer_size[i];
	if (sum > d->is.total_size)
		return -EINVAL;
	if (is_short(d, lossless, s->buffer_size))
		return -ENOMEM;
	d->manual = true;
	d->lossless = lossless;
	memcpy(d->is.prio2buffer, s->prio2buffer, sizeof(s->prio2buffer));
	for (int i = 0; i < HEADROOM_PRIORITIES; i++)
		d->is.buffer_size[i] = s->buffer_size[i] / d->cell * d->cell;
	return 0;
}

static int take(struct driver *d, const struct dcb_settings *s)
{
	int r = s->has_pfc ? take_pfc(d, s) : 0;

	if (r == 0 && s->has_buffer)
		r = take_buffers(d, s);
	if (r == 0)
		d->order[d->writes++] = s->has_buffer ? 'b' : 'p';
	return r;
}

/* PFC was on before, by another program. */
static void pause_before(struct driver *d, uint8_t pfc_en)
{
	d->is.pfc_en = pfc_en;
	d->lossless = lossless_of(pfc_en, d->is.prio2buffer);
}

static void add_attr(uint8_t *msg, uint32_t *len, uint16_t type, const void *data, size_t size)
{
	struct nlattr a = {.nla_len = (uint16_t)(sizeof(a) + size), .nla_type = type};

	memcpy(msg + *len, &a, sizeof(a));
	memcpy(msg + *len + sizeof(a), data, size);
	*len += (uint32_t)(sizeof(a) + size);
}

/* Appends DCB_ATTR_IEEE_APP_TABLE, with an entry of another selector, to the answer's DCB_ATTR_IEEE, the last one. */
static int add_app_table(uint8_t *msg, int n, uint8_t priorities)
{
	struct dcb_app other = {.selector = IEEE_8021QAZ_APP_SEL_DGRAM, .priority = 3, .protocol = 4791};
	uint32_t len = (uint32_t)n, at = 16 + 4 + 12; /* headers, DCB_ATTR_IFNAME of "eth0" */
	uint8_t entries[9 * 8];
	struct nlattr nest;
	uint32_t size = 0;

	add_attr(entries, &size, DCB_ATTR_IEEE_APP, &other, sizeof(other));
	for (uint8_t p = 0; p < HEADROOM_PRIORITIES; p++) {
		struct dcb_app app = {
		    .selector = IEEE_8021QAZ_APP_SEL_DSCP, .priority = p, .protocol = (uint16_t)(8 * p)};

		if ((priorities & 1u << p) != 0)
			add_attr(entries, &size, DCB_ATTR_IEEE_APP, &app, sizeof(app));
	}
	add_attr(msg, &len, DCB_ATTR_IEEE_APP_TABLE, entries, size);
	memcpy(&nest, msg + at, sizeof(nest));
	nest.nla_len = (uint16_t)(len - at);
	memcpy(msg + at, &nest, sizeof(nest));
	memcpy(msg, &len, sizeof(len));
	return (int)len;
}

static int ask_driver(void *arg, const void *msg, size_t len, uint32_t seq, void *answer)
{
	struct driver *d = arg;
	struct dcb_settings s;
	struct nlmsghdr h;
	uint16_t type = RTM_GETDCB;
	int n;

	memcpy(&h, msg, sizeof(h));
	assert_int_equal(h.nlmsg_seq, seq);
	if (d->gone != 0)
		return (int)say_error(answer, seq, -d->gone);
	if (h.nlmsg_type == RTM_SETDCB) {
		parse_set(msg, len, seq, &s);
		if (d->broken && d->writes > 0)
			return (int)say_error(answer, seq, -EIO);
		return (int)say_error(answer, seq, take(d, &s));
	}
	n = dcb_msg_set(answer, "eth0", seq, &d->is);
	memcpy((uint8_t *)answer + offsetof(struct nlmsghdr, nlmsg_type), &type, sizeof(type));
	return d->is.has_app ? add_app_table(answer, n, d->is.app_priorities) : n;
}

static struct driver mlx5_like(void)
{
	return (struct driver){.is = {.has_pfc = true,
	                              .has_buffer = true,
	                              .pfc_cap = 8,
	                              .delay = 7,
	                              .buffer_size = {262016},
	                              .total_size = 262016},
	                       .cell = 128};
}

static unsigned n_priorities = 2; /* 3, or 3 and 4 */

static enum apply_result run(struct driver *d, enum headroom_model model, uint64_t length_m, bool dry_run)
{
	struct options o = {.model = model, .dev = "eth0", .dry_run = dry_run};
	struct dcb_talk talk = {.ask = ask_driver, .arg = d, .pauses = d->pauses, .trusts_dscp = d->trusts_dscp};
	enum apply_result result;
	struct report rep;
	size_t size;
	FILE *out, *err;

	free(out_text);
	free(err_text);
	out = open_memstream(&out_text, &size);
	err = open_memstream(&err_text, &size);
	headroom_defaults(&o.in);
	o.in.length_m = length_m;
	o.in.rate_bps = 100000000000;
	o.in.port_mtu = 4200;
	o.in.n_priorities = n_priorities;
	assert_int_equal(report_work_out(&o, &rep, err), 0);
	result = apply(&rep, &talk, out, err);
	fclose(out);
	fclose(err);
	return result;
}

static void says(const char *text, const char *what)
{
	if (strstr(text, what) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", text, what);
}

static void apply__writes_and_reads_back(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_DONE);
	assert_int_equal(d.is.pfc_en, 0x18);
	assert_int_equal(d.is.delay, 40);
	assert_int_equal(d.is.prio2buffer[3], 1);
	assert_int_equal(d.is.prio2buffer[4], 2);
	assert_int_equal(d.is.buffer_size[0], 57600); /* what the port has left */
	/* (301 + 86) x 100 + 11424 = 50124, twice, up to a multiple of 2304 */
	assert_int_equal(d.is.buffer_size[1], 101376);
	assert_int_equal(d.is.buffer_size[2], 101376);
	assert_string_equal(d.order, "bp");
	says(out_text, "none -> 3,4");
	says(out_text, "7 -> 40");
	says(out_text, "down for a moment");
	says(out_text, "read back");
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_DONE);
	says(out_text, "already");
	assert_int_equal(d.writes, 2);
}

static void apply__notes_that_no_packet_has_the_priority(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, true), APPLY_DONE);
	assert_null(strstr(err_text, "DSCP")); /* the driver does not tell */
	d.is.has_app = true;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, true), APPLY_DONE);
	says(err_text, "maps no DSCP to a priority");
	says(err_text, "PFC on 3,4 does nothing");
	says(err_text, "dcb app add dev eth0 dscp-prio 26:3");
	d.is.app_priorities = 1 << 4; /* the driver maps the others by itself */
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, true), APPLY_DONE);
	assert_null(strstr(err_text, "DSCP"));
	d.is.app_priorities = 0;
	d.trusts_dscp = true;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, true), APPLY_DONE);
	assert_null(strstr(err_text, "DSCP"));
}

static void apply__no_word_of_the_link_if_pfc_stays(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_DONE);
	assert_int_equal(run(&d, HEADROOM_MLX5, 41, false), APPLY_DONE); /* the same sizes */
	assert_null(strstr(out_text, "down for a moment"));
	assert_int_equal(d.is.delay, 41);
	assert_string_equal(d.order, "bpp");
}

/* The driver applies the new map to the old sizes: with PFC on it has no memory. */
static void apply__a_port_that_pauses_already(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	pause_before(&d, 0x18);
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_DONE);
	says(out_text, "PFC of priorities 3,4 is off while their buffers change");
	says(out_text, "down for a moment");
	assert_string_equal(d.order, "pbp");
	assert_int_equal(d.is.pfc_en, 0x18);
	assert_int_equal(d.is.buffer_size[2], 101376);

	d = mlx5_like();
	pause_before(&d, 0x20); /* the other loses PFC */
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_DONE);
	assert_null(strstr(out_text, "is off while"));
	assert_int_equal(d.is.pfc_en, 0x18);
}

/* It is restored in such an order, too. */
static void apply__a_port_that_pauses_is_rolled_back(void **state)
{
	struct driver d = mlx5_like(), before;

	(void)state;
	pause_before(&d, 0x18);
	d.forgets_delay = true;
	before = d;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_ROLLED_BACK);
	assert_memory_equal(&d.is, &before.is, sizeof(before.is));
}

static void apply__802_3x_pause_is_refused(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	d.pauses = true;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_REFUSED);
	assert_int_equal(d.writes, 0);
	says(err_text, "802.3x pause is on");
	says(err_text, "ethtool -A eth0 autoneg off rx off tx off");
}

static void apply__every_known_cell_holds_what_was_worked_out(void **state)
{
	static const uint32_t cells[] = {96, 128, 144, 192, 256};

	(void)state;
	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
		struct driver d = mlx5_like();

		d.cell = cells[i];
		d.is.total_size = 1 << 20;
		d.is.buffer_size[0] = 20 * 2304;
		assert_int_equal(run(&d, HEADROOM_MLX5, 123, false), APPLY_DONE);
	}
}

static void has_sizes(const struct driver *d, uint32_t lossy, uint32_t one, uint32_t two)
{
	assert_int_equal(d->is.buffer_size[0], lossy);
	assert_int_equal(d->is.buffer_size[1], one);
	assert_int_equal(d->is.buffer_size[2], two);
	for (int i = 3; i < HEADROOM_PRIORITIES; i++)
		assert_int_equal(d->is.buffer_size[i], 0);
}

/* What was set before leaves nothing behind. */
static void apply__the_same_from_any_state(void **state)
{
	struct driver d = mlx5_like(), fresh = mlx5_like();

	(void)state;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_DONE);
	has_sizes(&d, 57600, 101376, 101376);
	n_priorities = 1; /* priority 4 leaves its buffer */
	assert_int_equal(run(&d, HEADROOM_MLX5, 300, false), APPLY_DONE);
	has_sizes(&d, 46080, 214272, 0);
	assert_int_equal(run(&d, HEADROOM_MLX5, 5, false), APPLY_DONE); /* a shorter cable */
	assert_int_equal(run(&fresh, HEADROOM_MLX5, 5, false), APPLY_DONE);
	has_sizes(&fresh, 175104, 85248, 0);
	has_sizes(&d, 175104, 85248, 0);
	d.is.buffer_size[0] = 0; /* its priorities had no buffer */
	d.is.buffer_size[7] = 20736;
	assert_int_equal(run(&d, HEADROOM_MLX5, 5, false), APPLY_DONE);
	has_sizes(&d, 175104, 85248, 0);
	n_priorities = 2;
}

/* Two lossless buffers of a 300 m cable and 18432 bytes for the others are more than a port has. */
static void apply__buffers_larger_than_the_port_are_refused(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	assert_int_equal(run(&d, HEADROOM_MLX5, 300, false), APPLY_REFUSED);
	assert_int_equal(d.writes, 0);
	says(err_text, "the port has 262016");
	says(err_text, "fewer priorities");
}

static void apply__dry_run_changes_nothing(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, true), APPLY_DONE);
	assert_int_equal(d.writes, 0);
	says(out_text, "none -> 3,4");
	says(out_text, "--dry-run");
}

static void rolled_back(struct driver *d, const char *because)
{
	struct dcb_settings before = d->is;

	assert_int_equal(run(d, HEADROOM_MLX5, 40, false), APPLY_ROLLED_BACK);
	assert_memory_equal(&d->is, &before, sizeof(before));
	says(err_text, because);
	says(err_text, "has its former settings again");
}

static void apply__what_the_driver_does_not_keep_is_rolled_back(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	d.forgets_delay = true;
	rolled_back(&d, "its delay");
	d = mlx5_like();
	d.cell = 131008; /* takes sizes, and keeps none of ours */
	d.no_thresholds = true;
	rolled_back(&d, "the size of a buffer");
}

static void apply__what_the_driver_refuses_is_rolled_back(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	d.refuses_pfc = ENOMEM;
	rolled_back(&d, strerror(ENOMEM));
	assert_string_equal(d.order, "bb");
}

static void apply__says_so_if_it_cannot_be_put_back(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	d.broken = true;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_HALF);
	says(err_text, "could not be given its former settings again");
}

static void apply__without_dcb(void **state)
{
	static const struct {
		int error;
		const char *text;
	} cases[] = {{EOPNOTSUPP, "has no DCB"}, {ENODEV, "no such interface"}, {EPERM, "CAP_NET_ADMIN"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct driver d = mlx5_like();

		d.gone = cases[i].error;
		assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_REFUSED);
		says(err_text, cases[i].text);
	}
}

static void apply__what_the_port_cannot_do(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	d.is.pfc_cap = 1;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_REFUSED);
	says(err_text, "can pause at most 1");
	d = mlx5_like();
	d.is.has_pfc = false;
	assert_int_equal(run(&d, HEADROOM_MLX5, 40, false), APPLY_REFUSED);
	says(err_text, "does not report its PFC");
	assert_int_equal(d.writes, 0);
}

/* Models whose headroom is in a switch's pool have no buffer for a port of their own. */
static void apply__a_buffer_without_headroom_is_refused(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	assert_int_equal(run(&d, HEADROOM_SONIC_BROADCOM, 40, false), APPLY_REFUSED);
	says(err_text, "without the headroom");
	assert_int_equal(d.writes, 0);
}

/* A driver without buffers to set gets PFC alone; bits that do not fit leave the delay as it is. */
static void apply__pfc_alone(void **state)
{
	struct driver d = mlx5_like();

	(void)state;
	d.is.has_buffer = false;
	assert_int_equal(run(&d, HEADROOM_PHYSICS, 300000, false), APPLY_DONE);
	assert_string_equal(d.order, "p");
	assert_int_equal(d.is.pfc_en, 0x18);
	assert_int_equal(d.is.delay, 7);
	says(err_text, "the delay stays 7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(apply__writes_and_reads_back),
	    cmocka_unit_test(apply__notes_that_no_packet_has_the_priority),
	    cmocka_unit_test(apply__no_word_of_the_link_if_pfc_stays),
	    cmocka_unit_test(apply__a_port_that_pauses_already),
	    cmocka_unit_test(apply__a_port_that_pauses_is_rolled_back),
	    cmocka_unit_test(apply__802_3x_pause_is_refused),
	    cmocka_unit_test(apply__every_known_cell_holds_what_was_worked_out),
	    cmocka_unit_test(apply__the_same_from_any_state),
	    cmocka_unit_test(apply__buffers_larger_than_the_port_are_refused),
	    cmocka_unit_test(apply__dry_run_changes_nothing),
	    cmocka_unit_test(apply__what_the_driver_does_not_keep_is_rolled_back),
	    cmocka_unit_test(apply__what_the_driver_refuses_is_rolled_back),
	    cmocka_unit_test(apply__says_so_if_it_cannot_be_put_back),
	    cmocka_unit_test(apply__without_dcb),
	    cmocka_unit_test(apply__what_the_port_cannot_do),
	    cmocka_unit_test(apply__a_buffer_without_headroom_is_refused),
	    cmocka_unit_test(apply__pfc_alone),
	};

	return cmocka_run_group_tests_name("headroom_apply", tests, NULL, NULL);
}
