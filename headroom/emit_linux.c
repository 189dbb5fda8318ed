/* SPDX-License-Identifier: Apache-2.0 */
/* emit_linux.c - dcb(8) of iproute2, and mlnx_qos of NVIDIA's mlnx-tools.
 *
 * dcb-buffer(8), dcb-pfc(8): prio-buffer, buffer-size, prio-pfc, delay; dcb of iproute2 6.1 takes the output as it is.
 * Documented as bits, the delay is a cable length in metres for mlx5, which ignores what is not 1 to 999; it has 16
 * bits, too few for bits at today's rates.
 *
 * mlnx_qos --help: --pfc, --prio2buffer, --buffer_size, each a list for all eight; --cable_len, 16 bits. In mlnx-tools'
 * python/mlnx_qos --pfc without --cable_len sets the length to 0, and --cable_len without --pfc turns PFC off: they
 * stand in one command. --trust=dscp maps DSCP 8 n to 8 n + 7 to priority n.
 *
 * ConnectX has the priority from the VLAN tag until the first DSCP is mapped (mlx5 en_dcbnl.c,
 * mlx5e_dcbnl_ieee_setapp): without dcb-app(8) or --trust RoCE without a tag has priority 0.
 *
 * mlx5 ports have 262016 bytes for all buffers (`dcb buffer show`), and the driver refuses more;
 * the lossy priorities' buffer, which has all of it at first, must shrink in the same command. PFC is off while the
 * buffers change, as in apply.c, and a command that fails ends the sequence: PFC over other buffers loses frames. */
#include <inttypes.h>

#include "headroom/dcb_msg.h"
#include "headroom/emit.h"

#define DELAY_BITS_MAX  65535u
#define PORT_BUFFER     262016u
#define LOSSY_MTUS      2u
#define LOSSY_MTU_LEAST 9216u

static bool is_mlx5(const struct report *rep)
{
	return rep->model == HEADROOM_MLX5 || rep->model == HEADROOM_MLX5_NEXT;
}

unsigned emit_buffer_of(unsigned mask, unsigned priority)
{
	if ((mask & 1u << priority) == 0)
		return 0;
	return (unsigned)__builtin_popcount(mask & ((2u << priority) - 1));
}

static int check_buffers(unsigned mask, FILE *err)
{
	if (mask != 0xff)
		return 0;
	options_complain(err, "all eight priorities are lossless: no buffer is left for the others");
	return -1;
}

static uint64_t lossy_bytes(const struct report *rep)
{
	uint32_t mtu = rep->o->in.port_mtu;

	return LOSSY_MTUS * (uint64_t)(mtu > LOSSY_MTU_LEAST ? mtu : LOSSY_MTU_LEAST);
}

static uint64_t in_cells(uint64_t bytes)
{
	return (bytes + DCB_CELLS_BYTES - 1) / DCB_CELLS_BYTES * DCB_CELLS_BYTES;
}

uint64_t emit_buffer_sizes(const struct report *rep, uint64_t each, uint64_t total, uint64_t sizes[HEADROOM_PRIORITIES])
{
	unsigned n = rep->o->in.n_priorities;
	uint64_t lossless = n * in_cells(each), least = lossless + in_cells(lossy_bytes(rep));

	for (unsigned b = 1; b < HEADROOM_PRIORITIES; b++)
		sizes[b] = b <= n ? in_cells(each) : 0;
	sizes[0] = total >= least ? (total - lossless) / DCB_CELLS_BYTES * DCB_CELLS_BYTES : 0;
	return least;
}

/* The same sizes as apply's. 0, or -1 after a message that the port has no room for them. */
static int share_buffer(const struct report *rep, uint64_t each, uint64_t sizes[HEADROOM_PRIORITIES], FILE *err)
{
	uint64_t total = rep->o->port_buffer_bytes != 0 ? rep->o->port_buffer_bytes : PORT_BUFFER;

	return emit_check_room(rep, emit_buffer_sizes(rep, each, total, sizes), PORT_BUFFER, "a port of ConnectX", err);
}

static void no_pause(const char *dev, FILE *out)
{
	fprintf(out,
	        "# 802.3x pause makes all buffers lossless: before this, ethtool -A %s autoneg off rx off tx off\n",
	        dev);
}

/* The eight DSCPs of each lossless priority. */
static void dcb_app(const char *dev, unsigned mask, FILE *out)
{
	fprintf(out, "# Packets have these priorities by their DSCP. Change the DSCPs if hosts use others.\n");
	fprintf(out, "dcb app add dev %s dscp-prio", dev);
	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++)
		for (unsigned i = 0; (mask & 1u << p) != 0 && i < 8; i++)
			fprintf(out, " %u:%u", emit_dscp(p) + i, p);
	fputc('\n', out);
}

int emit_dcb(const struct report *rep, FILE *out, FILE *err)
{
	const char *dev = rep->o->dev != NULL ? rep->o->dev : "eth0";
	uint64_t bits = rep->r->headroom_bytes * 8, delay = is_mlx5(rep) ? emit_length_m(rep) : bits;
	unsigned mask = emit_priorities(rep);
	uint64_t sizes[HEADROOM_PRIORITIES];

	if (check_buffers(mask, err) < 0 || emit_check_buffer(rep, err) < 0 ||
	    share_buffer(rep, rep->r->size, sizes, err) < 0)
		return -1;
	emit_head(rep, "#", out);
	no_pause(dev, out);
	fprintf(out, "# A change of prio-pfc takes some links (mlx5) down for a moment.\n");
	fprintf(out, "dcb pfc set dev %s prio-pfc all:off &&\n", dev);
	fprintf(out, "dcb buffer set dev %s prio-buffer all:0", dev);
	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++)
		if (emit_buffer_of(mask, p) != 0)
			fprintf(out, " %u:%u", p, emit_buffer_of(mask, p));
	fprintf(out, " buffer-size all:0");
	for (unsigned b = 0; b <= rep->o->in.n_priorities; b++)
		fprintf(out, " %u:%" PRIu64, b, sizes[b]);
	fprintf(out, " &&\ndcb pfc set dev %s prio-pfc all:off", dev);
	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++)
		if ((mask & 1u << p) != 0)
			fprintf(out, " %u:on", p);
	if (delay <= DELAY_BITS_MAX)
		fprintf(out, " delay %" PRIu64 "\n", delay);
	else
		fprintf(out, "\n# no delay: %" PRIu64 " bits exceed its 16-bit field\n", bits);
	dcb_app(dev, mask, out);
	fprintf(out, "dcb buffer show dev %s\ndcb pfc show dev %s\n", dev, dev);
	return 0;
}

static void list(FILE *out, const char *option, unsigned mask, bool buffers)
{
	fprintf(out, " --%s=", option);
	for (unsigned p = 0; p < HEADROOM_PRIORITIES; p++)
		fprintf(out, "%s%u", p > 0 ? "," : "", buffers ? emit_buffer_of(mask, p) : (mask >> p) & 1u);
}

static void mlnx_buffers(const char *dev, unsigned mask, const uint64_t sizes[HEADROOM_PRIORITIES], FILE *out)
{
	fprintf(
	    out,
	    "# All of them together must fit into the port's buffer, which `mlnx_qos -i %s` shows; the first is for\n"
	    "# the lossy priorities.\n",
	    dev);
	fprintf(out, "mlnx_qos -i %s", dev);
	list(out, "pfc", 0, false);
	fprintf(out, " &&\nmlnx_qos -i %s", dev);
	list(out, "prio2buffer", mask, true);
	fprintf(out, " --buffer_size=");
	for (unsigned b = 0; b < HEADROOM_PRIORITIES; b++)
		fprintf(out, "%s%" PRIu64, b > 0 ? "," : "", sizes[b]);
	fprintf(out, " &&\n");
}

int emit_mlnx_qos(const struct report *rep, FILE *out, FILE *err)
{
	const char *dev = rep->o->dev != NULL ? rep->o->dev : "eth0";
	unsigned mask = emit_priorities(rep);
	uint64_t sizes[HEADROOM_PRIORITIES];

	if (!is_mlx5(rep)) {
		options_complain(err, "mlnx_qos sets up the mlx5 driver: choose --model mlx5 or mlx5-next, not %s",
		                 headroom_model_name(rep->model));
		return -1;
	}
	if (check_buffers(mask, err) < 0 ||
	    share_buffer(rep, rep->o->in.buffer_bytes != 0 ? rep->r->size : rep->r->headroom_bytes, sizes, err) < 0)
		return -1;
	emit_head(rep, "#", out);
	no_pause(dev, out);
	fprintf(out, "# A change of --pfc takes the link down for a moment.\n");
	if (rep->o->in.buffer_bytes != 0)
		mlnx_buffers(dev, mask, sizes, out);
	else
		fprintf(out,
		        "# The driver keeps its buffers' sizes; a lossless one must have %" PRIu64
		        " bytes above XOFF. Give --buffer to set them.\n",
		        rep->r->headroom_bytes);
	fprintf(out, "mlnx_qos -i %s", dev);
	list(out, "pfc", mask, false);
	fprintf(out, " --cable_len=%" PRIu64 "\n", emit_length_m(rep));
	fprintf(out,
	        "# DSCP 8 n to 8 n + 7 gets priority n. Map others with --dscp2prio.\nmlnx_qos -i %s --trust=dscp\n",
	        dev);
	return 0;
}
