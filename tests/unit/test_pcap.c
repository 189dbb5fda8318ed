/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: written here, read back block by block, and by Wireshark with our dissector where there is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/worker/pcap.c"

#include "proxy/roce/icrc.h"
#include "proxy/shard/flow_frame.h"
#include "proxy/carry/ip_frame.h"
#include "no_log.h"

#define LUA "etc/wireshark/longreach.lua"

static char dir[] = "/tmp/test_pcap.XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/t-wan.3.pcapng", dir);
	unlink(path);
	return rmdir(dir);
}

static struct ip_addr v4(uint8_t last)
{
	return (struct ip_addr){.b = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = last}};
}

/* A WRITE ONLY of 32 bytes. */
static size_t roce_packet(uint8_t *buf, size_t cap)
{
	uint8_t payload[32] = {1, 2, 3};
	struct roce_pkt pkt = {.src = v4(1),
	                       .dst = v4(2),
	                       .ttl = 64,
	                       .udp_sport = 49152,
	                       .opcode = RC_WRITE_ONLY,
	                       .pkey = 0xffff,
	                       .dest_qpn = 0x1234,
	                       .psn = 0x777,
	                       .reth_len = 32};

	return roce_build(buf, cap, &pkt, payload, sizeof(payload));
}

/* A datagram with every kind of frame. */
static size_t all_frames(uint8_t *d, size_t cap)
{
	uint8_t rc[256];
	size_t rc_len = roce_packet(rc, sizeof(rc)), n;
	uint64_t words[2] = {5, 1};
	struct wan_packet whole = {
	    .flow = 9, .inc = 2, .pos = 1000, .total = (uint16_t)rc_len, .len = (uint16_t)rc_len, .data = rc};
	struct wan_packet piece = {
	    .flow = 9, .inc = 2, .pos = 1001, .total = 4000, .offset = 64, .len = 64, .data = rc};
	struct wan_flow_open open = {
	    .flow = 9, .inc = 2, .pos_base = 900, .dest_qpn = 0x1234, .src = v4(1), .dst = v4(2)};
	struct wan_flow_report report = {.flow = 9, .inc = 2, .received = 1000, .delivered = 950, .credit = 2000};
	struct wan_flow_pair pair = {
	    .flow = 9, .requester_qpn = 0x4321, .template_len = (uint16_t)rc_len, .template = rc};
	struct wan_flow_close bye = {.flow = 9, .inc = 2};
	struct wan_lane_credit credit = {.window_bytes = 1 << 20, .flow_initial_bytes = 65536};
	struct wan_report seen = {.base = 64, .largest = 130, .delay_ns = 7, .words = 2};

	pair.template_len = 60;
	n = wan_hdr_put(d, &(struct wan_hdr){.lane = 17, .epoch = 0xabcd, .wan_pn = 123456789012ull});
	n += wan_packet_put(d + n, cap - n, &whole);
	n += wan_packet_put(d + n, cap - n, &piece);
	n += wan_flow_open_put(d + n, cap - n, &open);
	n += wan_flow_report_put(d + n, cap - n, &report);
	n += wan_flow_pair_put(d + n, cap - n, &pair);
	n += wan_flow_close_put(d + n, cap - n, &bye);
	n += wan_lane_credit_put(d + n, cap - n, &credit);
	n += wan_report_put(d + n, cap - n, WF_REPORT, &seen, words);
	n += wan_report_put(d + n, cap - n, WF_REFUSED, &seen, words);
	n += wan_probe_put(d + n, cap - n, 55);
	n += wan_ping_put(d + n, cap - n);
	memset(d + n, 0xee, WAN_TAG_LEN);
	return n + WAN_TAG_LEN;
}

static void write_capture(void)
{
	uint8_t dgram[2048];
	char err[256];
	struct ip_addr a = v4(101), b = v4(102);
	size_t len = all_frames(dgram, sizeof(dgram));
	struct pcap *p = pcap_open(dir, "t", "wan", 3, err, sizeof(err));

	assert_non_null(p);
	pcap_udp(p, 1700000000123456789ull, PCAP_OUT, &a, 40000, &b, 4790, dgram, len, false);
	pcap_udp(p, 1700000000123456790ull, PCAP_IN, &b, 40001, &a, 4790, dgram, len, true);
	/* cut in the middle of a frame */
	pcap_udp(p, 1700000000123456791ull, PCAP_IN, &b, 40001, &a, 4790, dgram, 56, false);
	pcap_close(p);
}

static size_t read_capture(uint8_t *buf, size_t cap)
{
	char path[128];
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "%s/t-wan.3.pcapng", dir);
	f = fopen(path, "rb");
	assert_non_null(f);
	n = fread(buf, 1, cap, f);
	fclose(f);
	return n;
}

static uint32_t u32_at(const uint8_t *b)
{
	uint32_t v;

	memcpy(&v, b, sizeof(v));
	return v;
}

static void pcap__blocks_add_up_and_close_with_their_length(void **state)
{
	uint8_t buf[16384];
	uint32_t types[8] = {0}, n = 0;
	size_t len, off;

	(void)state;
	write_capture();
	len = read_capture(buf, sizeof(buf));
	for (off = 0; off < len; n++) {
		uint32_t block = u32_at(buf + off + 4);

		assert_in_range(n, 0, 7);
		assert_int_equal(block % 4, 0);
		assert_true(off + block <= len);
		assert_int_equal(u32_at(buf + off + block - 4), block);
		types[n] = u32_at(buf + off);
		off += block;
	}
	assert_int_equal(n, 5);
	assert_int_equal(types[0], BLOCK_SHB);
	assert_int_equal(types[1], BLOCK_IDB);
	for (uint32_t i = 2; i < n; i++)
		assert_int_equal(types[i], BLOCK_EPB);
}

static void pcap__stops_at_its_largest_size(void **state)
{
	char err[256];
	uint8_t data[1000] = {0};
	struct iovec part = {data, sizeof(data)};
	struct pcap *p = pcap_open(dir, "t", "wan", 3, err, sizeof(err));
	uint64_t before;

	(void)state;
	assert_non_null(p);
	p->written = PCAP_FILE_MAX - 1500;
	pcap_packet(p, 1, PCAP_IN, &part, 1);
	assert_false(p->stopped);
	before = p->written;
	pcap_packet(p, 2, PCAP_IN, &part, 1);
	assert_true(p->stopped);
	assert_int_equal(p->written, before);
	pcap_close(p);
}

static void pcap__unwritable_directory_is_a_sentence(void **state)
{
	char err[256] = "";

	(void)state;
	assert_null(pcap_open("/nonexistent", "t", "wan", 0, err, sizeof(err)));
	assert_non_null(strstr(err, "/nonexistent/t-wan.0.pcapng"));
}

static void expect_text(const char *all, const char *what)
{
	if (!strstr(all, what))
		fail_msg("tshark does not show \"%s\"", what);
}

static void dissector__shows_every_frame(void **state)
{
	static char text[256 << 10];
	char cmd[512];
	FILE *f;
	size_t n;

	(void)state;
	if (system("command -v tshark >/dev/null 2>&1") != 0 || access(LUA, R_OK) != 0) {
		print_message("skipped: no tshark, or not at the top of the tree: the dissector is not tried\n");
		skip();
	}
	write_capture();
	snprintf(cmd, sizeof(cmd), "tshark -X lua_script:%s -r %s/t-wan.3.pcapng -V 2>&1", LUA, dir);
	f = popen(cmd, "r");
	assert_non_null(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = 0;
	assert_int_equal(pclose(f), 0);
	assert_null(strstr(text, "Lua Error"));
	expect_text(text, "lane 17, number 123456789012");
	expect_text(text, "PACKET flow 9.2 pos 1000 request");
	expect_text(text, "[64..128 of 4000]");
	expect_text(text, "FLOW_OPEN flow 9.2 base 900 qpn 0x001234");
	expect_text(text, "FLOW_REPORT flow 9.2 received 1000 delivered 950 credit 2000 ok");
	expect_text(text, "requester qpn 0x004321");
	expect_text(text, "FLOW_CLOSE flow 9.2");
	expect_text(text, "LANE_CREDIT window 1048576");
	expect_text(text, "REPORT base 64 largest 130");
	expect_text(text, "REFUSED base 64 largest 130");
	expect_text(text, "PROBE from 55");
	expect_text(text, "PING");
	expect_text(text, "Tag: eeeeeeeeeeeeeeee");
	expect_text(text, "Frame is shorter than it says");
	/* the packet inside */
	expect_text(text, "Destination Queue Pair: 0x001234");
	expect_text(text, "Packet Sequence Number: 1911");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pcap__blocks_add_up_and_close_with_their_length),
	    cmocka_unit_test(pcap__stops_at_its_largest_size),
	    cmocka_unit_test(pcap__unwritable_directory_is_a_sentence),
	    cmocka_unit_test(dissector__shows_every_frame),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
