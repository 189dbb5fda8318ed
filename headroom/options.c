/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - the command line of `longreach headroom`.
 *
 * One table: name, kind of value, where it goes, help. The usage text, getopt's table and the sentences of refusal come
 * from it. */
#include "headroom/options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/util/units.h"

#define ITEM_MAX 64 /* a value in a list, with its unit */

enum kind {
	KIND_DISTANCE,
	KIND_KM,
	KIND_TIME,
	KIND_RATE,
	KIND_BYTES,
	KIND_COUNT,
	KIND_ON_OFF,
	KIND_WORD,
	KIND_PRIORITIES,
	KIND_FLAG,
};

static int read_km(const char *text, uint64_t *m)
{
	char buf[ITEM_MAX];

	if (strpbrk(text, "km") != NULL) /* people write --km 300km */
		return units_read_distance(text, m);
	if (snprintf(buf, sizeof(buf), "%skm", text) >= (int)sizeof(buf))
		return -EINVAL;
	return units_read_distance(buf, m);
}

static int read_on_off(const char *text, uint64_t *value)
{
	*value = strcmp(text, "on") == 0;
	return *value != 0 || strcmp(text, "off") == 0 ? 0 : -EINVAL;
}

static const struct {
	const char *value; /* in the usage text */
	const char *expected;
	int (*read)(const char *text, uint64_t *value);
} kinds[] = {
    [KIND_DISTANCE] = {"LENGTH", "a distance in whole metres, like 300km or 40m", units_read_distance},
    [KIND_KM] = {"N", "kilometres, like 300 or 1.5", read_km},
    [KIND_TIME] = {"TIME", "a time, like 1.5ms, 30us or 0ns", units_read_time},
    [KIND_RATE] = {"RATE", "a rate, like 100G, 2.5Gbit/s or 1.6T", units_read_rate},
    [KIND_BYTES] = {"BYTES", "an amount of bytes, like 4200, 9KiB or 1MB", units_read_bytes},
    [KIND_COUNT] = {"N", "a whole number, like 64", units_read_count},
    [KIND_ON_OFF] = {"on|off", "on or off", read_on_off},
    [KIND_WORD] = {"NAME", "a name", NULL},
    [KIND_PRIORITIES] = {"P[:MTU],...", "priorities from 0 to 7, like 3,4 or 3:4200,5:1500", NULL},
    [KIND_FLAG] = {"", "nothing", NULL},
};

enum id {
	ID_KM,
	ID_LENGTH,
	ID_RTT,
	ID_RATE,
	ID_MTU,
	ID_PORT_MTU,
	ID_LOSSLESS_MTU,
	ID_SMALL_PACKETS,
	ID_PRIORITIES,
	ID_MODEL,
	ID_ASIC,
	ID_CELL,
	ID_LANES,
	ID_POOL,
	ID_PORTS,
	ID_OVERSUBSCRIBE,
	ID_POOL_SIZE,
	ID_COMPENSATION,
	ID_BUFFER,
	ID_PORT_BUFFER,
	ID_GEARBOX,
	ID_TRANSPONDER,
	ID_MACSEC,
	ID_QUANTA,
	ID_DRAIN,
	ID_MEDIUM,
	ID_WHAT_IF,
	ID_JSON,
	ID_CSV,
	ID_EMIT,
	ID_DEV,
	ID_DRY_RUN,
	ID_HELP,
	IDS,
};

static const struct {
	const char *name;
	enum kind kind;
	const char *help;
} table[IDS] = {
    [ID_KM] = {"km", KIND_KM, "length of the link in kilometres"},
    [ID_LENGTH] = {"length", KIND_DISTANCE, "length of the link with a unit, like 40m"},
    [ID_RTT] = {"rtt", KIND_TIME, "measured round trip, instead of a length"},
    [ID_RATE] = {"rate", KIND_RATE, "rate of the line, or of the shaper in front of it"},
    [ID_MTU] = {"mtu", KIND_BYTES, "same as --port-mtu"},
    [ID_PORT_MTU] = {"port-mtu", KIND_BYTES, "largest frame on the link (9100)"},
    [ID_LOSSLESS_MTU] = {"lossless-mtu", KIND_BYTES, "largest lossless frame (SONiC: 1024, others: port MTU)"},
    [ID_SMALL_PACKETS] = {"small-packets", KIND_COUNT, "percent of packets that are 64 bytes long (50; Tofino: 100)"},
    [ID_PRIORITIES] = {"priorities", KIND_PRIORITIES, "lossless priorities, each with an MTU if it differs (3,4)"},
    [ID_MODEL] = {"model", KIND_WORD,
                  "physics, sonic-mellanox, sonic-barefoot, sonic-broadcom, annex-o, mlx5, mlx5-next, all"},
    [ID_ASIC] = {"asic", KIND_WORD, "spectrum to spectrum-6, tofino-2, jericho-2, tomahawk-5, 82599, x540"},
    [ID_CELL] = {"cell", KIND_BYTES, "allocation unit of the buffer, if not the ASIC's"},
    [ID_LANES] = {"lanes", KIND_COUNT, "lanes of the port (4)"},
    [ID_POOL] = {"pool", KIND_ON_OFF, "the ports share a headroom pool (off)"},
    [ID_PORTS] = {"ports", KIND_COUNT, "number of ports that share the pool, or the chip's headroom (1)"},
    [ID_OVERSUBSCRIBE] = {"oversubscribe", KIND_COUNT, "divisor: the pool is the sum of headrooms divided by N (1)"},
    [ID_POOL_SIZE] = {"pool-size", KIND_BYTES,
                      "sonic: size of the switch's ingress_lossless_pool, if it is not dynamic"},
    [ID_COMPENSATION] = {"compensation", KIND_ON_OFF,
                         "sonic-mellanox: 2 KiB more without a pool, since July 2026 (on)"},
    [ID_BUFFER] = {"buffer", KIND_BYTES, "mlx5: size of the lossless buffer (twice the headroom)"},
    [ID_PORT_BUFFER] = {"port-buffer", KIND_BYTES, "buffer of the port for --emit, if it differs from the known one"},
    [ID_GEARBOX] = {"gearbox", KIND_TIME, "delay of a gearbox, one way"},
    [ID_TRANSPONDER] = {"transponder", KIND_TIME, "delay of FEC, OTN and transponders of both ends, one way"},
    [ID_MACSEC] = {"macsec", KIND_BYTES, "bytes that MACsec adds to a frame, usually 32"},
    [ID_QUANTA] = {"peer-quanta", KIND_COUNT, "pause quanta until the peer stops, if they differ from 802.3's"},
    [ID_DRAIN] = {"drain", KIND_RATE, "rate at which the receiver empties, if it differs from the line's"},
    [ID_MEDIUM] = {"medium", KIND_WORD, "optical or copper"},
    [ID_WHAT_IF] = {"what-if", KIND_FLAG, "print a table; --km, --length, --rate and --mtu may be lists"},
    [ID_JSON] = {"json", KIND_FLAG, "print JSON; longreach-headroom(1) describes the fields"},
    [ID_CSV] = {"csv", KIND_FLAG, "print CSV, for spreadsheets and plots"},
    [ID_EMIT] = {"emit", KIND_WORD,
                 "print configuration for sonic, pg_profile_lookup, dcb, mlnx_qos, nvue, eos or nxos"},
    [ID_DEV] = {"dev", KIND_WORD, "name of the interface, for --emit and apply"},
    [ID_DRY_RUN] = {"dry-run", KIND_FLAG, "apply: show the difference, change nothing"},
    [ID_HELP] = {"help", KIND_FLAG, "print this text"},
};

void options_complain(FILE *err, const char *format, ...)
{
	va_list ap;

	fputs("longreach headroom: ", err);
	va_start(ap, format);
	vfprintf(err, format, ap);
	va_end(ap);
	fputc('\n', err);
}

void options_usage(FILE *out)
{
	fputs("usage: longreach headroom --km N --rate RATE [--mtu BYTES] [OPTION]...\n"
	      "       longreach headroom --what-if [OPTION]...\n"
	      "       longreach headroom apply --dev NAME --km N --rate RATE [--dry-run] [OPTION]...\n\n",
	      out);
	for (int i = 0; i < IDS; i++)
		fprintf(out, "  --%-14s %-12s %s\n", table[i].name, kinds[table[i].kind].value, table[i].help);
}

static int refuse(FILE *err, enum id id, const char *text, int why)
{
	const char *expected = kinds[table[id].kind].expected;

	if (why == -ERANGE)
		options_complain(err, "--%s %s: too large or too precise; expected %s", table[id].name, text, expected);
	else
		options_complain(err, "--%s %s: expected %s", table[id].name, text, expected);
	return -1;
}

/* A comma-separated list, each item as `kind` has it. */
static int read_list(enum id id, const char *text, struct options_list *list, FILE *err)
{
	const char *item = text;
	char buf[ITEM_MAX];
	int why;

	list->n = 0;
	for (;;) {
		size_t len = strcspn(item, ",");

		if (len >= sizeof(buf))
			return refuse(err, id, text, -EINVAL);
		memcpy(buf, item, len);
		buf[len] = '\0';
		if (list->n == OPTIONS_LIST_MAX) {
			options_complain(err, "--%s: at most %d values", table[id].name, OPTIONS_LIST_MAX);
			return -1;
		}
		why = kinds[table[id].kind].read(buf, &list->values[list->n++]);
		if (why < 0)
			return refuse(err, id, text, why);
		if (item[len] == '\0')
			return 0;
		item += len + 1;
	}
}

/* A value that must also fit into `max`. */
static int read_value(enum id id, const char *text, uint64_t max, uint64_t *value, FILE *err)
{
	int why = kinds[table[id].kind].read(text, value);

	if (why == 0 && *value > max)
		why = -ERANGE;
	return why < 0 ? refuse(err, id, text, why) : 0;
}

static int read_u32(enum id id, const char *text, uint32_t *value, FILE *err)
{
	uint64_t v;

	if (read_value(id, text, UINT32_MAX, &v, err) < 0)
		return -1;
	*value = (uint32_t)v;
	return 0;
}

static int read_unsigned(enum id id, const char *text, unsigned *value, FILE *err)
{
	return read_u32(id, text, value, err);
}

static int read_bool(enum id id, const char *text, bool *value, FILE *err)
{
	uint64_t v;

	if (read_value(id, text, 1, &v, err) < 0)
		return -1;
	*value = v != 0;
	return 0;
}

/* "3" or "3:4200" */
static int read_priority(char *item, struct headroom_priority *p)
{
	char *mtu = strchr(item, ':');
	uint64_t number, bytes = 0;

	if (mtu != NULL)
		*mtu++ = '\0';
	if (units_read_count(item, &number) < 0 || number >= HEADROOM_PRIORITIES)
		return -1;
	if (mtu != NULL && (units_read_bytes(mtu, &bytes) < 0 || bytes == 0 || bytes > HEADROOM_MTU_MAX))
		return -1;
	*p = (struct headroom_priority){(uint8_t)number, (uint32_t)bytes};
	return 0;
}

static int read_priorities(const char *text, struct headroom_in *in, FILE *err)
{
	char buf[ITEM_MAX * 2], *save = NULL;
	unsigned seen = 0;

	in->n_priorities = 0;
	if (snprintf(buf, sizeof(buf), "%s", text) >= (int)sizeof(buf))
		return refuse(err, ID_PRIORITIES, text, -EINVAL);
	for (char *item = strtok_r(buf, ",", &save); item != NULL; item = strtok_r(NULL, ",", &save)) {
		struct headroom_priority p;

		if (read_priority(item, &p) < 0)
			return refuse(err, ID_PRIORITIES, text, -EINVAL);
		if ((seen & 1u << p.number) != 0) {
			options_complain(err, "--priorities %s: priority %u is there twice", text, p.number);
			return -1;
		}
		seen |= 1u << p.number;
		in->priorities[in->n_priorities++] = p;
	}
	return in->n_priorities > 0 ? 0 : refuse(err, ID_PRIORITIES, text, -EINVAL);
}

static int read_model(struct options *o, const char *text, FILE *err)
{
	o->model = headroom_model_find(text);
	if (o->model != HEADROOM_MODELS || strcmp(text, "all") == 0)
		return 0;
	fprintf(err, "longreach headroom: --model %s: expected", text);
	for (enum headroom_model m = 0; m < HEADROOM_MODELS; m++)
		fprintf(err, " %s,", headroom_model_name(m));
	fputs(" or all\n", err);
	return -1;
}

static int read_asic(struct options *o, const char *text, FILE *err)
{
	o->in.asic = headroom_asic_find(text);
	if (o->in.asic != NULL)
		return 0;
	fprintf(err, "longreach headroom: --asic %s: expected one of", text);
	for (const struct headroom_asic *a = headroom_asics(); a->name != NULL; a++)
		fprintf(err, " %s", a->name);
	fputc('\n', err);
	return -1;
}

static int read_medium(struct options *o, const char *text, FILE *err)
{
	bool copper = strcmp(text, "copper") == 0;

	o->in.medium = copper ? HEADROOM_COPPER : HEADROOM_OPTICAL;
	if (copper || strcmp(text, "optical") == 0)
		return 0;
	options_complain(err, "--medium %s: expected optical or copper", text);
	return -1;
}

/* The name goes into a command line or a configuration file: accepts only letters, digits and characters of interface
 * names. */
static int read_dev(struct options *o, const char *text, FILE *err)
{
	size_t len = strlen(text);

	o->dev = text;
	if (len > 0 && len < OPTIONS_NAME_MAX && text[0] != '-' &&
	    strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-") == len)
		return 0;
	options_complain(err, "--dev %s: expected the name of an interface, like eth0, swp1 or Ethernet1/1", text);
	return -1;
}

static int read_small(struct options *o, const char *text, FILE *err)
{
	uint64_t v;

	if (read_value(ID_SMALL_PACKETS, text, UINT64_MAX, &v, err) < 0)
		return -1;
	if (v > 100) {
		options_complain(err, "--small-packets %s: expected percent, from 0 to 100", text);
		return -1;
	}
	o->in.small_percent = (int)v;
	return 0;
}

static int take_link(struct options *o, enum id id, const char *text, FILE *err)
{
	switch (id) {
	case ID_KM:
	case ID_LENGTH:
		return read_list(id, text, &o->lengths_m, err);
	case ID_RTT:
		return read_value(id, text, UINT64_MAX, &o->in.rtt_ns, err);
	case ID_RATE:
		return read_list(id, text, &o->rates_bps, err);
	case ID_MTU:
	case ID_PORT_MTU:
		return read_list(id, text, &o->mtus, err);
	case ID_LOSSLESS_MTU:
		return read_u32(id, text, &o->in.lossless_mtu, err);
	case ID_SMALL_PACKETS:
		return read_small(o, text, err);
	case ID_PRIORITIES:
		return read_priorities(text, &o->in, err);
	case ID_GEARBOX:
		return read_value(id, text, UINT64_MAX, &o->in.gearbox_ns, err);
	case ID_TRANSPONDER:
		return read_value(id, text, UINT64_MAX, &o->in.transponder_ns, err);
	case ID_MACSEC:
		return read_u32(id, text, &o->in.macsec_bytes, err);
	case ID_MEDIUM:
		return read_medium(o, text, err);
	default:
		return 1;
	}
}

static int take_device(struct options *o, enum id id, const char *text, FILE *err)
{
	switch (id) {
	case ID_MODEL:
		return read_model(o, text, err);
	case ID_ASIC:
		return read_asic(o, text, err);
	case ID_CELL:
		return read_u32(id, text, &o->in.cell_bytes, err);
	case ID_LANES:
		return read_unsigned(id, text, &o->in.lanes, err);
	case ID_POOL:
		return read_bool(id, text, &o->in.pool, err);
	case ID_PORTS:
		o->ports_given = true;
		return read_unsigned(id, text, &o->in.ports, err);
	case ID_OVERSUBSCRIBE:
		return read_unsigned(id, text, &o->in.oversubscribe, err);
	case ID_POOL_SIZE:
		return read_value(id, text, HEADROOM_BUFFER_MAX, &o->pool_size_bytes, err);
	case ID_COMPENSATION:
		return read_bool(id, text, &o->in.compensation, err);
	case ID_BUFFER:
		return read_value(id, text, UINT64_MAX, &o->in.buffer_bytes, err);
	case ID_PORT_BUFFER:
		return read_value(id, text, HEADROOM_BUFFER_MAX, &o->port_buffer_bytes, err);
	case ID_QUANTA:
		return read_u32(id, text, &o->in.peer_quanta, err);
	case ID_DRAIN:
		return read_value(id, text, UINT64_MAX, &o->in.drain_bps, err);
	default:
		return 1;
	}
}

static int take_output(struct options *o, enum id id, const char *text, FILE *err)
{
	switch (id) {
	case ID_WHAT_IF:
		o->what_if = true;
		return 0;
	case ID_JSON:
		o->format = FORMAT_JSON;
		return 0;
	case ID_CSV:
		o->format = FORMAT_CSV;
		return 0;
	case ID_EMIT:
		o->emit = text;
		return 0;
	case ID_DEV:
		return read_dev(o, text, err);
	case ID_DRY_RUN:
		o->dry_run = true;
		return 0;
	default:
		o->help = true;
		return 0;
	}
}

static int take(struct options *o, enum id id, const char *text, FILE *err)
{
	int r = take_link(o, id, text, err);

	if (r == 1)
		r = take_device(o, id, text, err);
	if (r == 1)
		r = take_output(o, id, text, err);
	return r;
}

/* Without --what-if one value each; the first goes into `in`. */
static int use_lists(struct options *o, FILE *err)
{
	const struct options_list *lists[] = {&o->lengths_m, &o->rates_bps, &o->mtus};

	for (size_t i = 0; !o->what_if && i < sizeof(lists) / sizeof(lists[0]); i++)
		if (lists[i]->n > 1) {
			options_complain(err, "several lengths, rates or MTUs need --what-if, which prints a table");
			return -1;
		}
	if (o->lengths_m.n > 0)
		o->in.length_m = o->lengths_m.values[0];
	if (o->rates_bps.n > 0)
		o->in.rate_bps = o->rates_bps.values[0];
	for (unsigned i = 0; i < o->mtus.n; i++)
		if (o->mtus.values[i] > HEADROOM_MTU_MAX) {
			options_complain(err, "--port-mtu: expected 64 to 65535 bytes");
			return -1;
		}
	if (o->mtus.n > 0)
		o->in.port_mtu = (uint32_t)o->mtus.values[0];
	return 0;
}

static int check_apply(const struct options *o, FILE *err)
{
	if (!o->apply && o->dry_run) {
		options_complain(err, "--dry-run is an option of `longreach headroom apply` only");
		return -1;
	}
	if (!o->apply)
		return 0;
	if (o->dev == NULL) {
		options_complain(err, "apply: --dev is missing: expected an interface, like --dev eth0");
		return -1;
	}
	if (o->what_if || o->emit != NULL || o->format != FORMAT_TEXT) {
		options_complain(err, "apply: expected none of --what-if, --emit, --json and --csv");
		return -1;
	}
	for (unsigned i = 0; i < o->in.n_priorities; i++)
		if (o->in.priorities[i].lossless_mtu != 0) {
			options_complain(err, "apply sets one size for all lossless priorities: expected "
			                      "--lossless-mtu, not MTUs in --priorities");
			return -1;
		}
	return 0;
}

static int check_together(const struct options *o, FILE *err)
{
	if (o->help)
		return 0;
	if (check_apply(o, err) < 0)
		return -1;
	if (o->lengths_m.n > 0 && o->in.rtt_ns != 0) {
		options_complain(err, "--rtt replaces a length: expected one of the two");
		return -1;
	}
	if (o->what_if && o->in.rtt_ns != 0) {
		options_complain(err, "--rtt is for one link: expected lengths with --what-if, like --km 1,10,100");
		return -1;
	}
	if (!o->what_if && o->lengths_m.n == 0 && o->in.rtt_ns == 0) {
		options_complain(err,
		                 "the length of the link is missing: expected --km 300, --length 40m or --rtt 3ms");
		return -1;
	}
	if (!o->what_if && o->rates_bps.n == 0) {
		options_complain(err, "the rate of the link is missing: expected --rate 100G");
		return -1;
	}
	if (o->what_if && o->emit != NULL) {
		options_complain(err, "--emit is for one link, --what-if for many: expected one of the two");
		return -1;
	}
	return 0;
}

static void getopt_table(struct option long_options[IDS + 1])
{
	for (int i = 0; i < IDS; i++)
		long_options[i] = (struct option){
		    table[i].name, table[i].kind == KIND_FLAG ? no_argument : required_argument, NULL, i + 1};
	long_options[IDS] = (struct option){0};
}

int options_read(struct options *o, int argc, char **argv, FILE *err)
{
	struct option long_options[IDS + 1];
	int opt;

	*o = (struct options){.model = HEADROOM_MODELS, .apply = argc > 1 && strcmp(argv[1], "apply") == 0};
	headroom_defaults(&o->in);
	argc -= o->apply;
	argv += o->apply;
	getopt_table(long_options);
	optind = 0; /* starts anew: the caller has used getopt before */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+:", long_options, NULL)) != -1) {
		if (opt == '?' || opt == ':') {
			options_complain(
			    err, opt == ':' ? "%s needs a value" : "unknown option %s; --help lists the options",
			    argv[optind - 1]);
			return -1;
		}
		if (take(o, (enum id)(opt - 1), optarg, err) < 0)
			return -1;
	}
	if (optind < argc) {
		options_complain(err, "%s: expected options only; --help lists them", argv[optind]);
		return -1;
	}
	return use_lists(o, err) < 0 ? -1 : check_together(o, err);
}
