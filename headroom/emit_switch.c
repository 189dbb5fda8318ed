/* SPDX-License-Identifier: Apache-2.0 */
/* emit_switch.c - NVUE (Cumulus Linux), Arista EOS, Cisco NX-OS.
 *
 * NVUE: NVIDIA's NVUE reference, "nv set qos pfc <profile-id>": cable-length 1 to 100000, xoff-threshold a fill of the
 * port buffer, xon-threshold a distance below it (xon_delta of qos_features.conf). Cumulus trusts 802.1p unless told
 * otherwise, and then an untagged packet has the default priority (Quality of Service, "Classification"); "qos mapping
 * <profile> trust l3" with "interface <name> qos mapping profile <profile>" trusts DSCP on one port ("Port Groups").
 *
 * EOS: "platform trident mmu queue profile", as in Arista's AVD (eos_cli_config_gen, platform_trident) and in Habana's
 * configurations for the 7060 series; ingress headroom is in bytes or in cells, as it says. The profile that is applied
 * is the chip's (AVD: platform.trident.mmu.active_profile): each port gets the headroom. RoCEv2 is routed: without "qos
 * trust dscp" a packet without a VLAN tag has the port's default priority, which does not pause.
 *
 * NX-OS: Nexus 9000 Quality of Service Configuration Guide, "Configuring Priority Flow Control": the thresholds are
 * mandatory beyond 100 m. The largest packet memory of a 9300 is that of the 9364D-GX2A, 120 MB in four slices; a port
 * uses its own slice's. */
#include <inttypes.h>

#include "headroom/emit.h"

#define NVUE_LENGTH_MAX_M 100000u
#define NXOS_SLICE_BYTES  30000000u

/* Cumulus Linux runs on Spectrum: another ASIC's limits and cells say nothing. */
static int check_spectrum(const struct report *rep, const struct headroom_asic *asic, FILE *err)
{
	const struct headroom_asic *given = rep->o->in.asic != NULL ? rep->o->in.asic : asic;

	if (given->generation > 0)
		return 0;
	options_complain(
	    err, "NVUE is for Spectrum, not for %s: choose --asic spectrum to spectrum-6 and a model that knows it",
	    given->name);
	return -1;
}

/* Of the models only some have an XON below XOFF. Without a distance each cell around the threshold makes an XOFF and
 * an XON: two frames, as in model_physics.c, unless XOFF is lower. */
static uint64_t nvue_xon(const struct report *rep)
{
	uint64_t two = 2ull * rep->o->in.port_mtu, xoff = rep->r->xoff_reserved_bytes;

	if (rep->r->xon_delta_bytes != 0)
		return rep->r->xon_delta_bytes;
	return two < xoff ? two : xoff;
}

int emit_nvue(const struct report *rep, FILE *out, FILE *err)
{
	const char *dev = rep->o->dev != NULL ? rep->o->dev : "swp1";
	const struct headroom_asic *asic = emit_asic(rep, "spectrum-4");
	const struct headroom_result *r = rep->r;

	if (emit_length_m(rep) > NVUE_LENGTH_MAX_M) {
		options_complain(err, "NVUE takes a cable length of 1 to %u m, not %" PRIu64 " m", NVUE_LENGTH_MAX_M,
		                 emit_length_m(rep));
		return -1;
	}
	if (check_spectrum(rep, asic, err) < 0 || emit_check_asic(rep, asic, err) < 0)
		return -1;
	emit_head(rep, "#", out);
	fprintf(out, "nv set qos pfc longreach switch-priority ");
	emit_priority_list(rep, out);
	fprintf(out, "\nnv set qos pfc longreach cable-length %" PRIu64 "\n", emit_length_m(rep));
	fprintf(out, "nv set qos pfc longreach tx enable\nnv set qos pfc longreach rx enable\n");
	fprintf(out, "# The switch computes its thresholds from the length. Set by hand, they are:\n");
	fprintf(out, "#   nv set qos pfc longreach port-buffer %" PRIu64 "\n", r->reserved_bytes);
	fprintf(out, "#   nv set qos pfc longreach xoff-threshold %" PRIu64 "\n", r->xoff_reserved_bytes);
	fprintf(out, "#   nv set qos pfc longreach xon-threshold %" PRIu64 "\n", nvue_xon(rep));
	fprintf(out, "nv set interface %s qos pfc profile longreach\n", dev);
	fprintf(out, "# DSCP 8 n to 8 n + 7 is switch priority n, unless a map says otherwise.\n");
	fprintf(out, "nv set qos mapping longreach trust l3\n");
	fprintf(out, "nv set interface %s qos mapping profile longreach\nnv config apply\n", dev);
	return 0;
}

/* Writes cells if their size is known: EOS rounds bytes to cells. */
static void eos_headroom(const struct report *rep, FILE *out)
{
	uint64_t bytes = rep->r->headroom_bytes, cell = rep->o->in.cell_bytes;

	if (cell == 0 && rep->o->in.asic != NULL)
		cell = rep->o->in.asic->cell_bytes;
	if (cell != 0)
		fprintf(out, "   ingress headroom cells %" PRIu64 "\n!\n", (bytes + cell - 1) / cell);
	else
		fprintf(out, "   ingress headroom bytes %" PRIu64 "\n!\n", bytes);
}

int emit_eos(const struct report *rep, FILE *out, FILE *err)
{
	const char *dev = rep->o->dev != NULL ? rep->o->dev : "Ethernet1";
	const struct headroom_asic *asic = headroom_asic_find("tomahawk-5");
	unsigned mask = emit_priorities(rep);

	if (rep->o->in.asic != NULL && rep->o->in.asic != asic) {
		options_complain(err,
		                 "EOS has `platform trident` on Broadcom's Trident and Tomahawk, not on %s: choose "
		                 "--asic tomahawk-5, or none",
		                 rep->o->in.asic->name);
		return -1;
	}
	if (!rep->o->ports_given) {
		options_complain(err,
		                 "EOS applies the profile to all ports of the chip: --ports is missing, their number, "
		                 "like --ports 64");
		return -1;
	}
	if (emit_check_asic(rep, asic, err) < 0)
		return -1;
	emit_head(rep, "!", out);
	fprintf(out,
	        "! The profile is of the chip: all %u ports get this headroom, also those that are no long lines.\n",
	        rep->o->in.ports);
	fprintf(out, "platform trident mmu queue profile LONGREACH\n");
	fprintf(out, "   ingress threshold 1\n");
	eos_headroom(rep, out);
	fprintf(out, "platform trident mmu queue profile LONGREACH apply\n!\n");
	fprintf(out, "interface %s\n   qos trust dscp\n   priority-flow-control on\n", dev);
	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++)
		if ((mask & 1u << p) != 0)
			fprintf(out, "   priority-flow-control priority %u no-drop\n", p);
	fprintf(out, "!\n");
	return 0;
}

static void nxos_queues(const struct report *rep, unsigned mask, FILE *out)
{
	fprintf(out, "policy-map type queuing LONGREACH-IN\n");
	for (unsigned p = 1; p < HEADROOM_PRIORITIES; p++)
		if ((mask & 1u << p) != 0)
			fprintf(out,
			        "  class type queuing c-in-q%u\n    pause buffer-size %" PRIu64
			        " pause-threshold %" PRIu64 " resume-threshold %" PRIu64 "\n",
			        p, rep->r->size, rep->r->xoff_fill_bytes, rep->r->xon_fill_bytes);
}

/* With resume-threshold at pause-threshold each cell around it would make an XOFF and an XON. */
static int check_nxos_resume(const struct report *rep, FILE *err)
{
	if (rep->r->xon_fill_bytes < rep->r->xoff_fill_bytes)
		return 0;
	options_complain(err,
	                 "model %s has XON at the fill of XOFF, %" PRIu64
	                 " bytes, and NX-OS needs a resume-threshold below pause-threshold: choose --model physics",
	                 headroom_model_name(rep->model), rep->r->xoff_fill_bytes);
	return -1;
}

int emit_nxos(const struct report *rep, FILE *out, FILE *err)
{
	const char *dev = rep->o->dev != NULL ? rep->o->dev : "Ethernet1/1";
	unsigned mask = emit_priorities(rep);

	if ((mask & 1u) != 0) {
		options_complain(err, "NX-OS has no pause for priority 0, its default queue: choose 1 to 7");
		return -1;
	}
	if (emit_check_buffer(rep, err) < 0 || check_nxos_resume(rep, err) < 0)
		return -1;
	if (emit_check_room(rep, rep->o->in.n_priorities * rep->r->size, NXOS_SLICE_BYTES,
	                    "a port's slice of the largest Nexus 9300 (9364D-GX2A)", err) < 0)
		return -1;
	emit_head(rep, "!", out);
	fprintf(out,
	        "! Assign traffic to these classes with a policy-map type qos (match cos or dscp, set qos-group).\n");
	fprintf(out, "policy-map type network-qos LONGREACH\n");
	for (unsigned p = 1; p < HEADROOM_PRIORITIES; p++)
		if ((mask & 1u << p) != 0)
			fprintf(out, "  class type network-qos c-8q-nq%u\n    mtu %u\n    pause pfc-cos %u\n", p,
			        rep->o->in.port_mtu, p);
	fprintf(out, "  class type network-qos c-8q-nq-default\n    mtu %u\n", rep->o->in.port_mtu);
	nxos_queues(rep, mask, out);
	fprintf(out, "system qos\n  service-policy type network-qos LONGREACH\n");
	fprintf(out,
	        "interface %s\n  priority-flow-control mode on\n  service-policy type queuing input LONGREACH-IN\n",
	        dev);
	return 0;
}
