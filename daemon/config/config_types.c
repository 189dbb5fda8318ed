/* SPDX-License-Identifier: Apache-2.0 */
/* config_types.c - the kinds of values in a link file: text to field and back. */
#include "config_keys.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "daemon/util/addr.h"
#include "daemon/util/units.h"

/* --- numbers --- */

static void store_number(const struct config_key *k, void *field, uint64_t value)
{
	uint16_t v16 = (uint16_t)value;
	uint32_t v32 = (uint32_t)value;

	if (k->item_size == sizeof(v16))
		memcpy(field, &v16, sizeof(v16));
	else if (k->item_size == sizeof(v32))
		memcpy(field, &v32, sizeof(v32));
	else
		memcpy(field, &value, sizeof(value));
}

static uint64_t load_number(const struct config_key *k, const void *field)
{
	uint16_t v16;
	uint32_t v32;
	uint64_t v64;

	if (k->item_size == sizeof(v16)) {
		memcpy(&v16, field, sizeof(v16));
		return v16;
	}
	if (k->item_size == sizeof(v32)) {
		memcpy(&v32, field, sizeof(v32));
		return v32;
	}
	memcpy(&v64, field, sizeof(v64));
	return v64;
}

static void say_range(const struct config_key *k, char why[CONFIG_WHY_MAX])
{
	char low[UNITS_TEXT_MAX], high[UNITS_TEXT_MAX];

	k->type->write_number(low, sizeof(low), k->min);
	k->type->write_number(high, sizeof(high), k->max);
	snprintf(why, CONFIG_WHY_MAX, "out of range: expected %s to %s%s%s", low, high,
	         k->type->zero_word != NULL ? ", or " : "", k->type->zero_word != NULL ? k->type->zero_word : "");
}

static int read_number(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	uint64_t value;
	int r;

	if (k->type->zero_word != NULL && strcmp(text, k->type->zero_word) == 0) {
		store_number(k, field, 0);
		return 0;
	}
	r = k->type->read_number(text, &value);
	if (r == -EINVAL)
		return -EINVAL;
	if (r < 0 || value < k->min || value > k->max) {
		say_range(k, why);
		return -EINVAL;
	}
	store_number(k, field, value);
	return 0;
}

static void write_number(const struct config_key *k, const void *field, char *text, size_t cap)
{
	uint64_t value = load_number(k, field);

	if (value == 0 && k->type->zero_word != NULL)
		snprintf(text, cap, "%s", k->type->zero_word);
	else
		k->type->write_number(text, cap, value);
}

#define NUMBER(unit)                                                                                                   \
	.read = read_number, .write = write_number, .read_number = units_read_##unit, .write_number = units_write_##unit

const struct config_type type_rate = {.expected = "a bit rate such as 10G, 400G or 2.5Gbit/s", NUMBER(rate)};
const struct config_type type_time = {.expected = "a time such as 30us, 1.5ms or 2s", NUMBER(time)};
const struct config_type type_packet_size = {.expected = "bytes, such as 1500, 9000 or 9KiB", NUMBER(bytes)};
const struct config_type type_path_mtu = {
    .expected = "auto, or bytes such as 1500 or 9000", NUMBER(bytes), .zero_word = "auto"};
const struct config_type type_bytes = {.expected = "a size such as 512KiB or 1MiB", NUMBER(bytes)};
const struct config_type type_count = {.expected = "a whole number", NUMBER(count)};
const struct config_type type_skip = {.expected = "port numbers such as 22 2049", NUMBER(count)};
const struct config_type type_distance = {
    .expected = "auto, or the length of the fibre such as 300km", NUMBER(distance), .zero_word = "auto"};
const struct config_type type_size = {
    .expected = "auto, or a size such as 512MiB or 16GiB", NUMBER(bytes), .zero_word = "auto"};

/* --- words --- */

static const char *const mode_words[] = {[ACK_MODE_HOST] = "host", [ACK_MODE_NEAR] = "near", [ACK_MODE_FAR] = "far"};

static bool mode_of(const char *text, enum ack_mode *mode)
{
	for (unsigned i = 0; i < sizeof(mode_words) / sizeof(mode_words[0]); i++) {
		if (strcmp(text, mode_words[i]) != 0)
			continue;
		*mode = (enum ack_mode)i;
		return true;
	}
	return false;
}

static int read_ack_mode(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	enum ack_mode mode;

	(void)k;
	(void)why;
	if (!mode_of(text, &mode))
		return -EINVAL;
	memcpy(field, &mode, sizeof(mode));
	return 0;
}

static void write_ack_mode(const struct config_key *k, const void *field, char *text, size_t cap)
{
	enum ack_mode mode;

	(void)k;
	memcpy(&mode, field, sizeof(mode));
	snprintf(text, cap, "%s", mode_words[mode]);
}

const struct config_type type_ack_mode = {
    .expected = "near, far or host", .read = read_ack_mode, .write = write_ack_mode};

static const char *const barrier_word[] = {[BARRIER_AUTO] = "auto",
                                           [BARRIER_SAYS_OFF] = "off",
                                           [BARRIER_SAYS_PAIR] = "pair",
                                           [BARRIER_SAYS_CAUSAL] = "causal"};

static int read_barrier(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	(void)k;
	(void)why;
	for (uint32_t i = 0; i < sizeof(barrier_word) / sizeof(barrier_word[0]); i++) {
		if (strcmp(text, barrier_word[i]) != 0)
			continue;
		memcpy(field, &i, sizeof(i));
		return 0;
	}
	return -EINVAL;
}

static void write_barrier(const struct config_key *k, const void *field, char *text, size_t cap)
{
	uint32_t value;

	(void)k;
	memcpy(&value, field, sizeof(value));
	snprintf(text, cap, "%s", barrier_word[value]);
}

const struct config_type type_barrier = {
    .expected = "auto, pair, causal or off", .read = read_barrier, .write = write_barrier};

static int read_rate_control(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	(void)k;
	(void)why;
	for (uint32_t i = 0; i < RATE_COUNT; i++) {
		if (strcmp(text, rate_ops_of((enum rate_controller)i)->name) != 0)
			continue;
		memcpy(field, &i, sizeof(i));
		return 0;
	}
	return -EINVAL;
}

static void write_rate_control(const struct config_key *k, const void *field, char *text, size_t cap)
{
	uint32_t value;

	(void)k;
	memcpy(&value, field, sizeof(value));
	snprintf(text, cap, "%s", rate_ops_of((enum rate_controller)value)->name);
}

const struct config_type type_rate_control = {
    .expected = "fixed or auto", .read = read_rate_control, .write = write_rate_control};

static int read_rnr_retry(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	bool infinite = strcmp(text, "infinite") == 0;

	(void)k;
	(void)why;
	if (!infinite && strcmp(text, "finite") != 0)
		return -EINVAL;
	memcpy(field, &infinite, sizeof(infinite));
	return 0;
}

static void write_rnr_retry(const struct config_key *k, const void *field, char *text, size_t cap)
{
	bool infinite;

	(void)k;
	memcpy(&infinite, field, sizeof(infinite));
	snprintf(text, cap, "%s", infinite ? "infinite" : "finite");
}

const struct config_type type_rnr_retry = {
    .expected = "infinite or finite", .read = read_rnr_retry, .write = write_rnr_retry};

static int read_yes(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	bool yes = strcmp(text, "yes") == 0;

	(void)k;
	(void)why;
	if (!yes && strcmp(text, "no") != 0)
		return -EINVAL;
	memcpy(field, &yes, sizeof(yes));
	return 0;
}

static void write_yes(const struct config_key *k, const void *field, char *text, size_t cap)
{
	bool yes;

	(void)k;
	memcpy(&yes, field, sizeof(yes));
	snprintf(text, cap, "%s", yes ? "yes" : "no");
}

const struct config_type type_yes = {.expected = "yes or no", .read = read_yes, .write = write_yes};

static int read_cipher(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	(void)k;
	(void)why;
	for (unsigned c = 0; c < SEAL_CIPHER_COUNT; c++) {
		enum seal_cipher cipher = (enum seal_cipher)c;

		if (strcmp(text, seal_cipher_name(c)) != 0)
			continue;
		memcpy(field, &cipher, sizeof(cipher));
		return 0;
	}
	return -EINVAL;
}

static void write_cipher(const struct config_key *k, const void *field, char *text, size_t cap)
{
	enum seal_cipher c;

	(void)k;
	memcpy(&c, field, sizeof(c));
	snprintf(text, cap, "%s", seal_cipher_name(c));
}

const struct config_type type_cipher = {.expected = "aes-256-gcm, aes-128-gcm, chacha20-poly1305 or none",
                                        .read = read_cipher,
                                        .write = write_cipher};

static int read_pfc(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	uint8_t pfc = 0;

	(void)k;
	(void)why;
	if (text[0] >= '0' && text[0] <= '7' && text[1] == '\0')
		pfc = (uint8_t)(text[0] - '0' + 1);
	else if (strcmp(text, "off") != 0)
		return -EINVAL;
	memcpy(field, &pfc, sizeof(pfc));
	return 0;
}

static void write_pfc(const struct config_key *k, const void *field, char *text, size_t cap)
{
	uint8_t pfc;

	(void)k;
	memcpy(&pfc, field, sizeof(pfc));
	if (pfc == 0)
		snprintf(text, cap, "off");
	else
		snprintf(text, cap, "%u", pfc - 1u);
}

const struct config_type type_pfc = {.expected = "off or a priority from 0 to 7", .read = read_pfc, .write = write_pfc};

static int read_fec(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	struct fec_config f;
	unsigned n, m;
	char rest;

	(void)k;
	memset(&f, 0, sizeof(f));
	if (strcmp(text, "auto") == 0) {
		f.mode = FEC_AUTO;
	} else if (strcmp(text, "off") != 0) {
		if (!isdigit((unsigned char)text[0]) || sscanf(text, "%3u+%3u%c", &n, &m, &rest) != 2)
			return -EINVAL;
		if (n < 1 || n > FEC_K_MAX || m < 1 || m > FEC_M_MAX || m > n) {
			snprintf(why, CONFIG_WHY_MAX,
			         "expected K+M with K from 1 to %u and M from 1 to %u, and no more than K", FEC_K_MAX,
			         FEC_M_MAX);
			return -EINVAL;
		}
		f.mode = FEC_FIXED;
		f.k = (uint8_t)n;
		f.m = (uint8_t)m;
	}
	memcpy(field, &f, sizeof(f));
	return 0;
}

void config_fec_name(const struct fec_config *f, char *text, size_t cap)
{
	if (f->mode == FEC_FIXED)
		snprintf(text, cap, "%u+%u", f->k, f->m);
	else
		snprintf(text, cap, "%s", f->mode == FEC_AUTO ? "auto" : "off");
}

static void write_fec(const struct config_key *k, const void *field, char *text, size_t cap)
{
	struct fec_config f;

	(void)k;
	memcpy(&f, field, sizeof(f));
	config_fec_name(&f, text, cap);
}

const struct config_type type_fec = {
    .expected = "off, auto, or K+M such as 64+4", .read = read_fec, .write = write_fec};

/* --- names --- */

static int read_text(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	size_t len = strlen(text);

	if (len >= k->item_size) {
		snprintf(why, CONFIG_WHY_MAX, "too long: at most %zu characters", k->item_size - 1);
		return -EINVAL;
	}
	memset(field, 0, k->item_size);
	memcpy(field, text, len);
	return 0;
}

static void write_text(const struct config_key *k, const void *field, char *text, size_t cap)
{
	snprintf(text, cap, "%.*s", (int)k->item_size, (const char *)field);
}

static bool has_control_characters(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return true;
	return false;
}

/* Accepts interface names as the kernel does (dev_valid_name()), but no quotes: a quote is always a mistake. */
static int read_port(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	if (*text == '\0' || strcmp(text, ".") == 0 || strcmp(text, "..") == 0 || strpbrk(text, "/: ") != NULL)
		return -EINVAL;
	if (has_control_characters(text) || strpbrk(text, "\"'") != NULL)
		return -EINVAL;
	return read_text(k, field, text, why);
}

static int read_directory(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	if (text[0] != '/' || has_control_characters(text))
		return -EINVAL;
	return read_text(k, field, text, why);
}

/* A DNS name as it stands in a certificate: no wildcard, no address. */
static int read_peer_name(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	if (*text == '\0' || *text == '.' ||
	    text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")] != '\0')
		return -EINVAL;
	return read_text(k, field, text, why);
}

const struct config_type type_peer_name = {
    .expected = "the name in the other edge's certificate, such as wakkanai.link1", .read = read_peer_name,
    .write = write_text};
/* A gid, or the name of one. */
static int read_group(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	const struct group *g = NULL;
	uint64_t value;
	uint32_t gid;

	(void)k;
	if (units_read_count(text, &value) < 0) {
		g = getgrnam(text);
		if (!g) {
			snprintf(why, CONFIG_WHY_MAX, "no such group on this machine");
			return -EINVAL;
		}
		value = g->gr_gid;
	}
	if (value == 0 || value >= UINT32_MAX) {
		snprintf(why, CONFIG_WHY_MAX, "root may use the relay in any case: expected another group");
		return -EINVAL;
	}
	gid = (uint32_t)value;
	memcpy(field, &gid, sizeof(gid));
	return 0;
}

static void write_group(const struct config_key *k, const void *field, char *text, size_t cap)
{
	uint32_t gid;

	(void)k;
	memcpy(&gid, field, sizeof(gid));
	text[0] = '\0';
	if (gid)
		snprintf(text, cap, "%u", gid);
}

const struct config_type type_group = {.expected = "a group's name or number", .read = read_group, .write = write_group};

/* Kept as a name: the user's groups are looked up when the process changes to that user. */
static int read_user(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	if (strlen(text) >= k->item_size)
		return -EINVAL;
	if (getpwnam(text) == NULL) {
		snprintf(why, CONFIG_WHY_MAX, "no such user on this machine");
		return -EINVAL;
	}
	return read_text(k, field, text, why);
}

const struct config_type type_user = {.expected = "a user's name", .read = read_user, .write = write_text};

static int read_export_mode(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	bool writable = strcmp(text, "write") == 0;

	(void)k;
	(void)why;
	if (!writable && strcmp(text, "read") != 0)
		return -EINVAL;
	memcpy(field, &writable, sizeof(writable));
	return 0;
}

static void write_export_mode(const struct config_key *k, const void *field, char *text, size_t cap)
{
	bool writable;

	(void)k;
	memcpy(&writable, field, sizeof(writable));
	snprintf(text, cap, "%s", writable ? "write" : "read");
}

const struct config_type type_export_mode = {
    .expected = "read or write", .read = read_export_mode, .write = write_export_mode};
const struct config_type type_file = {
    .expected = "a path that begins with /", .read = read_directory, .write = write_text};
const struct config_type type_port = {
    .expected = "the name of a network interface, such as enp1s0f0", .read = read_port, .write = write_text};
const struct config_type type_directory = {
    .expected = "a path that begins with /", .read = read_directory, .write = write_text};

static const char *const engine_words[] = {[ENGINE_PACKET] = "packet", [ENGINE_DPDK] = "dpdk"};

static int read_engine(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	(void)k;
	(void)why;
	for (unsigned i = 0; i < sizeof(engine_words) / sizeof(engine_words[0]); i++) {
		enum lan_engine_kind engine = (enum lan_engine_kind)i;

		if (strcmp(text, engine_words[i]) != 0)
			continue;
		memcpy(field, &engine, sizeof(engine));
		return 0;
	}
	return -EINVAL;
}

static void write_engine(const struct config_key *k, const void *field, char *text, size_t cap)
{
	enum lan_engine_kind engine;

	(void)k;
	memcpy(&engine, field, sizeof(engine));
	snprintf(text, cap, "%s", engine_words[engine]);
}

const struct config_type type_engine = {.expected = "packet or dpdk", .read = read_engine, .write = write_engine};

/* A device's name and its driver's arguments: DPDK's devargs. A leading dash would make it an option of the EAL. */
static int read_device(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	if (!isalnum((unsigned char)text[0]) || has_control_characters(text))
		return -EINVAL;
	return read_text(k, field, text, why);
}

const struct config_type type_device = {
    .expected = "a PCI address, or a driver of DPDK and a number, with its arguments after commas",
    .read = read_device,
    .write = write_text,
    .commas = true};

static int read_cpu(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	uint64_t value;
	int32_t cpu;

	if (units_read_count(text, &value) < 0)
		return -EINVAL;
	if (value > k->max) {
		snprintf(why, CONFIG_WHY_MAX, "out of range: CPU numbers go from 0 to %" PRIu64, k->max);
		return -EINVAL;
	}
	cpu = (int32_t)value;
	memcpy(field, &cpu, sizeof(cpu));
	return 0;
}

static void write_cpu(const struct config_key *k, const void *field, char *text, size_t cap)
{
	int32_t cpu;

	(void)k;
	memcpy(&cpu, field, sizeof(cpu));
	snprintf(text, cap, "%" PRId32, cpu);
}

const struct config_type type_cpu = {.expected = "CPU numbers such as 2 3", .read = read_cpu, .write = write_cpu};

/* --- addresses --- */

static int read_address(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	struct ip_addr a;

	(void)k;
	if (addr_read(text, &a) < 0)
		return -EINVAL;
	if (addr_is_unspecified(&a) || addr_is_multicast(&a)) {
		snprintf(why, CONFIG_WHY_MAX, "expected the address of one machine");
		return -EINVAL;
	}
	if (addr_is_link_local(&a)) {
		snprintf(why, CONFIG_WHY_MAX,
		         "is link-local, and a WAN does not route such addresses: expected a routable one");
		return -EINVAL;
	}
	memcpy(field, &a, sizeof(a));
	return 0;
}

static void write_address(const struct config_key *k, const void *field, char *text, size_t cap)
{
	struct ip_addr a;

	(void)k;
	memcpy(&a, field, sizeof(a));
	addr_write(&a, text, cap);
}

const struct config_type type_address = {
    .expected = "an IPv4 or IPv6 address such as 192.0.2.1", .read = read_address, .write = write_address};

/* Writes nothing if no address is given. */
static void write_own_address(const struct config_key *k, const void *field, char *text, size_t cap)
{
	static const struct ip_addr none;

	text[0] = '\0';
	if (memcmp(field, &none, sizeof(none)) != 0)
		write_address(k, field, text, cap);
}

const struct config_type type_own_address = {
    .expected = "an IPv4 or IPv6 address such as 10.1.0.1", .read = read_address, .write = write_own_address};

static int read_prefix(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	char meant[ADDR_TEXT_MAX];
	struct ip_prefix p, cut;

	(void)k;
	if (addr_read_prefix(text, &p) < 0)
		return -EINVAL;
	cut = p;
	addr_mask(&cut);
	if (!ip_addr_eq(&cut.addr, &p.addr)) {
		addr_write_prefix(&cut, meant, sizeof(meant));
		snprintf(why, CONFIG_WHY_MAX, "address bits after the prefix length are set: expected %s", meant);
		return -EINVAL;
	}
	if (addr_prefix_swallows_ip4(&p)) {
		snprintf(why, CONFIG_WHY_MAX, "too wide: expected a longer prefix, such as 2001:db8::/32");
		return -EINVAL;
	}
	memcpy(field, &p, sizeof(p));
	return 0;
}

static void write_prefix(const struct config_key *k, const void *field, char *text, size_t cap)
{
	struct ip_prefix p;

	(void)k;
	memcpy(&p, field, sizeof(p));
	addr_write_prefix(&p, text, cap);
}

const struct config_type type_prefix = {
    .expected = "prefixes such as 10.1.0.0/16 or 2001:db8:1::/48", .read = read_prefix, .write = write_prefix};

/* ADDRESS+ADDRESS... */
static int read_host_group(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	struct host_group g = {0};
	char one[ADDR_TEXT_MAX];

	for (;;) {
		size_t len = strcspn(text, "+");

		if (g.n == HOST_GROUP_ADDRESSES) {
			snprintf(why, CONFIG_WHY_MAX,
			         "more than %d addresses: split the group, with one address in both parts",
			         HOST_GROUP_ADDRESSES);
			return -EINVAL;
		}
		if (len >= sizeof(one))
			return -EINVAL;
		memcpy(one, text, len);
		one[len] = '\0';
		if (read_address(k, &g.addr[g.n], one, why) < 0)
			return -EINVAL;
		for (uint32_t i = 0; i < g.n; i++)
			if (ip_addr_eq(&g.addr[i], &g.addr[g.n])) {
				snprintf(why, CONFIG_WHY_MAX, "%s is given twice: expected it once", one);
				return -EINVAL;
			}
		g.n++;
		if (text[len] == '\0')
			break;
		text += len + 1;
	}
	if (g.n < 2)
		return -EINVAL;
	memcpy(field, &g, sizeof(g));
	return 0;
}

static void write_host_group(const struct config_key *k, const void *field, char *text, size_t cap)
{
	char one[ADDR_TEXT_MAX];
	struct host_group g;
	size_t len = 0;

	(void)k;
	memcpy(&g, field, sizeof(g));
	text[0] = '\0';
	for (uint32_t i = 0; i < g.n && len < cap; i++)
		len += (size_t)snprintf(text + len, cap - len, "%s%s", i > 0 ? "+" : "",
		                        addr_write(&g.addr[i], one, sizeof(one)));
}

const struct config_type type_host_group = {.expected = "ADDRESS+ADDRESS such as 10.1.0.2+10.1.8.2",
                                            .read = read_host_group,
                                            .write = write_host_group};

static const char *const allow_words[] = {[1] = "get", [2] = "put", [3] = "all", [RELAY_ALLOW_EXPORT] = "export"};

/* PREFIX=ACCESS:REGION */
static int read_relay_allow(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	const char *is = strchr(text, '='), *colon = is ? strchr(is, ':') : NULL;
	char prefix[ADDR_TEXT_MAX];
	struct relay_allow a = {0};
	size_t len = colon ? strlen(colon + 1) : 0;

	if (!colon || (size_t)(is - text) >= sizeof(prefix) || len == 0 || len >= sizeof(a.name))
		return -EINVAL;
	memcpy(prefix, text, (size_t)(is - text));
	prefix[is - text] = '\0';
	for (uint32_t i = 1; i < sizeof(allow_words) / sizeof(allow_words[0]); i++)
		if (strlen(allow_words[i]) == (size_t)(colon - is - 1) &&
		    strncmp(is + 1, allow_words[i], (size_t)(colon - is - 1)) == 0)
			a.access = i;
	if (a.access == 0)
		return -EINVAL;
	if (strcspn(colon + 1, "*") + 1 < len) {
		snprintf(why, CONFIG_WHY_MAX,
		         "* is not the last character: expected a region's name that may end in *");
		return -EINVAL;
	}
	memcpy(a.name, colon + 1, len);
	if (read_prefix(k, &a.prefix, prefix, why) < 0)
		return -EINVAL;
	memcpy(field, &a, sizeof(a));
	return 0;
}

static void write_relay_allow(const struct config_key *k, const void *field, char *text, size_t cap)
{
	char prefix[ADDR_TEXT_MAX];
	struct relay_allow a;

	(void)k;
	memcpy(&a, field, sizeof(a));
	addr_write_prefix(&a.prefix, prefix, sizeof(prefix));
	snprintf(text, cap, "%s=%s:%s", prefix, allow_words[a.access], a.name);
}

const struct config_type type_relay_allow = {.expected = "PREFIX=ACCESS:REGION such as 10.1.0.0/24=put:checkpoint-*",
                                             .read = read_relay_allow,
                                             .write = write_relay_allow};

/* LOCAL~REMOTE=MODE */
static int read_pair_mode(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX])
{
	char buf[2 * ADDR_TEXT_MAX + 16];
	char *remote, *mode;
	struct pair_mode pm;
	int r;

	if (strlen(text) >= sizeof(buf))
		return -EINVAL;
	memcpy(buf, text, strlen(text) + 1);
	remote = strchr(buf, '~');
	mode = strrchr(buf, '=');
	if (remote == NULL || mode == NULL || mode < remote)
		return -EINVAL;
	*remote++ = '\0';
	*mode++ = '\0';
	memset(&pm, 0, sizeof(pm));
	if (!mode_of(mode, &pm.mode)) {
		snprintf(why, CONFIG_WHY_MAX, "the mode is wrong: expected %s", type_ack_mode.expected);
		return -EINVAL;
	}
	r = read_prefix(k, &pm.local, buf, why);
	if (r == 0)
		r = read_prefix(k, &pm.remote, remote, why);
	if (r == 0)
		memcpy(field, &pm, sizeof(pm));
	return r;
}

static void write_pair_mode(const struct config_key *k, const void *field, char *text, size_t cap)
{
	char local[ADDR_TEXT_MAX], remote[ADDR_TEXT_MAX];
	struct pair_mode pm;

	(void)k;
	memcpy(&pm, field, sizeof(pm));
	snprintf(text, cap, "%s~%s=%s", addr_write_prefix(&pm.local, local, sizeof(local)),
	         addr_write_prefix(&pm.remote, remote, sizeof(remote)), mode_words[pm.mode]);
}

const struct config_type type_pair_mode = {.expected = "LOCAL~REMOTE=MODE such as 10.1.4.0/24~10.2.4.0/24=host",
                                           .read = read_pair_mode,
                                           .write = write_pair_mode};
