/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c - read, compare, write, read back, put back.
 *
 * Buffers go before PFC: the mlx5 driver refuses to make a buffer lossless that is too small for its threshold. It
 * applies a new map to the old sizes, and new sizes with the old delay (en/port_buffer.c,
 * mlx5e_port_manual_buffer_config): PFC of priorities whose buffer changes is off meanwhile. 802.3x pause makes all
 * buffers lossless there, and is refused.
 *
 * All buffers together must not exceed the port's memory: the lossy priorities' buffer 0, which has all of it at first,
 * gets the rest. The same settings follow from any state. Sizes are asked for in multiples of DCB_CELLS_BYTES, because
 * that driver rounds down to whole cells and would give less than computed. */
#include "headroom/apply.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "headroom/emit.h"

#define DELAY_MAX 65535u /* 16 bits */

struct job {
	const struct dcb_talk *talk;
	const char *dev;
	uint32_t seq;
	FILE *out, *err;
};

/* --- talking --- */

static int read_port(struct job *j, struct dcb_settings *s)
{
	_Alignas(4) uint8_t msg[DCB_MSG_MAX], answer[DCB_ANSWER_MAX];
	int n = dcb_msg_get(msg, j->dev, ++j->seq);

	if (n > 0)
		n = j->talk->ask(j->talk->arg, msg, (size_t)n, j->seq, answer);
	return n < 0 ? n : dcb_msg_read(answer, (size_t)n, j->seq, s);
}

int apply_read(const struct dcb_talk *talk, const char *dev, struct dcb_settings *is)
{
	struct job j = {.talk = talk, .dev = dev};

	return read_port(&j, is);
}

static int write_some(struct job *j, const struct dcb_settings *s)
{
	_Alignas(4) uint8_t msg[DCB_MSG_MAX], answer[DCB_ANSWER_MAX];
	int n = dcb_msg_set(msg, j->dev, ++j->seq, s);

	if (n > 0)
		n = j->talk->ask(j->talk->arg, msg, (size_t)n, j->seq, answer);
	return n < 0 ? n : dcb_msg_acked(answer, (size_t)n, j->seq);
}

static int write_buffers(struct job *j, const struct dcb_settings *s)
{
	struct dcb_settings one = *s;

	one.has_pfc = false;
	return write_some(j, &one);
}

static int write_pfc(struct job *j, const struct dcb_settings *s)
{
	struct dcb_settings one = *s;

	one.has_buffer = false;
	return write_some(j, &one);
}

/* Priorities whose PFC must be off while the buffers change: they move, their buffer's size changes, or they lose PFC.
 */
static unsigned unsettled(const struct dcb_settings *from, const struct dcb_settings *to)
{
	unsigned mask = from->pfc_en & ~(unsigned)to->pfc_en;

	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++) {
		uint8_t buffer = to->prio2buffer[p] % HEADROOM_PRIORITIES;

		if (from->prio2buffer[p] != to->prio2buffer[p] || from->buffer_size[buffer] != to->buffer_size[buffer])
			mask |= 1u << p;
	}
	return mask & from->pfc_en;
}

/* Writes what differs between the two, in an order that the driver takes. */
static int write_change(struct job *j, const struct dcb_settings *from, const struct dcb_settings *to, bool buffers)
{
	struct dcb_settings meanwhile = *from;
	int r = 0;

	if (buffers) {
		meanwhile.pfc_en = (uint8_t)(from->pfc_en & ~unsettled(from, to));
		if (meanwhile.pfc_en != from->pfc_en)
			r = write_pfc(j, &meanwhile);
		if (r == 0)
			r = write_buffers(j, to);
	}
	if (r == 0 && (meanwhile.pfc_en != to->pfc_en || meanwhile.delay != to->delay))
		r = write_pfc(j, to);
	return r;
}

/* --- what is wanted --- */

/* tool.c takes these models for ports of this driver, and no other. */
static bool is_mlx5(const struct report *rep)
{
	return rep->model == HEADROOM_MLX5 || rep->model == HEADROOM_MLX5_NEXT;
}

static void want_delay(const struct report *rep, struct dcb_settings *want, FILE *err)
{
	uint64_t bits = rep->r->headroom_bytes * 8;

	if (is_mlx5(rep)) {
		want->delay = (uint16_t)emit_length_m(rep); /* the model took it: 1 to 1000 */
		return;
	}
	if (bits <= DELAY_MAX)
		want->delay = (uint16_t)bits;
	else
		options_complain(err, "note: the delay stays %u: %" PRIu64 " bits exceed its 16-bit field", want->delay,
		                 bits);
}

/* A driver that does not tell the port's size checks it itself, and buffer 0 stays. */
static int want_buffers(const struct report *rep, unsigned mask, struct dcb_settings *want, FILE *err)
{
	uint64_t sizes[HEADROOM_PRIORITIES], total = want->total_size, needed;

	if (rep->r->size > UINT32_MAX - DCB_CELLS_BYTES) {
		options_complain(err, "a buffer of %" PRIu64 " bytes exceeds the 32-bit size field", rep->r->size);
		return -1;
	}
	if (mask == 0xff) {
		options_complain(err, "all eight priorities are lossless: no buffer is left for the others");
		return -1;
	}
	if (emit_check_buffer(rep, err) < 0)
		return -1;
	needed = emit_buffer_sizes(rep, rep->r->size, total, sizes);
	if (total != 0 && needed > total) {
		options_complain(err,
		                 "%s: %u lossless buffers of %" PRIu64
		                 " bytes and the least one for the others take %" PRIu64 ", and the port has %" PRIu64
		                 ": choose fewer priorities or a smaller --buffer, or end PFC at the edge",
		                 rep->o->dev, rep->o->in.n_priorities, sizes[1], needed, total);
		return -1;
	}
	for (unsigned i = 0; i < HEADROOM_PRIORITIES; i++) {
		want->prio2buffer[i] = (uint8_t)emit_buffer_of(mask, i);
		if (i > 0 || total != 0)
			want->buffer_size[i] = (uint32_t)sizes[i];
	}
	return 0;
}

int apply_want(const struct report *rep, const struct dcb_settings *is, struct dcb_settings *want, FILE *err)
{
	unsigned mask = emit_priorities(rep), n = (unsigned)__builtin_popcount(mask);

	*want = *is;
	if (!is->has_pfc) {
		options_complain(err, "%s: its driver does not report its PFC settings: apply can change nothing",
		                 rep->o->dev);
		return -1;
	}
	if (n > is->pfc_cap) {
		options_complain(err, "%s: can pause at most %u priorities, not %u", rep->o->dev, is->pfc_cap, n);
		return -1;
	}
	want->pfc_en = (uint8_t)mask;
	want_delay(rep, want, err);
	if (is->has_buffer)
		return want_buffers(rep, mask, want, err);
	options_complain(err, "note: %s: its driver sets the buffers itself", rep->o->dev);
	return 0;
}

/* --- what is said --- */

static const char *mask_text(unsigned mask, char text[32])
{
	size_t len = 0;

	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++)
		if ((mask & 1u << p) != 0)
			len += (size_t)snprintf(text + len, 32 - len, "%s%u", len > 0 ? "," : "", p);
	return len > 0 ? text : "none";
}

static const char *map_text(const uint8_t map[HEADROOM_PRIORITIES], char text[64])
{
	size_t len = 0;

	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++)
		len += (size_t)snprintf(text + len, 64 - len, "%s%u", p > 0 ? "," : "", map[p]);
	return text;
}

static void show_difference(const struct job *j, const struct dcb_settings *is, const struct dcb_settings *want,
                            unsigned diff)
{
	char a[64], b[64];

	if ((diff & DCB_DIFF_PRIO2BUFFER) != 0)
		fprintf(j->out, "  buffer of priorities 0..7  %s -> %s\n", map_text(is->prio2buffer, a),
		        map_text(want->prio2buffer, b));
	for (unsigned i = 0; (diff & DCB_DIFF_BUFFER_SIZE) != 0 && i < HEADROOM_PRIORITIES; i++)
		if (is->buffer_size[i] != want->buffer_size[i])
			fprintf(j->out, "  size of buffer %u           %" PRIu32 " -> %" PRIu32 " bytes\n", i,
			        is->buffer_size[i], want->buffer_size[i]);
	if ((diff & DCB_DIFF_DELAY) != 0)
		fprintf(j->out, "  delay                      %u -> %u\n", is->delay, want->delay);
	if ((diff & DCB_DIFF_PFC_EN) != 0)
		fprintf(j->out, "  priorities with PFC        %s -> %s\n", mask_text(is->pfc_en, a),
		        mask_text(want->pfc_en, b));
}

static const char *named(unsigned diff)
{
	return (diff & DCB_DIFF_PFC_EN) != 0        ? "its priorities with PFC"
	       : (diff & DCB_DIFF_DELAY) != 0       ? "its delay"
	       : (diff & DCB_DIFF_PRIO2BUFFER) != 0 ? "the buffers of its priorities"
	                                            : "the size of a buffer";
}

/* `r` is what the kernel answered, or -EBADMSG. */
static enum apply_result refused(struct job *j, int r, const char *doing)
{
	if (r == -EOPNOTSUPP)
		options_complain(j->err,
		                 "%s: has no DCB: its driver takes neither PFC nor buffers; use --emit for the switch "
		                 "port at the other end of its cable",
		                 j->dev);
	else if (r == -ENODEV)
		options_complain(j->err, "%s: no such interface", j->dev);
	else if (r == -EPERM)
		options_complain(j->err, "%s: %s: not allowed: run it as root (CAP_NET_ADMIN)", j->dev, doing);
	else if (r == -EBADMSG)
		options_complain(j->err, "%s: %s: cannot read the kernel's answer", j->dev, doing);
	else
		options_complain(j->err, "%s: %s: %s", j->dev, doing, strerror(-r));
	return APPLY_REFUSED;
}

/* As long as no DSCP is mapped, mlx5 has the priority from the VLAN tag; afterwards it maps the other DSCPs by itself.
 */
static void note_priorities(const struct report *rep, const struct job *j, const struct dcb_settings *is, unsigned mask)
{
	unsigned p = (unsigned)__builtin_ctz(mask);
	char text[32];

	if (!is_mlx5(rep) || !is->has_app || is->app_priorities != 0 || j->talk->trusts_dscp || p == 0)
		return;
	options_complain(
	    j->err,
	    "note: %s: maps no DSCP to a priority: RoCE without a VLAN tag has priority 0, and PFC on %s does nothing "
	    "for it: map the DSCP that hosts use, like `dcb app add dev %s dscp-prio %u:%u`",
	    j->dev, mask_text(mask, text), j->dev, emit_dscp(p) + 2, p);
}

/* --- changing it --- */

static bool has_buffers_of(const struct dcb_settings *before, const struct dcb_settings *now)
{
	return memcmp(before->prio2buffer, now->prio2buffer, sizeof(now->prio2buffer)) == 0 &&
	       memcmp(before->buffer_size, now->buffer_size, sizeof(now->buffer_size)) == 0;
}

static enum apply_result put_back(struct job *j, const struct dcb_settings *before)
{
	struct dcb_settings now;
	int r = read_port(j, &now);

	if (r == 0)
		r = write_change(j, &now, before, before->has_buffer && !has_buffers_of(before, &now));
	if (r == 0)
		r = read_port(j, &now);
	if (r == 0 && dcb_compare(before, &now) == 0 && has_buffers_of(before, &now)) {
		options_complain(j->err, "%s: has its former settings again", j->dev);
		return APPLY_ROLLED_BACK;
	}
	options_complain(
	    j->err,
	    "%s: could not be given its former settings again (%s): examine it with dcb pfc show and dcb buffer show",
	    j->dev, r < 0 ? strerror(-r) : named(dcb_compare(before, &now)));
	return APPLY_HALF;
}

static enum apply_result change(struct job *j, const struct dcb_settings *is, const struct dcb_settings *want,
                                unsigned diff)
{
	struct dcb_settings now;
	int r = write_change(j, is, want, (diff & DCB_DIFF_BUFFERS) != 0);

	if (r < 0) {
		refused(j, r, "writing");
		return put_back(j, is);
	}
	r = read_port(j, &now);
	if (r < 0) {
		refused(j, r, "reading back");
		return put_back(j, is);
	}
	diff = dcb_compare(want, &now);
	if (diff != 0) {
		options_complain(j->err, "%s: the driver took the settings and did not keep %s", j->dev, named(diff));
		show_difference(j, want, &now, diff);
		return put_back(j, is);
	}
	fprintf(j->out, "%s: applied, and read back\n", j->dev);
	return APPLY_DONE;
}

/* What the change does to traffic. */
static void show_effect(const struct job *j, const struct dcb_settings *is, const struct dcb_settings *want,
                        unsigned diff)
{
	unsigned off = (diff & DCB_DIFF_BUFFERS) != 0 ? unsettled(is, want) & want->pfc_en : 0;
	char text[32];

	if (off != 0)
		fprintf(j->out, "  PFC of priorities %s is off while their buffers change: frames can be lost.\n",
		        mask_text(off, text));
	if (off != 0 || (diff & DCB_DIFF_PFC_EN) != 0)
		fprintf(j->out, "  A change of PFC takes some links (mlx5) down for a moment.\n");
}

static int check_pause(const struct job *j)
{
	if (!j->talk->pauses)
		return 0;
	options_complain(
	    j->err,
	    "%s: 802.3x pause is on: it stops all priorities, ACKs and ARP among them, and makes all buffers "
	    "lossless: run `ethtool -A %s autoneg off rx off tx off`, and switch 802.3x pause off at the switch",
	    j->dev, j->dev);
	return -1;
}

enum apply_result apply(const struct report *rep, const struct dcb_talk *talk, FILE *out, FILE *err)
{
	struct job j = {.talk = talk, .dev = rep->o->dev, .out = out, .err = err};
	struct dcb_settings is, want;
	unsigned diff;
	int r = read_port(&j, &is);

	if (r < 0)
		return refused(&j, r, "reading");
	if (check_pause(&j) < 0 || apply_want(rep, &is, &want, err) < 0)
		return APPLY_REFUSED;
	note_priorities(rep, &j, &is, want.pfc_en);
	diff = dcb_compare(&want, &is);
	if (diff == 0) {
		fprintf(out, "%s: has these settings already (model %s)\n", j.dev, headroom_model_name(rep->model));
		return APPLY_DONE;
	}
	fprintf(out, "%s, model %s:\n", j.dev, headroom_model_name(rep->model));
	show_difference(&j, &is, &want, diff);
	show_effect(&j, &is, &want, diff);
	if (rep->o->dry_run) {
		fprintf(out, "%s: not changed (--dry-run)\n", j.dev);
		return APPLY_DONE;
	}
	return change(&j, &is, &want, diff);
}
