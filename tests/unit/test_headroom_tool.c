/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/client/client_json.h"
#include "headroom/tool.h"

#define ARGS_MAX 48

static char *out_text, *err_text;

/* Runs "headroom WORDS"; the words are separated by single spaces. */
static int run(const char *words)
{
	char line[1024], *argv[ARGS_MAX + 1], *save = NULL;
	size_t out_size, err_size;
	FILE *out, *err;
	int argc = 0, code;

	free(out_text);
	free(err_text);
	out = open_memstream(&out_text, &out_size);
	err = open_memstream(&err_text, &err_size);
	assert_non_null(out);
	assert_non_null(err);
	assert_true(snprintf(line, sizeof(line), "headroom %s", words) < (int)sizeof(line));
	for (char *w = strtok_r(line, " ", &save); w != NULL && argc < ARGS_MAX; w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	argv[argc] = NULL;
	code = tool_run(argc, argv, out, err);
	fclose(out);
	fclose(err);
	return code;
}

static void runs(const char *words)
{
	int code = run(words);

	if (code != 0)
		fail_msg("%s: %d, %s", words, code, err_text);
}

static void refuses(const char *words, int code, const char *about)
{
	int got = run(words);

	if (got != code || strstr(err_text, about) == NULL || out_text[0] != '\0')
		fail_msg("%s: %d, \"%s\"; expected %d and \"%s\"", words, got, err_text, code, about);
}

static void prints(const char *text)
{
	if (strstr(out_text, text) == NULL)
		fail_msg("\"%s\" is missing in:\n%s", text, out_text);
}

static void tool_run__json_for_checking_tables(void **state)
{
	const struct json_object *root;
	struct json_object *doc;

	(void)state;
	runs("--json --model sonic-mellanox --asic spectrum-4 --rate 400G --length 40m --port-mtu 9100 --lossless-mtu "
	     "1024 "
	     "--small-packets 100 --pool off --gearbox 0ns --lanes 4");
	assert_int_equal(jdoc_parse(&doc, out_text), 0);
	root = doc;
	assert_true(j_number(root, "xon") == 19456);
	assert_true(j_number(root, "xoff") == 283648);
	assert_true(j_number(root, "size") == 303104);
	assert_string_equal(j_text(root, "model"), "sonic-mellanox");
	jdoc_free(&doc);
}

static void tool_run__json_inputs_have_defaults(void **state)
{
	const struct json_object *in;
	struct json_object *doc;

	(void)state;
	runs("--json --model sonic-mellanox --rate 400G --length 40m");
	assert_int_equal(jdoc_parse(&doc, out_text), 0);
	in = j_get(doc, "inputs");
	assert_true(j_number(in, "lossless_mtu_bytes") == 1024);
	assert_true(j_number(in, "small_packets_percent") == 50);
	assert_string_equal(j_text(in, "asic"), "spectrum-4");
	jdoc_free(&doc);
	runs("--json --model mlx5 --rate 400G --length 40m");
	assert_int_equal(jdoc_parse(&doc, out_text), 0);
	in = j_get(doc, "inputs");
	assert_true(j_number(in, "lossless_mtu_bytes") == 9100);
	assert_null(j_get(in, "small_packets_percent")); /* the model does not know it */
	jdoc_free(&doc);
}

/* The same words for every model, as a check of tables gives them. */
static void tool_run__json_of_all_models(void **state)
{
	static const char *const models[] = {
	    "physics", "sonic-mellanox", "sonic-barefoot", "annex-o", "mlx5", "mlx5-next", "all"};
	char words[512];

	(void)state;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		struct json_object *doc;

		snprintf(
		    words, sizeof(words),
		    "--json --model %s --asic spectrum-4 --rate 100G --length 100m --port-mtu 9000 --lossless-mtu 1024 "
		    "--small-packets 50 --pool off --gearbox 100ns --lanes 4",
		    models[i]);
		runs(words);
		assert_int_equal(jdoc_parse(&doc, out_text), 0);
		assert_true(j_number(doc, "xon") > 0);
		assert_true(j_number(doc, "xoff") > 0);
		assert_true(j_number(doc, "size") > 0);
		jdoc_free(&doc);
	}
}

static void tool_run__json_what_if(void **state)
{
	const struct json_object *row;
	struct json_object *doc;

	(void)state;
	runs("--what-if --json --km 1,10 --rate 100G,400G --mtu 4200");
	assert_int_equal(jdoc_parse(&doc, out_text), 0);
	row = j_at(doc, 0);
	assert_non_null(row);
	assert_true(j_number(row, "length_m") == 1000);
	assert_true(j_number(row, "bdp_bytes") == 125000);
	assert_true(j_number(row, "no_underrun_xon_bytes") > 125000);
	assert_true(j_number(row, "spread") > 1);
	jdoc_free(&doc);
}

static void tool_run__explains(void **state)
{
	(void)state;
	runs("--km 300 --rate 100G --mtu 4200");
	prints("A link of 300 km at 100 Gbit/s");
	prints("From XOFF to silence");
	prints("silence");
	prints("propagation");
	prints("0.8 KiB at any rate; FEC is a time: give it with --gearbox");
	prints("Side by side");
	prints("it accepts 1 to 999 m");
	prints(
	    "Spectrum-4: no: 2 lossless priorities at 100G need 89.3 MiB, and a port has 1.50 MiB, enough for 4.79 km: "
	    "end PFC at the edge and let the daemon's memory hold the line\n");
	prints("Jericho-2: not known: SONiC's table for this ASIC ends at 120 km at 100G\n");
	runs("--rtt 3ms --rate 100G --macsec 32 --model annex-o");
	prints("3.00 ms there and back");
	prints("This model ignores --macsec.");
}

static void tool_run__verdict(void **state)
{
	(void)state;
	runs("--length 40m --rate 400G --asic spectrum-4");
	prints("Spectrum-4: yes: 2 lossless priorities at 400G need ");
	prints("enough for 1.1");
	runs("--length 40m --rate 400G --asic jericho-2 --priorities 3");
	prints("Jericho-2: yes: 1 lossless priority at 400G needs 308 KiB on 1 port, and all ports of the chip "
	       "together have "
	       "757 MiB, enough for 120 km\n");
}

/* No ASIC has a port of a rate beyond its fastest. */
static void tool_run__verdict_knows_the_fastest_port(void **state)
{
	struct json_object *doc;

	(void)state;
	runs("--length 40m --rate 1.6T");
	prints("Spectrum: no: its fastest port has 100G, not 1600G\n");
	prints("Spectrum-4: no: its fastest port has 800G, not 1600G\n");
	prints("Spectrum-6: yes: ");
	runs("--length 40m --rate 200G");
	prints("Spectrum: no: its fastest port has 100G");
	prints("Spectrum-2: yes: ");
	runs("--length 40m --rate 100G");
	prints("Spectrum: yes: ");
	runs("--length 40m --rate 800G --asic spectrum-3 --json");
	assert_int_equal(jdoc_parse(&doc, out_text), 0);
	assert_true(j_bool(j_at(j_get(doc, "verdicts"), 0), "too_fast"));
	assert_false(j_bool(j_at(j_get(doc, "verdicts"), 0), "fits"));
	jdoc_free(&doc);
	refuses("--length 40m --rate 400G --asic spectrum --emit sonic", 1, "the fastest port of spectrum has 100G");
}

/* An ASIC whose model ignores an option needs the headroom of physics with it. */
static void tool_run__verdict_counts_every_option(void **state)
{
	static const char *const options[] = {"--transponder 30us", "--macsec 1024", "--gearbox 30us",
	                                      "--peer-quanta 60000"};
	const struct json_object *v;
	struct json_object *doc;
	char words[128];

	(void)state;
	runs("--length 40m --rate 400G --transponder 30us");
	prints("Spectrum-4: no: 2 lossless priorities at 400G need ");
	prints("(sonic-mellanox ignores --transponder: physics counts it)\n");
	prints("Tomahawk-5: ");
	runs("--length 40m --rate 400G --medium copper");
	prints("(sonic-mellanox ignores --medium: physics counts it)\n");
	runs("--length 40m --rate 400G --gearbox 10ns --asic spectrum-4"); /* the model knows it */
	assert_null(strstr(out_text, "physics counts it"));
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		double needs;

		snprintf(words, sizeof(words), "--json --length 40m --rate 400G --asic jericho-2 %s", options[i]);
		runs("--json --length 40m --rate 400G --asic jericho-2");
		assert_int_equal(jdoc_parse(&doc, out_text), 0);
		needs = j_number(j_at(j_get(doc, "verdicts"), 0), "needed_bytes");
		jdoc_free(&doc);
		runs(words);
		assert_int_equal(jdoc_parse(&doc, out_text), 0);
		v = j_at(j_get(doc, "verdicts"), 0);
		assert_non_null(j_at(j_get(v, "by_physics"), 0));
		if (i != 1) /* MACSEC's bytes are fewer than the table's reserve */
			assert_true(j_number(v, "needed_bytes") > needs);
		jdoc_free(&doc);
	}
}

/* A headroom that all ports of a chip share is held against the need of all of them. */
static void tool_run__verdict_of_a_whole_chip(void **state)
{
	struct json_object *doc;

	(void)state;
	runs("--length 300m --rate 400G --model sonic-broadcom --asic tomahawk-5 --ports 64");
	prints("Tomahawk-5: no: 2 lossless priorities at 400G need 102 MiB on 64 ports, and all ports of the chip "
	       "together "
	       "have 32.1 MiB");
	runs("--length 300m --rate 400G --model sonic-broadcom --asic tomahawk-5 --ports 20");
	prints("Tomahawk-5: yes: ");
	runs("--length 300m --rate 400G --model sonic-broadcom --asic tomahawk-5 --ports 64 --oversubscribe 4");
	prints("Tomahawk-5: yes: ");
	runs("--length 300m --rate 400G --model sonic-broadcom --asic tomahawk-5 --ports 64 --json");
	assert_int_equal(jdoc_parse(&doc, out_text), 0);
	assert_true(j_number(j_at(j_get(doc, "verdicts"), 0), "needed_bytes") == 107419648);
	jdoc_free(&doc);
	runs("--length 40m --rate 400G --asic spectrum-4 --ports 64"); /* each port has its own */
	prints("Spectrum-4: yes: ");
	refuses(
	    "--length 300m --rate 400G --model sonic-broadcom --asic tomahawk-5 --ports 64 --emit pg_profile_lookup", 1,
	    "with 2 lossless priorities on 64 ports takes 107419648 bytes, and the headroom of all ports of "
	    "tomahawk-5");
}

static uint64_t line_of(const char *name)
{
	const char *at = strstr(out_text, name);

	assert_non_null(at);
	return strtoull(at + strlen(name), NULL, 10);
}

static void tool_run__xon_is_the_no_underrun_xon(void **state)
{
	static const char *const links[] = {"--km 4 --rate 100G", "--km 300 --rate 400G --mtu 4200",
	                                    "--rtt 3ms --rate 100G --drain 40G",
	                                    "--km 1 --rate 400G --asic spectrum-4 --small-packets 90"};

	(void)state;
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		runs(links[i]);
		assert_int_equal(line_of("  no-underrun XON"), line_of("  XON at a fill of"));
	}
	runs(links[0]);
	assert_int_equal(line_of("  no-underrun XON"), 544360);
}

static void tool_run__a_fall_is_warned_about(void **state)
{
	(void)state;
	runs("--model sonic-barefoot --length 300m --rate 400G");
	assert_null(strstr(out_text, "Warning"));
	runs("--model sonic-barefoot --length 300m --rate 800G");
	prints("Warning: SONiC's script has no pause quanta above 400G");
	runs("--model sonic-barefoot --length 300m --rate 800G --json");
	prints("\"warning\"");
	runs("--model sonic-barefoot --length 300m --rate 800G --peer-quanta 1810");
	assert_null(strstr(out_text, "Warning"));
	runs("--model sonic-barefoot --length 300m --rate 800G --emit sonic");
	assert_non_null(strstr(err_text, "warning: SONiC's script"));
}

static void tool_run__broadcom_rows(void **state)
{
	(void)state;
	runs("--km 4 --rate 100G --emit pg_profile_lookup --model sonic-broadcom");
	prints("# speed cable size xon xoff threshold xon_offset\n100000 4000m 0 2560 708608 -6 363506\n");
	runs("--km 4 --rate 400G --emit pg_profile_lookup --model sonic-broadcom");
	prints("400000 4000m 0 2560 2727936 -5 1454025\n");
	/* a row serves a shorter cable and a lower rate */
	runs("--km 3 --rate 200G --emit pg_profile_lookup --model sonic-broadcom");
	prints("200000 3000m 0 2560 2727936 -5 1454025\n");
	runs("--length 300m --rate 800G --asic tomahawk-5 --emit pg_profile_lookup --model sonic-broadcom");
	prints("800000 300m 8636 0 1621536 0 3556\n");
	refuses("--km 121 --rate 100G --model sonic-broadcom", 1, "no row for 121000 m at 100000 Mbit/s");
	refuses("--km 1 --rate 800G --model sonic-broadcom", 1, "no row");
	runs("--emit pg_profile_lookup --rate 400G --length 40m --small-packets 100");
	prints("# speed cable size xon xoff threshold\n400000 40m 303104 19456 283648 0\n");
	runs("--emit sonic --rate 100G --km 4 --model sonic-broadcom");
	prints("\"xon_offset\": \"363506\"");
	prints("\"dynamic_th\": \"-6\"");
}

/* No emitter prints what no such device can hold. */
static void tool_run__emit_refuses_the_impossible(void **state)
{
	static const char *const kinds[] = {"nxos", "sonic", "pg_profile_lookup"};
	char words[128];

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		snprintf(words, sizeof(words), "--km 300 --rate 400G --emit %s", kinds[i]);
		refuses(words, 1, "End PFC at the edge");
		snprintf(words, sizeof(words), "--km 300 --rate 400G --priorities 3 --emit %s", kinds[i]);
		refuses(words, 1, "like --length 40m");
		snprintf(words, sizeof(words), "--length 40m --rate 400G --emit %s", kinds[i]);
		runs(words);
	}
	snprintf(words, sizeof(words), "--km 300 --rate 400G --ports 64 --emit eos");
	refuses(words, 1, "End PFC at the edge");
	refuses("--km 10 --rate 400G --emit eos", 1, "--ports is missing");
	runs("--km 10 --rate 400G --ports 3 --emit eos");
	refuses("--km 10 --rate 400G --ports 64 --emit eos", 1, "on 64 ports takes 651028992 bytes");
	refuses("--km 100 --rate 400G --emit nvue", 1, "the headroom of a port of spectrum-4");
	refuses("--length 300m --rate 100G --emit dcb", 1, "takes 497664 bytes, and a port of ConnectX has 262016");
	refuses("--length 300m --rate 100G --emit dcb --model physics", 1,
	        "One lossless priority would fit, like --priorities 3");
	refuses("--length 900m --rate 100G --emit dcb --model physics --priorities 3", 1, "End PFC");
	refuses("--length 300m --rate 100G --emit mlnx_qos --buffer 239304", 1, "262016");
	runs("--length 300m --rate 100G --emit dcb --port-buffer 1MB");
	refuses("--length 1m --rate 100G --priorities 3 --buffer 64400 --emit dcb", 1, "it needs 65158 or more");
	refuses("--length 40m --rate 100G --emit sonic --port-buffer 10kB", 1, "--port-buffer has 10000");
	refuses("--km 30 --rate 400G --emit sonic --model sonic-barefoot", 1, "the whole packet memory of tofino-2");
	refuses("--km 100 --rate 400G --ports 1 --emit eos", 1, "the headroom of all ports of tomahawk-5 has 33690560");
	refuses("--length 40m --rate 400G --emit eos --asic jericho-2", 1, "platform trident");
}

/* No configuration is written as if an option were in it that its model or its device ignores. */
static void tool_run__emit_refuses_what_is_ignored(void **state)
{
	(void)state;
	refuses("--length 40m --rate 400G --transponder 30us --emit pg_profile_lookup", 1,
	        "--emit pg_profile_lookup: model sonic-mellanox ignores --transponder, and its headroom would be that "
	        "of a link without it: leave it out, or choose --model physics --asic spectrum-4\n");
	refuses("--length 40m --rate 400G --macsec 32 --drain 100G --emit sonic", 1, "ignores --macsec, --drain,");
	refuses("--length 40m --rate 400G --medium copper --emit sonic", 1, "ignores --medium,");
	refuses("--km 4 --rate 100G --gearbox 1us --model sonic-broadcom --emit sonic", 1, "ignores --gearbox,");
	refuses("--length 40m --rate 400G --buffer 300000 --emit nxos", 1, "physics ignores --buffer");
	runs("--length 40m --rate 400G --gearbox 1us --emit sonic"); /* SONiC's script knows it */
	runs("--length 40m --rate 400G --transponder 1us --macsec 32 --medium copper --model physics --emit sonic");
	runs("--length 40m --rate 400G --transponder 1us --drain 100G --emit nxos");
	/* a device that computes its thresholds itself gets no option of the line */
	refuses("--length 40m --rate 100G --gearbox 100ns --emit dcb --priorities 3", 1,
	        "--emit dcb: the device computes its thresholds from the cable's length and the MTU, and ignores "
	        "--gearbox: leave it out, or give a --length that covers it; for a port that mlx5_core does not drive, "
	        "choose --model physics");
	refuses("--length 40m --rate 100G --peer-quanta 900 --model mlx5-next --emit mlnx_qos --priorities 3", 1,
	        "ignores --peer-quanta: leave it out");
	refuses("--length 40m --rate 100G --gearbox 100ns --emit nvue", 1, "ignores --gearbox: leave it out");
	refuses("--length 40m --rate 100G --transponder 100ns --model physics --emit nvue", 1, "--transponder");
	refuses("--length 40m --rate 400G --asic tofino-2 --emit sonic", 1,
	        "model sonic-mellanox has no numbers for --asic tofino-2: leave it out, or choose --model "
	        "sonic-barefoot");
	refuses("apply --dev none0 --length 40m --rate 100G --model mlx5 --transponder 1us", 1,
	        "apply: the device computes its thresholds");
}

/* No buffer is written that does not hold its headroom, and no XON that is not below XOFF. */
static void tool_run__emit_refuses_buffers_without_headroom(void **state)
{
	(void)state;
	refuses("--length 40m --rate 100G --emit nxos --model sonic-broadcom", 1,
	        "the buffer of model sonic-broadcom has 0 bytes without the headroom, which a switch has in a pool for "
	        "all ports: this device needs 110592 bytes above XOFF in each buffer: choose --model physics");
	refuses("--length 40m --rate 100G --emit nxos --model sonic-barefoot", 1, "without the headroom");
	refuses("--length 40m --rate 400G --emit dcb --model sonic-broadcom --priorities 3", 1, "without the headroom");
	refuses("--length 40m --rate 100G --emit nxos --model sonic-mellanox --pool on --ports 32", 1,
	        "choose --model physics and --pool off");
	refuses("--length 40m --rate 100G --emit nxos --model sonic-mellanox", 1,
	        "model sonic-mellanox has XON at the fill of XOFF, 19456 bytes");
	runs("--length 40m --rate 100G --emit nxos");
	runs("--length 40m --rate 100G --emit dcb --model sonic-mellanox"); /* its driver sets XON itself */
}

static void tool_run__csv(void **state)
{
	(void)state;
	runs("--csv --model mlx5 --length 100m --rate 100G --mtu 9000");
	prints("model,headroom_bytes,xon,xoff,size,");
	prints("mlx5,76180,");
	assert_null(strstr(out_text, "physics"));
	runs("--what-if --csv");
	prints("length_m,rate_bps,port_mtu_bytes,physics,sonic-mellanox,");
	prints("\n300000,100000000000,4200,37538760,");
	prints(",37500000,150000000,"); /* BDP and deep buffer */
	runs("--what-if --csv --length 100m --rate 100G --mtu 9000");
	prints("\n100,100000000000,9000,");
	prints(",76180,");
	prints(",2.048\n"); /* Tofino 132096 over Spectrum 64512 */
}

static void tool_run__units_as_people_write_them(void **state)
{
	char *first;

	(void)state;
	runs("--csv --length 300km --rate 100G --mtu 9KiB");
	first = strdup(out_text);
	assert_non_null(first);
	runs("--csv --km 300 --rate 100Gbit/s --mtu 9216");
	assert_string_equal(first, out_text);
	runs("--csv --km 300km --rate 100000M --port-mtu 9216B");
	assert_string_equal(first, out_text);
	free(first);
}

static void tool_run__nonsense_is_refused(void **state)
{
	(void)state;
	refuses("", 2, "the length of the link is missing");
	refuses("--rate 1G", 2, "the length of the link is missing");
	refuses("--km 1", 2, "the rate of the link is missing");
	refuses("--km x --rate 1G", 2, "--km x: expected kilometres");
	refuses("--km -1 --rate 1G", 2, "expected kilometres");
	refuses("--km 99999999999999999999 --rate 1G", 2, "too large");
	refuses("--km 50000 --rate 1G", 2, "the earth's circumference");
	refuses("--length 0.5m --rate 1G", 2, "too precise");
	refuses("--length 40 --rate 1G", 2, "like 300km or 40m");
	refuses("--length 40m --rate 0", 2, "the rate must be");
	refuses("--length 40m --rate 100", 2, "not 100 bit/s"); /* the G was forgotten */
	refuses("--length 40m --rate fast", 2, "like 100G");
	refuses("--length 40m --rate 1G --mtu 63", 2, "port MTU");
	refuses("--length 40m --rate 1G --mtu 65536", 2, "--port-mtu");
	refuses("--length 40m --rate 1G --mtu 1500 --lossless-mtu 4200", 2, "at most the port MTU");
	refuses("--length 40m --rate 1G --small-packets 101", 2, "0 to 100");
	refuses("--length 40m --rate 1G --priorities 3,8", 2, "from 0 to 7");
	refuses("--length 40m --rate 1G --priorities 3,3", 2, "twice");
	refuses("--length 40m --rate 1G --priorities ,", 2, "from 0 to 7");
	refuses("--length 40m --rate 1G --priorities 3:x", 2, "from 0 to 7");
	refuses("--length 40m --rate 1G --pool maybe", 2, "on or off");
	refuses("--length 40m --rate 1G --lanes 0", 2, "lanes");
	refuses("--length 40m --rate 1G --medium air", 2, "optical or copper");
	refuses("--length 40m --rate 1G --model sonic", 2, "sonic-barefoot");
	refuses("--length 40m --rate 1G --asic tomahawk", 2, "spectrum-4");
	refuses("--length 40m --rate 1G --dev $(reboot)", 2, "interface");
	refuses("--length 40m --rate 1G --emit junos", 2, "nxos");
	refuses("--length 40m --rate 1G --frobnicate", 2, "--frobnicate");
	refuses("--length 40m --rate", 2, "--rate needs a value");
	refuses("--length 40m --rate 1G now", 2, "now");
	refuses("--length 40m --rtt 1ms --rate 1G", 2, "--rtt replaces a length");
	refuses("--km 1,2 --rate 1G", 2, "--what-if");
	refuses("--what-if --rtt 1ms", 2, "--rtt");
	refuses("--what-if --km 0", 2, "distance");
	refuses("--what-if --emit dcb", 2, "one link");
	refuses("--km 1 --rate 1G --mtu 1,,2", 2, "amount of bytes");
	refuses("--km 1km --rate 1G --model mlx5", 1, "1 to 999 m");
}

static void tool_run__help_names_every_option(void **state)
{
	(void)state;
	runs("--help");
	prints("--what-if");
	prints("--transponder");
}

static void tool_run__emit_sonic(void **state)
{
	const struct json_object *profile, *pg;
	struct json_object *doc;

	(void)state;
	runs("--emit sonic --asic spectrum-4 --rate 400G --length 40m --small-packets 100 --dev Ethernet8 --priorities "
	     "3,4,6");
	assert_int_equal(jdoc_parse(&doc, out_text), 0);
	profile = j_get(j_get(doc, "BUFFER_PROFILE"), "longreach_400000_40m");
	assert_string_equal(j_text(profile, "xon"), "19456");
	assert_string_equal(j_text(profile, "xoff"), "283648");
	assert_string_equal(j_text(profile, "size"), "303104");
	pg = j_get(doc, "BUFFER_PG");
	assert_string_equal(j_text(j_get(pg, "Ethernet8|3-4"), "profile"), "longreach_400000_40m");
	assert_non_null(j_get(pg, "Ethernet8|6"));
	assert_string_equal(j_text(j_get(j_get(doc, "CABLE_LENGTH"), "AZURE"), "Ethernet8"), "40m");
	assert_string_equal(j_text(j_get(j_get(doc, "PORT_QOS_MAP"), "Ethernet8"), "pfc_enable"), "3,4,6");
	assert_non_null(strstr(err_text, "DSCP_TO_TC_MAP decides"));
	assert_non_null(strstr(err_text, "TC_TO_PRIORITY_GROUP_MAP"));
	jdoc_free(&doc);
	runs("--emit sonic --rate 400G --length 40m --priorities 3");
	assert_null(strstr(err_text, "TC_TO_PRIORITY_GROUP_MAP"));
	runs("--emit sonic --rate 400G --length 40m --small-packets 100 --pool on --ports 32 --oversubscribe 2");
	prints("\"xoff\": \"8912896\""); /* 32 x (2 x 283648 - 10240) / 2 */
	refuses("--emit sonic --model physics --rate 400G --length 40m --pool on", 1, "--pool");
}

/* The pool is of the whole switch: nothing of it is written that was not asked for, and not for one port of many. */
static void tool_run__emit_sonic_pool(void **state)
{
	(void)state;
	runs("--emit sonic --rate 400G --length 40m");
	assert_null(strstr(out_text, "BUFFER_POOL"));
	assert_non_null(strstr(err_text, "the traditional one give --pool-size"));
	runs("--emit sonic --km 4 --rate 100G --model sonic-broadcom");
	assert_null(strstr(out_text, "BUFFER_POOL"));
	prints("\"pg_lossless_100000_4000m_profile\": {");
	assert_null(strstr(err_text, "dynamic buffer model")); /* Broadcom's boards have the traditional one */
	runs("--emit sonic --rate 400G --length 40m --pool-size 13945824");
	prints("\"size\": \"13945824\"");
	prints("\"pg_lossless_400000_40m_profile\": {"); /* the traditional model looks for this name */
	assert_null(strstr(out_text, "\"type\""));
	assert_null(strstr(out_text, "\"mode\""));
	refuses("--km 4 --rate 100G --model sonic-broadcom --pool on --emit sonic", 1, "--ports is missing");
	refuses("--length 40m --rate 400G --pool on --emit sonic", 1, "--ports is missing");
	runs("--km 4 --rate 100G --model sonic-broadcom --pool on --ports 36 --emit sonic");
	prints("\"xoff\": \"51019776\""); /* 36 x 2 x 708608 */
	assert_null(strstr(out_text, "\"type\""));
	assert_non_null(strstr(err_text, "counts 36 ports"));
	refuses("--length 300m --rate 800G --asic tomahawk-5 --model sonic-broadcom --pool on --ports 64 --emit sonic",
	        1, "33690560");
	refuses("--km 80 --rate 400G --model sonic-broadcom --pool on --ports 36 --emit sonic", 1, "793368576");
	runs("--km 80 --rate 400G --model sonic-broadcom --pool on --ports 36 --oversubscribe 6 --emit sonic");
}

static void tool_run__emit_linux(void **state)
{
	(void)state;
	runs("--emit dcb --rate 100G --length 100m --mtu 9000 --priorities 3 --dev ens1f0");
	prints("dcb buffer set dev ens1f0 prio-buffer all:0 3:1 buffer-size all:0 0:105984 1:154368 &&\n");
	assert_in_range(105984 + 154368, 262016 - 2304, 262016); /* no more than a cell belongs to nobody */
	/* PFC is off while the buffers change, and stays off if they do not */
	prints("dcb pfc set dev ens1f0 prio-pfc all:off &&\ndcb buffer set");
	prints("ethtool -A ens1f0 autoneg off rx off tx off\n");
	prints("dcb pfc set dev ens1f0 prio-pfc all:off 3:on delay 100\n");
	runs("--emit dcb --model physics --rate 100G --length 100m --priorities 3");
	prints("exceed its 16-bit field");
	prints("dcb app add dev eth0 dscp-prio 24:3 25:3 26:3 27:3 28:3 29:3 30:3 31:3\n");
	refuses("--emit dcb --rate 100G --length 40m --priorities 0,1,2,3,4,5,6,7", 1, "no buffer is left");
	runs("--emit mlnx_qos --rate 100G --length 100m --priorities 3,6 --buffer 100000");
	prints("mlnx_qos -i eth0 --pfc=0,0,0,1,0,0,1,0 --cable_len=100\n");
	prints("--prio2buffer=0,0,0,1,0,0,2,0 --buffer_size=57600,101376,101376,0,0,0,0,0 &&\n");
	runs("--emit dcb --rate 100G --length 100m --mtu 9000 --priorities 3 --port-buffer 1MB");
	prints(" 0:845568 1:154368 ");
	runs("--emit mlnx_qos --rate 100G --length 100m --priorities 3,6 --buffer 100000");
	/* a priority does not become lossless before its buffer is large enough, nor is it while that changes */
	assert_true(strstr(out_text, "--buffer_size") < strstr(out_text, "--pfc=0,0,0,1"));
	prints("mlnx_qos -i eth0 --pfc=0,0,0,0,0,0,0,0 &&\nmlnx_qos -i eth0 --prio2buffer");
	prints("mlnx_qos -i eth0 --trust=dscp\n");
	runs("--emit mlnx_qos --rate 40G --rtt 10080ns --priorities 3"); /* 998.02 m at 198000 km/s */
	prints("--cable_len=999\n");
	refuses("--emit mlnx_qos --rate 100G --rtt 10100ns", 1, "ignores a cable length of 1000 m");
	refuses("--emit mlnx_qos --rate 100G --length 1km", 1, "ignores a cable length of 1000 m");
	refuses("--emit mlnx_qos --model physics --rate 100G --length 1m", 1, "--model mlx5");
}

static void tool_run__emit_switches(void **state)
{
	(void)state;
	runs("--emit nvue --rate 100G --km 4 --priorities 3,5 --dev swp7");
	prints("nv set qos pfc longreach switch-priority 3,5\n");
	prints("nv set qos pfc longreach cable-length 4000\n");
	prints("nv set interface swp7 qos pfc profile longreach\n");
	prints("nv set qos mapping longreach trust l3\nnv set interface swp7 qos mapping profile longreach\n");
	refuses("--emit nvue --rate 100G --km 101", 1, "1 to 100000 m");
	refuses("--km 90 --rate 400G --asic jericho-2 --model physics --emit nvue", 1,
	        "NVUE is for Spectrum, not for jericho-2");
	refuses("--km 4 --rate 400G --model sonic-broadcom --emit nvue", 1, "not for jericho-2");
	refuses("--length 40m --rate 400G --asic 82599 --model annex-o --emit nvue", 1, "not for 82599");
	runs("--length 40m --rate 400G --asic spectrum-5 --emit nvue");
	runs("--length 40m --rate 400G --emit nvue"); /* its model has no XON of its own */
	prints("xon-threshold 18200\n");
	runs("--length 40m --rate 400G --model physics --emit nvue");
	prints("xon-threshold 18200\n"); /* two frames by itself */
	runs("--length 40m --rate 400G --model sonic-mellanox");
	assert_null(strstr(out_text, "XON below XOFF by"));
	runs("--length 40m --rate 400G");
	prints("XON below XOFF by");
	runs("--emit eos --rate 100G --length 40m --priorities 3 --ports 32");
	prints("! The profile is of the chip: all 32 ports get this headroom");
	prints("platform trident mmu queue profile LONGREACH\n   ingress threshold 1\n   ingress headroom bytes ");
	prints("interface Ethernet1\n   qos trust dscp\n");
	prints("   priority-flow-control priority 3 no-drop\n");
	runs("--emit eos --rate 400G --length 40m --priorities 3 --asic tomahawk-5 --ports 64");
	prints("   ingress headroom cells ");
	runs("--emit nxos --rate 100G --length 300m --mtu 9216 --priorities 3 --dev Ethernet1/7");
	prints("  class type network-qos c-8q-nq3\n    mtu 9216\n    pause pfc-cos 3\n");
	prints("  class type queuing c-in-q3\n    pause buffer-size ");
	prints("interface Ethernet1/7\n");
	refuses("--emit nxos --rate 100G --length 300m --priorities 0", 1, "priority 0");
	refuses("--emit eos --rate 100G --length 300m --priorities 3:4200", 1, "--lossless-mtu");
}

static int teardown(void **state)
{
	(void)state;
	free(out_text);
	free(err_text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tool_run__json_for_checking_tables),
	    cmocka_unit_test(tool_run__json_inputs_have_defaults),
	    cmocka_unit_test(tool_run__json_of_all_models),
	    cmocka_unit_test(tool_run__json_what_if),
	    cmocka_unit_test(tool_run__explains),
	    cmocka_unit_test(tool_run__verdict),
	    cmocka_unit_test(tool_run__verdict_knows_the_fastest_port),
	    cmocka_unit_test(tool_run__verdict_counts_every_option),
	    cmocka_unit_test(tool_run__verdict_of_a_whole_chip),
	    cmocka_unit_test(tool_run__xon_is_the_no_underrun_xon),
	    cmocka_unit_test(tool_run__a_fall_is_warned_about),
	    cmocka_unit_test(tool_run__broadcom_rows),
	    cmocka_unit_test(tool_run__emit_refuses_the_impossible),
	    cmocka_unit_test(tool_run__emit_refuses_what_is_ignored),
	    cmocka_unit_test(tool_run__emit_refuses_buffers_without_headroom),
	    cmocka_unit_test(tool_run__csv),
	    cmocka_unit_test(tool_run__units_as_people_write_them),
	    cmocka_unit_test(tool_run__nonsense_is_refused),
	    cmocka_unit_test(tool_run__help_names_every_option),
	    cmocka_unit_test(tool_run__emit_sonic),
	    cmocka_unit_test(tool_run__emit_sonic_pool),
	    cmocka_unit_test(tool_run__emit_linux),
	    cmocka_unit_test(tool_run__emit_switches),
	};

	return cmocka_run_group_tests_name("headroom_tool", tests, NULL, teardown);
}
