/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - what is wrong with a port's PFC.
 *
 * Only the mlx5 driver knows the cable's length, which was configured (`delay`, in metres). Without that CABLE_LEAST_M
 * is assumed: a buffer that is too small for such a cable is too small for any. */
#include "headroom/audit.h"

#include <inttypes.h>
#include <stdio.h>

#include "headroom/emit.h"

#define CABLE_LEAST_M 5

static const char *list_of(unsigned mask, char text[32])
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < HEADROOM_PRIORITIES; i++)
		if ((mask & 1u << i) != 0)
			len += (size_t)snprintf(text + len, 32 - len, "%s%u", len > 0 ? ", " : "", i);
	return text;
}

/* Bytes that one lossless priority needs: the bytes after XOFF, and a frame before it. 0: the rate is unknown. */
static uint64_t needed_bytes(const struct audit_port *p, uint64_t length_m)
{
	char why[HEADROOM_ERROR_MAX];
	struct headroom_result r;
	struct headroom_in in;

	headroom_defaults(&in);
	in.rate_bps = p->rate_bps;
	in.length_m = length_m;
	in.port_mtu = p->mtu;
	if (p->rate_bps == 0 || headroom_compute(HEADROOM_PHYSICS, &in, &r, why) < 0)
		return 0;
	return r.headroom_bytes + p->mtu;
}

static void look_at_size(const struct audit_port *p, unsigned priority, audit_say say, void *arg)
{
	uint64_t length_m = p->delay_is_length && p->is.delay > 0 ? p->is.delay : CABLE_LEAST_M;
	uint64_t need = needed_bytes(p, length_m);
	const char *unit = p->rate_bps % 1000000000u == 0 ? "G" : "M";
	uint64_t rate = p->rate_bps / (*unit == 'G' ? 1000000000u : 1000000u);
	uint8_t buffer = p->is.prio2buffer[priority] % HEADROOM_PRIORITIES;
	char text[AUDIT_TEXT_MAX];

	if (need == 0 || p->is.buffer_size[buffer] >= need)
		return;
	snprintf(text, sizeof(text),
	         "%s: priority %u has PFC and a buffer of %" PRIu32 " bytes, and needs %" PRIu64 " (MTU %" PRIu32
	         ", %" PRIu64 "%s, %" PRIu64
	         " m of cable): frames are lost after XOFF\n`longreach headroom apply --dev %s --rate %" PRIu64
	         "%s --length %" PRIu64 "m --dry-run` shows the right size",
	         p->dev, priority, p->is.buffer_size[buffer], need, p->mtu, rate, unit, length_m, p->dev, rate, unit,
	         length_m);
	say(arg, text);
}

/* Priorities without PFC that are in a buffer with one that has it. */
static void look_at_sharing(const struct audit_port *p, audit_say say, void *arg)
{
	char text[AUDIT_TEXT_MAX], lossy[32], lossless[32];

	for (unsigned b = 0; b < HEADROOM_PRIORITIES; b++) {
		unsigned with = 0, without = 0;

		for (unsigned i = 0; i < HEADROOM_PRIORITIES; i++)
			if (p->is.prio2buffer[i] == b)
				*((p->is.pfc_en & 1u << i) != 0 ? &with : &without) |= 1u << i;
		if (with == 0 || without == 0)
			continue;
		snprintf(text, sizeof(text),
		         "%s: priority %s has PFC and shares buffer %u with %s, which has no PFC: frames without PFC "
		         "are not paused and use up the headroom\ngive each a buffer of its own with `dcb buffer set "
		         "dev %s prio-buffer`",
		         p->dev, list_of(with, lossless), b, list_of(without, lossy), p->dev);
		say(arg, text);
	}
}

static void look_at_priority(const struct audit_port *p, audit_say say, void *arg)
{
	char text[AUDIT_TEXT_MAX], has[32];

	if (p->pfc_wanted < 0 || (p->is.pfc_en & 1u << p->pfc_wanted) != 0)
		return;
	snprintf(text, sizeof(text),
	         "%s: Pfc=%d pauses hosts on priority %d, and the NIC has PFC on priority %s\nchange Pfc= in the link "
	         "file, or run `dcb pfc set dev %s prio-pfc %d:on`",
	         p->dev, p->pfc_wanted, p->pfc_wanted, list_of(p->is.pfc_en, has), p->dev, p->pfc_wanted);
	say(arg, text);
}

/* mlx5 has the priority from the VLAN tag until a DSCP is mapped; of other drivers this is not known. */
static void look_at_dscp(const struct audit_port *p, audit_say say, void *arg)
{
	unsigned first = (unsigned)__builtin_ctz(p->is.pfc_en);
	char text[AUDIT_TEXT_MAX], list[32];

	if (!p->delay_is_length || !p->is.has_app || p->is.app_priorities != 0 || p->has_vlans || first == 0)
		return;
	snprintf(
	    text, sizeof(text),
	    "%s: priority %s has PFC, and the NIC maps no DSCP to a priority: RoCE without a VLAN tag has priority 0, "
	    "and no pause is sent for it\nmap the DSCP that hosts use, like `dcb app add dev %s dscp-prio %u:%u`",
	    p->dev, list_of(p->is.pfc_en, list), p->dev, emit_dscp(first) + 2, first);
	say(arg, text);
}

void audit(const struct audit_port *p, audit_say say, void *arg)
{
	char text[AUDIT_TEXT_MAX];
	bool pfc = p->is.has_pfc && p->is.pfc_en != 0;

	if (p->pauses && (pfc || p->pfc_wanted >= 0)) {
		snprintf(text, sizeof(text),
		         "%s: 802.3x pause is on as well as PFC: it stops all priorities, ACKs and ARP among them\nrun "
		         "`ethtool -A %s autoneg off rx off tx off`, and switch 802.3x pause off at the switch",
		         p->dev, p->dev);
		say(arg, text);
	}
	if (!pfc)
		return;
	look_at_priority(p, say, arg);
	look_at_dscp(p, say, arg);
	if (!p->is.has_buffer)
		return;
	for (unsigned i = 0; i < HEADROOM_PRIORITIES; i++)
		if ((p->is.pfc_en & 1u << i) != 0)
			look_at_size(p, i, say, arg);
	look_at_sharing(p, say, arg);
}
