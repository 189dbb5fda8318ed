/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/util/units.c"
#include "daemon/util/addr.c"
#include "daemon/config/config_types.c"
#include "daemon/config/config_keys.c"
#include "daemon/config/config_check.c"
#include "daemon/config/config.c"

#define FILE_NAME "/etc/longreach/site-b.conf"

/* The least that a link needs, one key per line: lines 2-4, 6-8 and 10. */
#define LINK_PART "[Link]\nLanPort=eth1\nLocalPrefix=10.1.0.0/16\nRemotePrefix=10.2.0.0/16\n"
#define PATH_PART "[Path]\nLocalAddress=192.0.2.1\nRemoteAddress=198.51.100.1\nRate=100G\n"
#define SECURITY  "[Security]\nEncryption=none\n"
#define MINIMAL   LINK_PART PATH_PART SECURITY
#define NEXT_LINE "11" /* the first one behind MINIMAL */

static int parse(const char *text, struct link_config *c, char err[CONFIG_ERR_MAX])
{
	return config_parse(FILE_NAME, text, strlen(text), c, err);
}

static void accepts(const char *text, struct link_config *c)
{
	char err[CONFIG_ERR_MAX];

	if (parse(text, c, err) != 0)
		fail_msg("refused: %s\n%s", err, text);
	assert_string_equal(err, "");
}

/* The whole message, after the file name. */
static void refuses_text(const char *text, const char *message)
{
	struct link_config c;
	char err[CONFIG_ERR_MAX], want[CONFIG_ERR_MAX];

	snprintf(want, sizeof(want), "%s:%s", FILE_NAME, message);
	if (parse(text, &c, err) != -EINVAL)
		fail_msg("accepted:\n%s", text);
	assert_string_equal(err, want);
}

static void refuses_line(const char *section, const char *line, const char *complaint)
{
	char text[2048], message[CONFIG_ERR_MAX];

	snprintf(text, sizeof(text), "%s[%s]\n%s\n", MINIMAL, section, line);
	snprintf(message, sizeof(message), "12: %s", complaint);
	refuses_text(text, message);
}

static void accepts_line(const char *section, const char *line, struct link_config *c)
{
	char text[2048];

	snprintf(text, sizeof(text), "%s[%s]\n%s\n", MINIMAL, section, line);
	accepts(text, c);
}

static void config_parse__minimal_file_and_its_defaults(void **state)
{
	struct link_config c;

	(void)state;
	accepts(MINIMAL, &c);
	assert_string_equal(c.name, "site-b");
	assert_string_equal(c.path, FILE_NAME);
	assert_int_equal(c.nlan_ports, 1);
	assert_string_equal(c.lan_ports[0], "eth1");
	assert_int_equal(c.nlocal, 1);
	assert_int_equal(c.local[0].len, 96 + 16);
	assert_int_equal(c.nremote, 1);
	assert_int_equal(c.paths[0].rate_bps, 100000000000ull);
	assert_int_equal(c.ack_mode, ACK_MODE_HOST);
	assert_int_equal(c.distance_m, 0);
	assert_int_equal(c.lanes, 64);
	assert_int_equal(c.workers, 1);
	assert_int_equal(c.ncpus, 0);
	assert_int_equal(c.cpus[0], -1);
	assert_int_equal(c.paths[0].port, 4790);
	assert_int_equal(c.paths[0].mtu, 1500);
	assert_string_equal(c.arena_dir, "/run/longreach");
	assert_int_equal(c.arena_bytes, 0);
	assert_int_equal(c.max_flows, 16384);
	assert_int_equal(c.reorder_ns, 30 * US);
	assert_int_equal(c.lan_window_bytes, 1 << 20);
	assert_int_equal(c.lan_host_window_bytes, 4 << 20);
	assert_int_equal(c.lan_timeout_ns, 20 * MS);
	assert_int_equal(c.stall_ns, 500 * MS);
	assert_int_equal(c.barrier_max_ns, 1 * S);
	assert_int_equal(c.nbarrier_skip, 1);
	assert_int_equal(c.barrier_skip[0], 22);
	assert_int_equal(config_barrier(&c), BARRIER_OFF);
	assert_int_equal(c.quarantine_ns, 100 * MS);
	assert_int_equal(c.dead_peer_ns, 2 * S);
	assert_int_equal(c.keepalive_ns, 250 * MS);
	assert_true(c.rnr_retry_infinite);
}

static void config_parse__every_key_takes_a_good_value(void **state)
{
	struct link_config c;

	(void)state;
	accepts("[Link]\n"
	        "LanPort=eth1, eth2 eth3\n"
	        "LanPort=eth4\n"
	        "LocalPrefix=10.1.0.0/16 10.3.0.7\n"
	        "LocalPrefix=2001:db8:1::/48\n"
	        "RemotePrefix = 10.2.0.0/16 ; the other site\n"
	        "AckMode=near\n"
	        "Distance=300km\n"
	        "Lanes=128\n"
	        "Workers=2\n"
	        "CPUs=4 6\n"
	        "Barrier=pair\n"
	        "BarrierSkip=443 2049\n"
	        "BarrierMax=2s\n"
	        "[Path]\n"
	        "LocalAddress=2001:db8:ffff::1\n"
	        "RemoteAddress=2001:db8:ffff::2\n"
	        "Port=5000\n"
	        "Rate=2.5Gbit/s\n"
	        "MTU=9000\n"
	        "[Buffer]\n"
	        "Directory=/mnt/huge\n"
	        "Size=16GiB\n"
	        "MaxFlows=100000\n"
	        "[Tuning]\n"
	        "ReorderWindow=50us\n"
	        "LanWindow=2MiB\n"
	        "LanHostWindow=3MiB\n"
	        "LanTimeout=5ms\n"
	        "StallAfter=1s\n"
	        "Quarantine=200ms\n"
	        "DeadPeer=3s\n"
	        "Keepalive=500ms\n"
	        "RnrRetry=finite\n"
	        "RekeyAfter=1000\n"
	        "[Security]\n"
	        "Encryption=chacha20-poly1305\n"
	        "Certificate=/k/a.crt\n"
	        "Key=/k/a.key\n"
	        "CA=/k/ca.crt\n"
	        "PeerName=b.link-1\n",
	        &c);
	assert_int_equal(c.nlan_ports, 4);
	assert_string_equal(c.lan_ports[3], "eth4");
	assert_int_equal(c.nlocal, 3);
	assert_int_equal(c.local[1].len, 128);
	assert_int_equal(c.local[2].len, 48);
	assert_int_equal(c.nremote, 1);
	assert_int_equal(c.ack_mode, ACK_MODE_NEAR);
	assert_int_equal(c.distance_m, 300000);
	assert_int_equal(c.lanes, 128);
	assert_int_equal(c.workers, 2);
	assert_int_equal(c.ncpus, 2);
	assert_int_equal(c.cpus[1], 6);
	assert_int_equal(c.cpus[2], -1);
	assert_int_equal(c.paths[0].remote.b[15], 2);
	assert_int_equal(c.paths[0].port, 5000);
	assert_int_equal(c.paths[0].rate_bps, 2500000000ull);
	assert_int_equal(c.paths[0].mtu, 9000);
	assert_string_equal(c.arena_dir, "/mnt/huge");
	assert_int_equal(c.arena_bytes, 16ull << 30);
	assert_int_equal(c.max_flows, 100000);
	assert_int_equal(c.reorder_ns, 50 * US);
	assert_int_equal(c.lan_window_bytes, 2 << 20);
	assert_int_equal(c.lan_host_window_bytes, 3 << 20);
	assert_int_equal(c.lan_timeout_ns, 5 * MS);
	assert_int_equal(c.stall_ns, 1 * S);
	assert_int_equal(c.barrier_max_ns, 2 * S);
	assert_int_equal(c.nbarrier_skip, 2);
	assert_int_equal(c.barrier_skip[1], 2049);
	assert_int_equal(config_barrier(&c), BARRIER_PAIR);
	assert_int_equal(c.quarantine_ns, 200 * MS);
	assert_int_equal(c.dead_peer_ns, 3 * S);
	assert_int_equal(c.keepalive_ns, 500 * MS);
	assert_false(c.rnr_retry_infinite);
}

static void config_parse__every_key_refuses_a_bad_value(void **state)
{
	(void)state;
	refuses_line("Link", "LanPort=a/b", "LanPort=a/b: expected the name of a network interface, such as enp1s0f0");
	refuses_line("Link", "LanPort=", "LanPort=: expected the name of a network interface, such as enp1s0f0");
	refuses_line("Link", "LanPort=sixteen-letters-", "LanPort=sixteen-letters-: too long: at most 15 characters");
	refuses_line("Link", "LocalPrefix=10.1/16",
	             "LocalPrefix=10.1/16: expected prefixes such as 10.1.0.0/16 or 2001:db8:1::/48");
	refuses_line("Link", "LocalPrefix=10.9.0.1/16",
	             "LocalPrefix=10.9.0.1/16: address bits after the prefix length are set: expected 10.9.0.0/16");
	refuses_line("Link", "RemotePrefix=10.9.0.0/33",
	             "RemotePrefix=10.9.0.0/33: expected prefixes such as 10.1.0.0/16 or 2001:db8:1::/48");
	refuses_line("Link", "RemotePrefix=::/0",
	             "RemotePrefix=::/0: too wide: expected a longer prefix, such as 2001:db8::/32");
	refuses_line("Link", "AckMode=fast", "AckMode=fast: expected near, far or host");
	refuses_line("Link", "PairAckMode=10.1.4.0/24=host",
	             "PairAckMode=10.1.4.0/24=host: expected LOCAL~REMOTE=MODE such as "
	             "10.1.4.0/24~10.2.4.0/24=host");
	refuses_line("Link", "PairAckMode=10.1.4.0/24~10.2.4.0/24=fast",
	             "PairAckMode=10.1.4.0/24~10.2.4.0/24=fast: the mode is wrong: expected near, far or host");
	refuses_line(
	    "Link", "PairAckMode=10.1.4.1/24~10.2.4.0/24=host",
	    "PairAckMode=10.1.4.1/24~10.2.4.0/24=host: address bits after the prefix length are set: expected 10.1.4.0/24");
	refuses_line("Link", "PairAckMode=10.7.4.0/24~10.2.4.0/24=host",
	             "PairAckMode= 10.7.4.0/24 has no address of LocalPrefix=");
	refuses_line("Host", "Group=10.1.0.2", "Group=10.1.0.2: expected ADDRESS+ADDRESS such as 10.1.0.2+10.1.8.2");
	refuses_line("Host", "Group=10.1.0.2+10.1.0.2", "Group=10.1.0.2+10.1.0.2: 10.1.0.2 is given twice: expected it once");
	refuses_line("Host", "Group=10.1.0.2+", "Group=10.1.0.2+: expected ADDRESS+ADDRESS such as 10.1.0.2+10.1.8.2");
	refuses_line(
	    "Host", "Group=10.1.0.1+10.1.0.2+10.1.0.3+10.1.0.4+10.1.0.5",
	    "Group=10.1.0.1+10.1.0.2+10.1.0.3+10.1.0.4+10.1.0.5: more than 4 addresses: split the group, with "
	    "one address in both parts");
	refuses_line("Host", "Group=10.1.0.2+10.9.0.2",
	             "Group= 10.9.0.2 is neither in LocalPrefix= nor in RemotePrefix=");
	refuses_line("Host", "Group=10.1.0.2+10.2.0.2", "Group= 10.2.0.2 is not at the same site as the others");
	refuses_line("Link", "Distance=300", "Distance=300: expected auto, or the length of the fibre such as 300km");
	refuses_line("Link", "Distance=99999km", "Distance=99999km: out of range: expected 1m to 40000km, or auto");
	refuses_line("Link", "Lanes=0", "Lanes=0: out of range: expected 1 to 256");
	refuses_line("Link", "Workers=17", "Workers=17: out of range: expected 1 to 16");
	refuses_line("Link", "CPUs=two", "CPUs=two: expected CPU numbers such as 2 3");
	refuses_line("Link", "CPUs=5000", "CPUs=5000: out of range: CPU numbers go from 0 to 4095");
	refuses_line("Path", "Port=65536", "Port=65536: out of range: expected 1 to 65535");
	refuses_line("Path", "MTU=1499", "MTU=1499: out of range: expected 1500B to 9KiB");
	refuses_line("Path", "MTU=jumbo", "MTU=jumbo: expected bytes, such as 1500, 9000 or 9KiB");
	refuses_line("Buffer", "Directory=run", "Directory=run: expected a path that begins with /");
	refuses_line("Buffer", "Size=lots", "Size=lots: expected auto, or a size such as 512MiB or 16GiB");
	refuses_line("Buffer", "Size=1M", "Size=1M: out of range: expected 16MiB to 4TiB, or auto");
	refuses_line("Buffer", "MaxFlows=1", "MaxFlows=1: out of range: expected 16 to 1048576");
	refuses_line("Tuning", "ReorderWindow=30", "ReorderWindow=30: expected a time such as 30us, 1.5ms or 2s");
	refuses_line("Tuning", "LanWindow=1k", "LanWindow=1k: expected a size such as 512KiB or 1MiB");
	refuses_line("Tuning", "LanTimeout=1us", "LanTimeout=1us: out of range: expected 100us to 10s");
	refuses_line("Tuning", "StallAfter=1ms", "StallAfter=1ms: out of range: expected 10ms to 600s");
	refuses_line("Link", "BarrierMax=61s", "BarrierMax=61s: out of range: expected 0ns to 60s");
	refuses_line("Tuning", "Quarantine=1ms", "Quarantine=1ms: out of range: expected 100ms to 60s");
	refuses_line("Tuning", "DeadPeer=now", "DeadPeer=now: expected a time such as 30us, 1.5ms or 2s");
	refuses_line("Tuning", "Keepalive=61s", "Keepalive=61s: out of range: expected 10ms to 60s");
	refuses_line("Tuning", "RnrRetry=7", "RnrRetry=7: expected infinite or finite");
}

static void config_parse__refuses_bad_path(void **state)
{
	(void)state;
	refuses_text(LINK_PART "[Path]\nRate=fast\n",
	             "6: Rate=fast: expected a bit rate such as 10G, 400G or 2.5Gbit/s");
	refuses_text(LINK_PART "[Path]\nRate=100\n", "6: Rate=100: out of range: expected 1M to 3200G");
	refuses_text(LINK_PART "[Path]\nLocalAddress=192.0.2\n",
	             "6: LocalAddress=192.0.2: expected an IPv4 or IPv6 address such as 192.0.2.1");
	refuses_text(LINK_PART "[Path]\nRemoteAddress=224.0.0.1\n",
	             "6: RemoteAddress=224.0.0.1: expected the address of one machine");
	refuses_text(LINK_PART "[Path]\nRemoteAddress=fe80::1\n",
	             "6: RemoteAddress=fe80::1: is link-local, and a WAN does not route such addresses: expected a "
	             "routable one");
}

static void config_parse__missing_keys(void **state)
{
	(void)state;
	refuses_text("", " [Link] LanPort= is missing: expected the name of a network interface, such as enp1s0f0");
	refuses_text(LINK_PART, " [Path] LocalAddress= is missing: expected an IPv4 or IPv6 address such as 192.0.2.1");
	refuses_text(LINK_PART "[Path]\nLocalAddress=192.0.2.1\nRemoteAddress=192.0.2.2\n",
	             " [Path] Rate= is missing: expected a bit rate such as 10G, 400G or 2.5Gbit/s");
}

static void config_parse__unknown_and_duplicate_keys(void **state)
{
	(void)state;
	refuses_line("Link", "LocalPrefx=10.0.0.0/8", "LocalPrefx= is not a key: expected LocalPrefix= in [Link]");
	refuses_line("Link", "ackmode=near", "ackmode= is not a key: expected AckMode= in [Link]");
	refuses_line("Link", "Mtu=9000", "Mtu= is not a key: expected MTU= in [Path]");
	refuses_line("Link", "MTU=9000", "MTU= is in section [Link]: expected it in [Path]");
	refuses_line("Link", "Colour=red", "Colour= is not a key of [Link]: longreach.conf(5) lists them");
	refuses_line("Pth", "Rate=1G", "[Pth] is not a section: expected [Path]");
	refuses_line("Nonsense", "Rate=1G",
	             "[Nonsense] is not a section: expected [Link], [Host], [Path], [Buffer], [Relay], [Export NAME], "
	        "[Security] or [Tuning]");
	refuses_line("Path", "Rate=40G", "Rate= is given in line 8 too: expected it once");
	refuses_text("Rate=40G\n", "1: Rate=: expected a section such as [Link] before the first key");
}

/* inih would ignore what stands behind the bracket. */
static void config_parse__text_behind_a_section(void **state)
{
	struct link_config c;

	(void)state;
	refuses_text(
	    "[Link] AckMode=near\n" PATH_PART,
	    "1: [Link] AckMode=near: expected nothing behind ] but a comment: write each key in a line of its own");
	refuses_text(
	    "\xef\xbb\xbf[Link]]\n",
	    "1: \xef\xbb\xbf[Link]]: expected nothing behind ] but a comment: write each key in a line of its own");
	accepts(MINIMAL "[Tuning] ; nothing\n[Buffer]\t# 1\n [Link] \r\nAckMode=near\n", &c);
	assert_int_equal(c.ack_mode, ACK_MODE_NEAR);
}

static void config_parse__rules_between_keys(void **state)
{
	(void)state;
	refuses_text(LINK_PART "RemotePrefix=10.1.128.0/17\n" PATH_PART,
	             "4: RemotePrefix= 10.1.128.0/17 overlaps LocalPrefix=10.1.0.0/16: a host is at one site only");
	refuses_text(LINK_PART "LocalPrefix=10.0.0.0/8\n" PATH_PART,
	             "3: LocalPrefix= 10.0.0.0/8 overlaps LocalPrefix=10.1.0.0/16: a host is at one site only");
	refuses_text(LINK_PART "LanPort=eth1\n" PATH_PART, "2: LanPort= eth1 is named twice");
	refuses_text(LINK_PART "[Path]\nLocalAddress=192.0.2.1\nRemoteAddress=192.0.2.1\nRate=1G\n",
	             "7: RemoteAddress= is LocalAddress= too: expected the address of the other edge");
	refuses_text(LINK_PART "[Path]\nLocalAddress=192.0.2.1\nRemoteAddress=2001:db8::1\nRate=1G\n",
	             "7: RemoteAddress= and LocalAddress= are of different families: expected both IPv4 or both IPv6");
	refuses_line("Path", "Port=4791", "Port= 4791 is the port of RoCEv2: expected another port, such as 4790");
	refuses_text(
	    MINIMAL "[Link]\nWorkers=4\nLanes=2\n",
	    "12: Workers= is more than Lanes=2: expected at most that, as a worker without a lane does nothing");
	refuses_line("Link", "CPUs=1 2", "CPUs= names 2 CPUs for Workers=1: expected one for each");
	refuses_text(MINIMAL "[Link]\nWorkers=2\nCPUs=3 3\n",
	             "13: CPUs= names 3 twice: expected a CPU of its own for each worker");
	refuses_text(MINIMAL "[Link]\nWorkers=4\n[Buffer]\nMaxFlows=32\n",
	             "14: MaxFlows= is too little for Workers=4: expected at least 64");
	refuses_line("Tuning", "Keepalive=1500ms",
	             "Keepalive= is more than half of DeadPeer=2s: expected at most half, or one lost keepalive would cut the link");
	refuses_line("Tuning", "LanTimeout=500ms",
	             "LanTimeout= is not below StallAfter=500ms: expected less, or a host would be given up before the first retry");
}

#define TWO_PATHS                                                                                                      \
	LINK_PART "[Path south]\nLocalAddress=192.0.2.1\nRemoteAddress=198.51.100.1\nRate=100G\n"                     \
		  "[Path north]\nLocalAddress=192.0.2.9\nRemoteAddress=198.51.100.9\nRate=10G\n"

static void config_parse__several_paths(void **state)
{
	char text[4096];
	struct link_config c;
	FILE *out;

	(void)state;
	accepts(TWO_PATHS "RateControl=auto\n" SECURITY "[Path south]\nDSCP=46\n", &c);
	assert_int_equal(c.paths[0].rate_control, RATE_auto);
	assert_int_equal(c.paths[1].rate_control, RATE_fixed);
	accepts(TWO_PATHS "Weight=0\nMTU=9000\n" SECURITY "[Path south]\nDSCP=46\n", &c);
	assert_int_equal(c.npaths, 2);
	assert_string_equal(c.paths[0].name, "north"); /* both edges number them alike */
	assert_string_equal(c.paths[1].name, "south");
	assert_int_equal(c.paths[0].rate_bps, 10000000000ull);
	assert_int_equal(c.paths[0].weight, 0);
	assert_int_equal(c.paths[0].mtu, 9000);
	assert_int_equal(c.paths[0].dscp, 0);
	assert_int_equal(c.paths[1].weight, 1);
	assert_int_equal(c.paths[1].mtu, 1500);
	assert_int_equal(c.paths[1].dscp, 46);
	assert_int_equal(c.paths[1].port, 4790);
	assert_int_equal(config_rate_bps(&c), 110000000000ull);
	out = fmemopen(text, sizeof(text), "w");
	for (uint32_t i = 0; i < 2; i++)
		write_section(&c, KEY_PATH, i, out);
	fclose(out);
	assert_non_null(strstr(text, "[Path north]\n"));
	assert_non_null(strstr(text, "[Path south]\n"));
	assert_non_null(strstr(text, "DSCP=46\n"));
}

static void config_parse__several_paths_refused(void **state)
{
	char text[4096];

	(void)state;
	refuses_text(
	    TWO_PATHS SECURITY "[Path]\nRate=1G\n",
	    "16: [Path] has no name, and there is [Path south] too: expected a name for each of several paths");
	refuses_text(TWO_PATHS "Rate=1G\n" SECURITY, "13: Rate= is given in line 12 too: expected it once");
	refuses_text(TWO_PATHS "[Path x]\nRate=1G\n" SECURITY,
	             " [Path x] LocalAddress= is missing: expected an IPv4 or IPv6 address such as 192.0.2.1");
	refuses_text(TWO_PATHS "[Path a/b]\nRate=1G\n" SECURITY,
	             "14: [Path a/b]: expected a name of at most 15 letters, digits and . _ -");
	refuses_text(LINK_PART "[Path b]\nLocalAddress=192.0.2.1\nRemoteAddress=198.51.100.1\nRate=1G\n"
	                       "[Path a]\nLocalAddress=192.0.2.1\nRemoteAddress=198.51.100.9\nRate=1G\n" SECURITY,
	             " [Path b] Port= 4790 is taken at this LocalAddress= by [Path a]: expected another port");
	snprintf(text, sizeof(text), "%s", LINK_PART);
	for (int i = 0; i <= PATHS_MAX; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "[Path p%d]\nRate=1G\n", i);
	refuses_text(text, "22: [Path p8]: more than 8 paths");
}

#define RELAYED MINIMAL "[Relay]\nEnable=yes\n" /* 12 lines */

static void config_parse__exports(void **state)
{
	struct link_config c, again;
	char err[CONFIG_ERR_MAX], text[4096] = RELAYED, *printed = NULL;
	size_t len = 0;
	FILE *out;

	(void)state;
	accepts(RELAYED "[Export one]\nPath=/srv/one\nUser=root\n[Export two]\nMode=write\nUser=nobody\nPath=/srv/two\n"
	                "[Export one]\nMode=read\n",
	        &c);
	assert_int_equal(c.nexports, 2);
	assert_string_equal(c.exports[0].name, "one");
	assert_string_equal(c.exports[0].path, "/srv/one");
	assert_false(c.exports[0].writable);
	assert_string_equal(c.exports[1].user, "nobody");
	assert_true(c.exports[1].writable);
	out = open_memstream(&printed, &len);
	assert_non_null(out);
	config_write(&c, out);
	fclose(out);
	assert_int_equal(config_parse(FILE_NAME, printed, len, &again, err), 0);
	assert_memory_equal(again.exports, c.exports, sizeof(c.exports));
	free(printed);
	accepts(RELAYED, &again); /* they may come and go: they are not the running link's */
	assert_true(config_reloadable(&c, &again, err));
	refuses_text(RELAYED "[Export]\nPath=/srv\n",
	             "14: [Export]: expected [Export NAME], with a name of at most 23 letters, digits and . _ -");
	refuses_text(RELAYED "[Export a/b]\nPath=/srv\n",
	             "14: [Export a/b]: expected [Export NAME], with a name of at most 23 letters, digits and . _ -");
	refuses_text(RELAYED "[Export a]\nUser=root\n", " [Export a] Path= is missing: expected a path that begins with /");
	refuses_text(RELAYED "[Export a]\nPath=/srv\n", " [Export a] User= is missing: expected a user's name");
	refuses_text(RELAYED "[Export a]\nPath=srv\n", "14: Path=srv: expected a path that begins with /");
	refuses_text(RELAYED "[Export a]\nMode=rw\n", "14: Mode=rw: expected read or write");
	refuses_text(RELAYED "[Export a]\nUser=nobody-of-that-name\n", "14: User=nobody-of-that-name: no such user on this machine");
	refuses_text(RELAYED "[Export a]\nPath=/a\nPath=/b\n", "15: Path= is given in line 14 too: expected it once");
	refuses_text(
	    MINIMAL "[Export a]\nPath=/srv\nUser=root\n",
	    " [Relay] Enable= is no, and the file has [Export NAME]: expected Enable=yes, or no [Export NAME]");
	for (int i = 0; i <= EXPORTS_MAX; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "[Export e%d]\nUser=root\n", i);
	refuses_text(text, "46: [Export e16]: more than 16 exports");
}

static void config_reloadable__paths(void **state)
{
	struct link_config from, to;
	char err[CONFIG_ERR_MAX];

	(void)state;
	accepts(TWO_PATHS SECURITY, &from);
	to = from;
	to.paths[1].rate_bps = 1000000000;
	assert_true(config_reloadable(&from, &to, err));
	to.paths[1].weight = 3;
	assert_false(config_reloadable(&from, &to, err));
	assert_non_null(strstr(err, "Weight="));
	to = from;
	to.npaths = 1;
	assert_false(config_reloadable(&from, &to, err));
	assert_non_null(strstr(err, "paths cannot be added or removed"));
}

static void config_parse__syntax(void **state)
{
	struct link_config c;

	(void)state;
	refuses_text("[Link\nLanPort=eth1\n", "1: [Link: expected [Section] or Key=value");
	refuses_text(LINK_PART "hello\nRate=fast\n", "5: hello: expected [Section] or Key=value");
	/* Blanks in front of a key do not make it a continuation of the line before. */
	accepts("# a comment\n; another\n\n" LINK_PART "  [Path]\n\tLocalAddress=192.0.2.1\n"
	        "   RemoteAddress=198.51.100.1\r\n Rate=1G\n" SECURITY,
	        &c);
	refuses_line("Tuning", "DeadPeer=2s # long",
	             "DeadPeer=2s # long: expected a time such as 30us, 1.5ms or 2s (a comment behind a value begins "
	             "with ;)");
}

/* Every error of a file, and none that only follows from another one. */
static void config_parse_all__tells_all(void **state)
{
	static struct config_reading r;
	static const char text[] = "[Link]\n"
	                           "LanPort=\"eth1\"\n"
	                           "LocalPrefix=10.1.0.0/16\n"
	                           "RemotePrefix=10.1.2.0/24\n"
	                           "hello\n"
	                           "AckMode=maybe\n"
	                           "[Paths]\n"
	                           "Rate=1G\n"
	                           "Port=1\n"
	                           "[Path]\n"
	                           "LocalAddress=192.0.2.1\n"
	                           "Rate=fast\n"
	                           "[Security]\n"
	                           "Encryption=none\n"
	                           "[Tuning]\n"
	                           "Keepalive=1500ms\n";
	static const char *const expected[] = {
	    "2: LanPort=\"eth1\": expected the name of a network interface, such as enp1s0f0 (a value stands without "
	    "quotes)",
	    "5: hello: expected [Section] or Key=value",
	    "6: AckMode=maybe: expected near, far or host",
	    "8: [Paths] is not a section: expected [Path]",
	    "12: Rate=fast: expected a bit rate such as 10G, 400G or 2.5Gbit/s",
	    " [Path] RemoteAddress= is missing: expected an IPv4 or IPv6 address such as 192.0.2.1",
	    "4: RemotePrefix= 10.1.2.0/24 overlaps LocalPrefix=10.1.0.0/16: a host is at one site only",
	    "16: Keepalive= is more than half of DeadPeer=2s: expected at most half, or one lost keepalive would cut the link",
	};
	struct link_config c;

	(void)state;
	assert_int_equal(config_parse_all(FILE_NAME, text, strlen(text), &c, &r), -EINVAL);
	for (uint32_t i = 0; i < r.nerrors && i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_string_equal(r.error[i] + strlen(FILE_NAME) + 1, expected[i]);
	assert_int_equal(r.nerrors, sizeof(expected) / sizeof(expected[0]));
	assert_int_equal(r.left_out, 0);
	assert_false(config_is_sound(&r, "LanPort"));
	assert_true(config_is_sound(&r, "LocalAddress"));
}

static void config_parse_all__is_bounded(void **state)
{
	static struct config_reading r;
	static char text[CONFIG_FILE_MAX];
	struct link_config c;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i += 2)
		memcpy(text + i, "x\n", 2);
	assert_int_equal(config_parse_all(FILE_NAME, text, sizeof(text), &c, &r), -EINVAL);
	assert_int_equal(r.nerrors, CONFIG_ERRORS_MAX);
	assert_true(r.left_out > sizeof(text) / 2 - CONFIG_ERRORS_MAX);
}

static void config_blame__names_the_line_of_the_item(void **state)
{
	static struct config_reading r;
	static const char text[] = MINIMAL "[Link]\nLanPort=eth2 eth3\n";
	struct link_config c;

	(void)state;
	assert_int_equal(config_parse_all(FILE_NAME, text, strlen(text), &c, &r), 0);
	config_blame(&r, &c, "LanPort", 2, "no %s", "good");
	assert_string_equal(r.error[0], FILE_NAME ":12: LanPort=eth3: no good");
	config_blame(&r, &c, "Directory", 0, "is a default");
	assert_string_equal(r.error[1], FILE_NAME ": Directory=/run/longreach: is a default");
}

static void config_parse__hostile_bytes(void **state)
{
	static const char with_nul[] = MINIMAL "[Tu\0ning]\n";
	static char text[CONFIG_FILE_MAX + 2];
	struct link_config c;
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(config_parse("x.conf", with_nul, sizeof(with_nul) - 1, &c, err), -EINVAL);
	assert_string_equal(err, "x.conf:" NEXT_LINE ": has a byte 0: expected text");
	memset(text, 'a', sizeof(text));
	assert_int_equal(config_parse("x.conf", text, 5000, &c, err), -EINVAL);
	assert_string_equal(
	    err, "x.conf:1: longer than 197 characters: write a long list in several lines, each with its key");
	assert_int_equal(config_parse("x.conf", text, sizeof(text), &c, err), -EINVAL);
	assert_string_equal(err, "x.conf: longer than 65536 bytes: expected a link file");
	refuses_line("Link", "LanPort=eth\v3",
	             "LanPort=eth?3: expected the name of a network interface, such as enp1s0f0");
	refuses_line("Link", "LocalPrefix=\x01\x1b[2J",
	             "LocalPrefix=??[2J: expected prefixes such as 10.1.0.0/16 or 2001:db8:1::/48");
}

static void config_parse__a_list_has_an_end(void **state)
{
	char text[4096] = MINIMAL "[Link]\n";
	struct link_config c;
	char err[CONFIG_ERR_MAX];

	(void)state;
	for (unsigned i = 0; i < PREFIXES_MAX; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "RemotePrefix=10.3.%u.0/24\n", i);
	assert_int_equal(parse(text, &c, err), -EINVAL);
	assert_string_equal(err, FILE_NAME ":43: RemotePrefix=10.3.31.0/24: too many: at most 32");
}

static void config_parse__file_names(void **state)
{
	struct link_config c;
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(config_parse("/tmp/a b.conf", MINIMAL, strlen(MINIMAL), &c, err), -EINVAL);
	assert_string_equal(err,
	                    "/tmp/a b.conf: the file's name is the link's: expected at most 31 letters, digits and . "
	                    "_ -");
	assert_int_equal(config_parse("/tmp/.conf", MINIMAL, strlen(MINIMAL), &c, err), -EINVAL);
	assert_int_equal(config_parse("to-b", MINIMAL, strlen(MINIMAL), &c, err), 0);
	assert_string_equal(c.name, "to-b");
}

static void config_load__says_why_not(void **state)
{
	struct link_config c;
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(config_load("/nonexistent/x.conf", &c, err), -ENOENT);
	assert_string_equal(err, "/nonexistent/x.conf: cannot be read: No such file or directory");
	assert_int_equal(config_load("/", &c, err), -EISDIR);
}

/* Only a link file that is not there opens the way: its target may come with a mount. */
static void config_load__symbolic_link_without_its_target(void **state)
{
	static struct config_reading reading;
	struct link_config c;
	char err[CONFIG_ERR_MAX], dir[] = "/tmp/test_config.XXXXXX", path[64], expected[256];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/tokyo.conf", dir);
	assert_int_equal(symlink("/nonexistent/x.conf", path), 0);
	snprintf(expected, sizeof(expected), "%s: points to a file that is not there: /nonexistent/x.conf", path);
	assert_int_equal(config_load(path, &c, err), -EINVAL);
	assert_string_equal(err, expected);
	assert_int_equal(config_load_all(path, &c, &reading), -EINVAL);
	assert_int_equal(reading.nerrors, 1);
	assert_string_equal(reading.error[0], expected);
	unlink(path);
	assert_int_equal(config_load(path, &c, err), -ENOENT);
	rmdir(dir);
}

static void config_parse__fec(void **state)
{
	struct link_config c;

	(void)state;
	accepts(MINIMAL, &c);
	assert_int_equal(c.fec.mode, FEC_AUTO);
	accepts(MINIMAL "[Link]\nFEC=off\n", &c);
	assert_int_equal(c.fec.mode, FEC_OFF);
	accepts(MINIMAL "[Path]\nRateControl=auto\n", &c);
	assert_int_equal(c.fec.mode, FEC_OFF);
	accepts(MINIMAL "[Path]\nRateControl=auto\n[Link]\nFEC=auto\n", &c);
	assert_int_equal(c.fec.mode, FEC_AUTO);
	accepts(MINIMAL "[Link]\nFEC=auto\n", &c);
	assert_int_equal(c.fec.mode, FEC_AUTO);
	accepts(MINIMAL "[Link]\nFEC=64+4\n", &c);
	assert_true(c.fec.mode == FEC_FIXED && c.fec.k == 64 && c.fec.m == 4);
	refuses_line("Link", "FEC=64", "FEC=64: expected off, auto, or K+M such as 64+4");
	refuses_line("Link", "FEC=64+4x", "FEC=64+4x: expected off, auto, or K+M such as 64+4");
	refuses_line("Link", "FEC=4+5",
	             "FEC=4+5: expected K+M with K from 1 to 240 and M from 1 to 16, and no more than K");
	refuses_line("Link", "FEC=241+4",
	             "FEC=241+4: expected K+M with K from 1 to 240 and M from 1 to 16, and no more than K");
}

/* What --print-config says is read back as the same configuration. */
static void config_write__can_be_read_back(void **state)
{
	struct link_config c, again;
	char *text;
	size_t len;
	FILE *f;
	char err[CONFIG_ERR_MAX];

	(void)state;
	accepts(MINIMAL "[Link]\nLocalPrefix=2001:db8::/32 10.9.0.0/24\nWorkers=2\nCPUs=1 3\nDistance=1500m\n"
	                "FEC=10+2\n[Tuning]\nLanTimeout=1.5ms\nRnrRetry=finite\n",
	        &c);
	f = open_memstream(&text, &len);
	assert_non_null(f);
	config_write(&c, f);
	fclose(f);
	if (config_parse(FILE_NAME, text, len, &again, err) != 0)
		fail_msg("%s\n%s", err, text);
	assert_memory_equal(&c, &again, sizeof(c));
	assert_non_null(strstr(text, "# The other edge's address on the WAN.\nRemoteAddress=198.51.100.1\n"));
	free(text);
}

/* Gives a key another value than it has, of a few that suit some kind of value. */
static void change(const struct config_key *k, struct link_config *c)
{
	char values[] =
	    "eth7 10.9.0.0/16 10.9.9.9 10.1.9.0/24~10.2.0.0/16=host 10.1.0.5+10.1.0.6 10.1.0.0/16=get:x yes no "
	    "finite infinite host far off auto pair read write none dpdk pci:0000:01:00.0 aes-128-gcm cubic 3 7 "
	    "40 128 1500 9000 70000 2ms 250ms 7s 100M 3MiB 8GiB 77km /some/file /some/other nobody 0 b.link-7";
	char was[CONFIG_ITEM_MAX] = "", is[CONFIG_ITEM_MAX], why[CONFIG_WHY_MAX], *at = values, *value;

	if (config_key_count(k, c) > 0)
		k->type->write(k, config_key_item(k, c, 0), was, sizeof(was));
	while ((value = strsep(&at, " ")) != NULL) {
		if (k->flags & KEY_LIST)
			config_key_clear(k, c);
		if (config_key_read(k, c, 0, value, why) < 0)
			continue;
		k->type->write(k, config_key_item(k, c, 0), is, sizeof(is));
		if (strcmp(is, was) != 0)
			return;
	}
	fail_msg("no other value for %s=", k->name);
}

#define WITH_EXPORT MINIMAL "[Relay]\nEnable=yes\n[Export data]\nPath=/srv/data\nUser=root\n"

static void config_digest__differs_if_any_key_does(void **state)
{
	struct link_config base, other;

	(void)state;
	accepts(WITH_EXPORT, &base);
	assert_true(base.digest == config_digest(&base));
	for (uint32_t i = 0; i < config_nkeys; i++) {
		other = base;
		change(&config_keys[i], &other);
		if (config_digest(&other) == base.digest)
			fail_msg("the same digest with another %s=", config_keys[i].name);
	}
	accepts("# as before\n" WITH_EXPORT, &other);
	assert_true(other.digest == base.digest);
	accepts(MINIMAL "[Relay]\nEnable=yes\n[Export date]\nPath=/srv/data\nUser=root\n", &other);
	assert_true(other.digest != base.digest);
}

/* What the daemon changes in a configuration that it runs with is not in the file. */
static void config_digest__is_of_the_file(void **state)
{
	struct link_config c, again;

	(void)state;
	accepts_line("Link", "AckMode=near", &c);
	c.workers = 2;
	c.barrier_kept = true;
	accepts_line("Link", "AckMode=near", &again);
	assert_true(c.digest == again.digest);
	accepts_line("Link", "AckMode=near\nPairAckMode=10.1.9.0/24~10.2.0.0/16=host", &again);
	assert_true(c.digest != again.digest);
}

/* near -> host -> near, as one tries it out: the barrier stays on all the while. */
static void config_carry_over__keeps_the_barrier_that_auto_turned_on(void **state)
{
	struct link_config near, host, again;
	char err[CONFIG_ERR_MAX];

	(void)state;
	accepts_line("Link", "AckMode=near", &near);
	accepts(MINIMAL, &host);
	assert_true(config_restarts(&near, &host));
	config_carry_over(&near, &host);
	assert_true(host.barrier_kept);
	assert_int_equal(config_barrier(&host), BARRIER_PAIR);
	assert_true(config_reloadable(&near, &host, err));
	assert_false(config_restarts(&near, &host));

	accepts_line("Tuning", "DeadPeer=5s", &again);
	config_carry_over(&host, &again);
	assert_int_equal(config_barrier(&again), BARRIER_PAIR);
	assert_true(config_reloadable(&host, &again, err));

	/* the file it started with is that configuration again, byte for byte: "unchanged" */
	accepts_line("Link", "AckMode=near", &again);
	config_carry_over(&host, &again);
	assert_memory_equal(&again, &near, sizeof(near));
	assert_true(config_reloadable(&host, &again, err));
}

/* A buffer that owes early ACKs of a life before turns it on at the start; the reload of that file changes nothing. */
static void config_carry_over__keeps_the_barrier_of_a_buffer_that_owes(void **state)
{
	struct link_config from, to;

	(void)state;
	accepts(MINIMAL, &from);
	assert_int_equal(config_barrier(&from), BARRIER_OFF);
	from.barrier_owed = true;
	assert_int_equal(config_barrier(&from), BARRIER_PAIR);
	accepts(MINIMAL, &to);
	config_carry_over(&from, &to);
	assert_memory_equal(&to, &from, sizeof(to));
	accepts_line("Link", "Barrier=off", &to);
	config_carry_over(&from, &to);
	assert_false(to.barrier_owed || to.barrier_kept);
	from.barrier = BARRIER_SAYS_OFF;
	assert_int_equal(config_barrier(&from), BARRIER_OFF);
}

static void config_carry_over__turns_nothing_on(void **state)
{
	struct link_config from, to;
	char err[CONFIG_ERR_MAX];

	(void)state;
	accepts(MINIMAL, &from);
	accepts_line("Link", "AckMode=near", &to);
	config_carry_over(&from, &to);
	assert_false(to.barrier_kept);
	assert_true(config_reloadable(&from, &to, err)); /* the port has to take all IP: by a restart of the link */
	assert_true(config_restarts(&from, &to));

	/* what the file says in words is not overruled */
	accepts_line("Link", "AckMode=near", &from);
	accepts_line("Link", "Barrier=off", &to);
	config_carry_over(&from, &to);
	assert_int_equal(config_barrier(&to), BARRIER_OFF);
	assert_true(config_reloadable(&from, &to, err));
	assert_true(config_restarts(&from, &to));
}

/* Other groups are taken up as it runs; on or off takes memory. */
static void config_restarts__fec_on_or_off(void **state)
{
	struct link_config off, fixed, automatic;
	char err[CONFIG_ERR_MAX];

	(void)state;
	accepts_line("Link", "FEC=off", &off);
	accepts_line("Link", "FEC=64+4", &fixed);
	accepts_line("Link", "FEC=auto", &automatic);
	assert_true(config_reloadable(&fixed, &automatic, err));
	assert_false(config_restarts(&fixed, &automatic));
	assert_true(config_reloadable(&off, &automatic, err));
	assert_true(config_restarts(&off, &automatic));
	assert_true(config_restarts(&fixed, &off));
}

static void config_reloadable__names_the_key(void **state)
{
	struct link_config a, b;
	char err[CONFIG_ERR_MAX];

	(void)state;
	accepts(MINIMAL, &a);
	accepts_line("Link", "AckMode=near\nBarrier=off", &b);
	assert_true(config_reloadable(&a, &b, err));
	assert_false(config_restarts(&a, &b));
	accepts_line("Link", "BarrierSkip=443\nBarrierMax=2s", &b);
	assert_true(config_reloadable(&a, &b, err));
	accepts_line("Link", "PairAckMode=10.1.4.0/24~10.2.4.0/24=far, 10.1.0.0/16~10.2.9.9/32=host", &b);
	assert_true(config_reloadable(&a, &b, err));
	assert_true(config_restarts(&a, &b)); /* turns the barrier on */
	assert_int_equal(b.npair_modes, 2);
	assert_int_equal(b.pair_modes[0].mode, ACK_MODE_FAR);
	assert_int_equal(b.pair_modes[1].remote.len, 128);
	accepts_line("Tuning", "DeadPeer=5s", &b);
	assert_true(config_reloadable(&a, &b, err));
	accepts_line("Link", "Lanes=32", &b);
	assert_false(config_reloadable(&a, &b, err));
	assert_string_equal(err, FILE_NAME ": Lanes= cannot change while the link runs (from 64 to 32): "
	                                   "`longreach restart site-b` takes the file up");
	accepts_line("Host", "Group=10.1.0.2+10.1.0.3", &b);
	assert_false(config_reloadable(&a, &b, err));
	accepts_line("Link", "CPUs=1", &b);
	assert_false(config_reloadable(&a, &b, err));
	assert_string_equal(err, FILE_NAME ": CPUs= cannot change while the link runs (from nothing to 1): "
	                                   "`longreach restart site-b` takes the file up");
}

static void config_compatible__links_that_collide(void **state)
{
	struct link_config a, b;
	char err[CONFIG_ERR_MAX];

	(void)state;
	accepts(MINIMAL, &a);
	b = a;
	assert_int_equal(config_compatible(&a, &b, err), -EINVAL);
	snprintf(b.name, sizeof(b.name), "other");
	snprintf(b.path, sizeof(b.path), "/etc/longreach/other.conf");
	assert_int_equal(config_compatible(&a, &b, err), -EINVAL);
	assert_string_equal(err, "/etc/longreach/other.conf: Port=4790 is taken at this LocalAddress= by " FILE_NAME
	                         ": expected another port");
	b.paths[0].port = 4789;
	assert_int_equal(config_compatible(&a, &b, err), -EINVAL);
	assert_string_equal(err,
	                    "/etc/longreach/other.conf: RemotePrefix=10.2.0.0/16 overlaps RemotePrefix=10.2.0.0/16 "
	                    "of " FILE_NAME ", for the same local hosts: expected one link for each pair of hosts");
	b.remote[0].addr.b[13] = 7;
	assert_int_equal(config_compatible(&a, &b, err), 0);
	/* The same hosts there, others here. */
	b.remote[0] = a.remote[0];
	b.local[0].addr.b[13] = 7;
	assert_int_equal(config_compatible(&a, &b, err), 0);
}

/* --- what is written about the keys elsewhere names all of them --- */

static char *slurp(const char *path)
{
	char *text = test_malloc(CONFIG_FILE_MAX + 1);
	ssize_t n = read_whole(path, text, CONFIG_FILE_MAX);

	if (n < 0)
		fail_msg("%s: %s (tests run in the top folder)", path, strerror((int)-n));
	text[n] = '\0';
	return text;
}

#define KEYS(file, key, ca, name)                                                                                      \
	"[Security]\n" file key ca name
#define HAS_CERTIFICATE "Certificate=/k/a.crt\n"
#define HAS_KEY         "Key=/k/a.key\n"
#define HAS_CA          "CA=/k/ca.crt\n"
#define HAS_NAME        "PeerName=b.link1\n"

static void security__keys_or_none(void **state)
{
	struct link_config c;

	(void)state;
	accepts(LINK_PART PATH_PART KEYS(HAS_CERTIFICATE, HAS_KEY, HAS_CA, HAS_NAME), &c);
	assert_int_equal(c.encryption, SEAL_AES_256_GCM); /* by default */
	assert_string_equal(c.peer_name, "b.link1");
	accepts(LINK_PART PATH_PART "[Security]\nPSKFile=/k/psk\nEncryption=chacha20-poly1305\n", &c);
	assert_int_equal(c.encryption, SEAL_CHACHA20_POLY1305);
	accepts(MINIMAL, &c);
	assert_int_equal(c.encryption, SEAL_NONE);
	refuses_text(LINK_PART PATH_PART, " [Security] Encryption= is aes-256-gcm, but the file names no keys: "
	                                  "`longreach keygen site-b` makes them and prints the lines to write here; or "
	                                  "write Encryption=none if anybody on the line may read and forge everything");
	refuses_text(LINK_PART PATH_PART KEYS(HAS_CERTIFICATE, HAS_KEY, HAS_CA, ""),
	             " [Security] PeerName= is missing: certificates need Certificate=, Key=, CA= and PeerName=");
	refuses_text(LINK_PART PATH_PART KEYS(HAS_CERTIFICATE, "", HAS_CA, HAS_NAME),
	             " [Security] Key= is missing: certificates need Certificate=, Key=, CA= and PeerName=");
	refuses_text(LINK_PART PATH_PART KEYS(HAS_CERTIFICATE, HAS_KEY, HAS_CA, HAS_NAME) "PSKFile=/k/psk\n",
	             "14: PSKFile= is given together with certificates: expected one of the two");
}

/* Part of the message, which is longer than what matters here. */
static void refuses_because(const char *line, const char *why)
{
	char text[2048], err[CONFIG_ERR_MAX];
	struct link_config c;

	snprintf(text, sizeof(text), "%s[Link]\n%s\n", MINIMAL, line);
	assert_int_equal(parse(text, &c, err), -EINVAL);
	if (strstr(err, why) == NULL)
		fail_msg("not for the expected reason: %s", err);
}

static void config_check__engine(void **state)
{
	struct link_config c;

	(void)state;
	accepts_line("Link", "Engine=packet", &c);
	assert_int_equal(c.engine, ENGINE_PACKET);
	accepts_line("Link", "Engine=dpdk\nLanDevice=net_af_packet0,iface=eth1,framesz=8192,blocksz=8192", &c);
	assert_int_equal(c.engine, ENGINE_DPDK);
	assert_int_equal(c.nlan_devices, 1);
	assert_string_equal(c.lan_devices[0], "net_af_packet0,iface=eth1,framesz=8192,blocksz=8192");
	accepts_line("Link", "LanPort=eth2\nEngine=dpdk\nLanDevice=0000:3b:00.0  0000:3b:00.1,representor=0", &c);
	assert_int_equal(c.nlan_devices, 2);
	assert_string_equal(c.lan_devices[1], "0000:3b:00.1,representor=0");
	refuses_because("Engine=xdp", "expected packet or dpdk");
	refuses_because("LanDevice=--vdev", "a driver of DPDK");
	refuses_because("LanDevice=net_null0", "is for Engine=dpdk");
	refuses_because("Engine=dpdk", "names 0 devices for 1 interfaces");
	refuses_because("Engine=dpdk\nLanDevice=net_null0 net_null0", "names 2 devices");
	refuses_because("LanPort=eth2\nEngine=dpdk\nLanDevice=net_null0 net_null0", "named twice");
	refuses_because("Workers=2\nEngine=dpdk\nLanDevice=net_null0", "one queue for each device");
	refuses_because("Pfc=3\nEngine=dpdk\nLanDevice=net_null0", "expected off");
}

static void config_check__wan_device(void **state)
{
	static const char *const device = "net_af_packet1,iface=eth3,framesz=2048";
	struct link_config c;
	char value[8];

	(void)state;
	accepts_line("Link", "Engine=dpdk\nLanDevice=net_null0\nWanDevice=net_af_packet1,iface=eth3", &c);
	assert_int_equal(c.nwan_devices, 1);
	assert_string_equal(c.wan_devices[0], "net_af_packet1,iface=eth3");
	accepts_line("Link", "Engine=dpdk\nLanDevice=net_null0", &c);
	assert_int_equal(c.nwan_devices, 0);
	refuses_because("WanDevice=net_af_packet1,iface=eth3", "is for Engine=dpdk");
	refuses_because("Engine=dpdk\nLanDevice=net_null0\nWanDevice=net_af_packet1,iface=e net_af_packet2,iface=f",
	                "names 2 devices for 1 paths");
	refuses_because("Engine=dpdk\nLanDevice=net_null0\nWanDevice=net_af_packet1", "expected iface=");
	refuses_because("Engine=dpdk\nLanDevice=net_null0\nWanDevice=net_af_packet,iface=eth3", "and a number");
	refuses_because("Engine=dpdk\nLanDevice=net_null0\nWanDevice=net_vhost1,iface=/tmp/s", "would hear neither ARP");
	refuses_because("Engine=dpdk\nLanDevice=net_null0\nWanDevice=0000:3b:00.0", "would hear neither ARP");
	refuses_because("Engine=dpdk\nLanDevice=net_null0\nWanDevice=net_af_packet1,iface=eth3,framesz=1568",
	                "expected framesz=1584 or more");
	refuses_because("Engine=dpdk\nLanDevice=net_af_packet1,iface=eth1,framesz=4288,blocksz=274432\n"
	                "WanDevice=net_af_packet1,iface=eth1,framesz=4288,blocksz=274432",
	                "is a device of LanDevice= too");
	assert_true(config_device_word(device, "iface", value, sizeof(value)));
	assert_string_equal(value, "eth3");
	assert_true(config_device_word(device, "framesz", value, sizeof(value)));
	assert_string_equal(value, "2048");
	assert_false(config_device_word(device, "face", value, sizeof(value)));
	assert_false(config_device_word(device, "iface", value, 4));
	assert_false(config_device_word("net_af_packet1,iface=", "iface", value, sizeof(value)));
}

#define RING  ",framesz=4288,blocksz=274432"
#define LAN_1 "net_af_packet0,iface=eth1" RING

/* The driver's sockets on one interface share its frames. */
static void config_check__one_packet_device_for_each_interface(void **state)
{
	static const char two_paths[] = LINK_PART
	    "Engine=dpdk\nLanDevice=net_null0\nWanDevice=net_af_packet1,iface=eth3 %s\n"
	    "[Path a]\nLocalAddress=192.0.2.1\nRemoteAddress=198.51.100.1\nRate=1G\n"
	    "[Path b]\nLocalAddress=192.0.2.2\nRemoteAddress=198.51.100.2\nRate=1G\n" SECURITY;
	struct link_config c;
	char text[2048], err[CONFIG_ERR_MAX];

	(void)state;
	refuses_because(
	    "Engine=dpdk\nLanDevice=" LAN_1 "\nWanDevice=net_af_packet1,iface=eth1",
	    ":14: WanDevice= net_af_packet1,iface=eth1: iface=eth1 is of LanDevice=" LAN_1
	    " too, and the kernel would give each frame to one of the two alone: expected one device for each "
	    "interface");
	refuses_because("Engine=dpdk\nLanDevice=eth_af_packet,iface=eth1" RING "\nWanDevice=net_af_packet1,iface=eth1",
	                "is of LanDevice=eth_af_packet,iface=eth1" RING " too");
	accepts_line("Link", "Engine=dpdk\nLanDevice=" LAN_1 "\nWanDevice=net_af_packet1,iface=eth3", &c);
	snprintf(text, sizeof(text), two_paths, "net_af_packet1,iface=eth3"); /* of both */
	accepts(text, &c);
	snprintf(text, sizeof(text), two_paths, "net_af_packet2,iface=eth3");
	assert_int_equal(parse(text, &c, err), -EINVAL);
	assert_non_null(
	    strstr(err, "net_af_packet2,iface=eth3: iface=eth3 is of WanDevice=net_af_packet1,iface=eth3 too"));
}

static void config_check__one_queue(void **state)
{
	struct link_config c;

	(void)state;
	accepts_line(
	    "Link", "Engine=dpdk\nLanDevice=net_vhost0,iface=/s,queues=1\nWanDevice=net_af_packet1,iface=eth3,qpairs=1",
	    &c);
	refuses_because(
	    "Engine=dpdk\nLanDevice=net_vhost0,iface=/s,queues=2",
	    ":13: LanDevice= net_vhost0,iface=/s,queues=2: queues=2: Engine=dpdk reads one queue of a device: expected "
	    "queues=1, or nothing");
	refuses_because("Engine=dpdk\nLanDevice=net_null0\nWanDevice=net_af_packet1,iface=eth3,qpairs=4",
	                "expected qpairs=1");
}

/* Frames of a ring lie one behind the other, in whole blocks, and hold the packets of the LAN or of the path. */
static void config_check__rings_of_packet_devices(void **state)
{
	static const char *const lan = "Engine=dpdk\nLanDevice=net_af_packet0,iface=eth1",
	                         *const wan = "Engine=dpdk\nLanDevice=net_null0\nWanDevice=net_af_packet1,iface=eth3";
	static const struct {
		bool is_lan;
		const char *arguments, *why; /* NULL: sound */
	} cases[] = {
	    {true, RING, NULL},
	    {true, RING ",framecnt=256", NULL},
	    {true, ",framesz=4272,blocksz=1093632", NULL},
	    {true, ",framesz=8192,blocksz=65536,framecnt=64", NULL},
	    {true, "",
	     ":13: LanDevice= net_af_packet0,iface=eth1: frames of 2048 bytes do not hold packets of PMTU 4096: "
	     "expected framesz=4272 or more, such as framesz=4288,blocksz=274432"},
	    {true, ",framesz=4256,blocksz=544768", "expected framesz=4272 or more"},
	    {true, ",framesz=4288",
	     "blocks of 4096 bytes are not whole pages with whole frames of framesz=4288: expected "
	     "blocksz=274432, or a multiple of that"},
	    {true, ",framesz=4288,blocksz=65536", "expected blocksz=274432"},
	    {true, ",framesz=8192,blocksz=8200", "expected blocksz=8192"},
	    {true, ",framesz=4290,blocksz=274432", "framesz=4290: expected a multiple of 16"},
	    {true, RING ",framecnt=100", "100 frames are not whole blocks: expected framecnt= a multiple of 64"},
	    {true, RING ",framecnt=32", "a multiple of 64"},
	    {true, ",framesz=4k", "framesz=4k: expected a number above 0"},
	    {true, RING ",framecnt=0", "framecnt=0: expected a number above 0"},
	    {true, ",framesz=-4096", "framesz=-4096: expected a number above 0"},
	    {false, "", NULL},
	    {false, ",framesz=2048,blocksz=8192,framecnt=512", NULL},
	    {false, ",framesz=9216,blocksz=36864,framecnt=1024", NULL},
	    {false, ",framesz=9216,blocksz=32768", "expected blocksz=36864"},
	    {false, ",framesz=9216", "expected blocksz=36864"},
	    {false, ",framecnt=7", "expected framecnt= a multiple of 2"},
	};
	struct link_config c;
	char line[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "%s%s", cases[i].is_lan ? lan : wan, cases[i].arguments);
		if (cases[i].why)
			refuses_because(line, cases[i].why);
		else
			accepts_line("Link", line, &c);
	}
}

static void config_check__a_packet_device_is_of_its_port(void **state)
{
	(void)state;
	refuses_because("Engine=dpdk\nLanDevice=net_af_packet0,iface=eth2" RING,
	                "expected iface=eth1, as LanPort= names that interface at the same place");
	refuses_because("Engine=dpdk\nLanDevice=net_af_packet0" RING, "expected iface=eth1");
	refuses_because("LanPort=eth2\nEngine=dpdk\nLanDevice=net_af_packet0,iface=eth2" RING
	                " net_af_packet1,iface=eth1" RING,
	                "expected iface=eth1");
}

static void config_compatible__devices_of_one_interface(void **state)
{
	struct link_config a, b;
	char err[CONFIG_ERR_MAX];

	(void)state;
	accepts_line("Link", "Engine=dpdk\nLanDevice=" LAN_1, &a);
	b = a;
	snprintf(b.name, sizeof(b.name), "other");
	snprintf(b.path, sizeof(b.path), "/etc/longreach/other.conf");
	b.paths[0].port = 4789;
	b.remote[0].addr.b[13] = 7;
	assert_int_equal(config_compatible(&a, &b, err), 0); /* one device: the link that starts second says so */
	b.lan_devices[0][strlen("net_af_packet")] = '7';
	assert_int_equal(config_compatible(&a, &b, err), -EINVAL);
	assert_string_equal(
	    err, "/etc/longreach/other.conf: LanDevice=net_af_packet7,iface=eth1,framesz=4288,blocksz=274: "
	         "iface=eth1 is of LanDevice=net_af_packet0,iface=eth1,framesz=4288,blocksz=274 of " FILE_NAME
	         " too, and the kernel would give each frame to one of the two alone: expected another "
	         "interface, or Engine=packet");
	b.nwan_devices = 1;
	snprintf(b.wan_devices[0], sizeof(b.wan_devices[0]), "net_af_packet8,iface=eth1");
	snprintf(b.lan_devices[0], sizeof(b.lan_devices[0]), "net_null0");
	assert_int_equal(config_compatible(&a, &b, err), -EINVAL);
	assert_non_null(strstr(err, "WanDevice=net_af_packet8,iface=eth1: iface=eth1 is of LanDevice="));
	snprintf(b.wan_devices[0], sizeof(b.wan_devices[0]), "net_af_packet8,iface=eth2");
	assert_int_equal(config_compatible(&a, &b, err), 0);
}

static void example_file__names_every_key_with_its_default(void **state)
{
	char *text = slurp("etc/longreach/example.conf.sample");
	char want[128];

	(void)state;
	for (uint32_t i = 0; i < config_nkeys; i++) {
		const struct config_key *k = &config_keys[i];

		/* what the security of a link hangs on is filled in, as if it were required */
		bool required = k->flags & KEY_REQUIRED && !(k->flags & KEY_EXPORT); /* there need be none of these */
		bool filled_in = required || (strcmp(k->section, "Security") == 0 &&
		                              strstr("Certificate Key CA PeerName", k->name));

		snprintf(want, sizeof(want), "\n%s%s=%s", filled_in ? "" : "#", k->name,
		         k->fallback != NULL ? k->fallback : "");
		if (strstr(text, want) == NULL)
			fail_msg("the example lacks %s", want + 1);
	}
	test_free(text);
}

static void example_file__is_sound(void **state)
{
	char *text = slurp("etc/longreach/example.conf.sample");
	struct link_config c;

	(void)state;
	accepts(text, &c);
	test_free(text);
}

static void manual__names_every_key(void **state)
{
	char *text = slurp("etc/man/longreach.conf.5");
	char want[64];

	(void)state;
	for (uint32_t i = 0; i < config_nkeys; i++) {
		snprintf(want, sizeof(want), "\\fB%s=\\fR", config_keys[i].name);
		if (strstr(text, want) == NULL)
			fail_msg("longreach.conf(5) lacks %s", want);
	}
	test_free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(config_check__engine),
	    cmocka_unit_test(config_check__wan_device),
	    cmocka_unit_test(config_check__one_packet_device_for_each_interface),
	    cmocka_unit_test(config_check__one_queue),
	    cmocka_unit_test(config_check__rings_of_packet_devices),
	    cmocka_unit_test(config_check__a_packet_device_is_of_its_port),
	    cmocka_unit_test(config_compatible__devices_of_one_interface),
	    cmocka_unit_test(config_parse__minimal_file_and_its_defaults),
	    cmocka_unit_test(config_parse__every_key_takes_a_good_value),
	    cmocka_unit_test(config_parse__every_key_refuses_a_bad_value),
	    cmocka_unit_test(config_parse__refuses_bad_path),
	    cmocka_unit_test(config_parse__missing_keys),
	    cmocka_unit_test(config_parse__unknown_and_duplicate_keys),
	    cmocka_unit_test(config_parse__text_behind_a_section),
	    cmocka_unit_test(config_parse__rules_between_keys),
	    cmocka_unit_test(config_parse__several_paths),
	    cmocka_unit_test(config_parse__exports),
	    cmocka_unit_test(config_parse__several_paths_refused),
	    cmocka_unit_test(config_reloadable__paths),
	    cmocka_unit_test(config_parse__syntax),
	    cmocka_unit_test(config_parse_all__tells_all),
	    cmocka_unit_test(config_parse_all__is_bounded),
	    cmocka_unit_test(config_blame__names_the_line_of_the_item),
	    cmocka_unit_test(config_parse__hostile_bytes),
	    cmocka_unit_test(config_parse__a_list_has_an_end),
	    cmocka_unit_test(config_parse__file_names),
	    cmocka_unit_test(config_load__says_why_not),
	    cmocka_unit_test(config_load__symbolic_link_without_its_target),
	    cmocka_unit_test(config_parse__fec),
	    cmocka_unit_test(config_write__can_be_read_back),
	    cmocka_unit_test(config_digest__differs_if_any_key_does),
	    cmocka_unit_test(config_digest__is_of_the_file),
	    cmocka_unit_test(config_carry_over__keeps_the_barrier_that_auto_turned_on),
	    cmocka_unit_test(config_carry_over__keeps_the_barrier_of_a_buffer_that_owes),
	    cmocka_unit_test(config_carry_over__turns_nothing_on),
	    cmocka_unit_test(config_restarts__fec_on_or_off),
	    cmocka_unit_test(config_reloadable__names_the_key),
	    cmocka_unit_test(config_compatible__links_that_collide),
	    cmocka_unit_test(security__keys_or_none),
	    cmocka_unit_test(example_file__names_every_key_with_its_default),
	    cmocka_unit_test(example_file__is_sound),
	    cmocka_unit_test(manual__names_every_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
