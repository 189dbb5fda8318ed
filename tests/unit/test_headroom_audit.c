/* SPDX-License-Identifier: Apache-2.0 */
/* What `longreach doctor` says of a port's PFC, from the settings that a driver answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "headroom/audit.c"

static char said[4 * AUDIT_TEXT_MAX];
static unsigned findings;

static void hear(void *arg, const char *text)
{
	(void)arg;
	assert_non_null(strchr(text, '\n')); /* what to do */
	findings++;
	strncat(said, text, sizeof(said) - strlen(said) - 1);
}

static void examine(const struct audit_port *p)
{
	said[0] = '\0';
	findings = 0;
	audit(p, hear, NULL);
}

static void finds(const struct audit_port *p, const char *text)
{
	examine(p);
	if (findings != 1 || strstr(said, text) == NULL)
		fail_msg("%u findings: %s", findings, said);
}

static void finds_nothing(const struct audit_port *p)
{
	examine(p);
	if (findings != 0)
		fail_msg("%s", said);
}

/* 100 Gbit/s, MTU 9000: priority 3 is lossless and has a buffer of its own with room for 7 m of cable. */
static struct audit_port sound(void)
{
	return (struct audit_port){.dev = "eth0",
	                           .rate_bps = 100000000000,
	                           .mtu = 9000,
	                           .pfc_wanted = -1,
	                           .delay_is_length = true,
	                           .is = {.has_pfc = true,
	                                  .has_buffer = true,
	                                  .pfc_cap = 8,
	                                  .pfc_en = 1 << 3,
	                                  .delay = 7,
	                                  .prio2buffer = {[3] = 1},
	                                  .buffer_size = {120000, 80000},
	                                  .has_app = true,
	                                  .app_priorities = 0xff,
	                                  .total_size = 262016}};
}

static void audit__says_nothing_of_a_sound_port(void **state)
{
	struct audit_port p = sound();

	(void)state;
	finds_nothing(&p);
	p.pfc_wanted = 3;
	finds_nothing(&p);
	p.rate_bps = 0; /* not known: nothing can be held against anything */
	p.is.buffer_size[1] = 1;
	finds_nothing(&p);
}

static void audit__says_nothing_without_pfc(void **state)
{
	struct audit_port p = sound();

	(void)state;
	p.is.pfc_en = 0;
	p.is.buffer_size[1] = 0;
	finds_nothing(&p);
	p.pauses = true; /* its own way to be lossless */
	finds_nothing(&p);
	p.pauses = false;
	p.is = (struct dcb_settings){0}; /* no DCB: the daemon's own pause frames go by it */
	p.pfc_wanted = 3;
	finds_nothing(&p);
}

static void audit__buffer_too_small(void **state)
{
	struct audit_port p = sound();
	uint64_t need = needed_bytes(&p, 7);

	(void)state;
	assert_in_range(need, 60000, 80000);
	p.is.buffer_size[1] = (uint32_t)need;
	finds_nothing(&p);
	p.is.buffer_size[1] = (uint32_t)need - 1;
	finds(&p, "priority 3 has PFC and a buffer of");
	assert_non_null(strstr(said, "apply --dev eth0 --rate 100G --length 7m"));
	p.is.buffer_size[1] = 80000;
	p.is.delay = 999; /* a cable that long */
	finds(&p, "999 m of cable");
	p.delay_is_length = false; /* of another driver: bit times */
	finds_nothing(&p);
	p.is.has_buffer = false; /* the driver does not tell */
	p.is.buffer_size[1] = 0;
	finds_nothing(&p);
}

static void audit__larger_frames_and_rates_need_more(void **state)
{
	struct audit_port p = sound();

	(void)state;
	p.is.buffer_size[1] = (uint32_t)needed_bytes(&p, 7);
	p.rate_bps = 400000000000;
	finds(&p, "400G, 7 m");
	p.rate_bps = 2500000000;
	p.is.buffer_size[1] = 1;
	finds(&p, "2500M, 7 m");
	p = sound();
	p.mtu = 1500;
	p.is.buffer_size[1] = (uint32_t)needed_bytes(&p, 7);
	p.mtu = 9000;
	finds(&p, "MTU 9000");
}

static void audit__shared_buffer(void **state)
{
	struct audit_port p = sound();

	(void)state;
	p.is.prio2buffer[0] = p.is.prio2buffer[5] = 1;
	finds(&p, "priority 3 has PFC and shares buffer 1 with 0, 5,");
	p.is.pfc_en = 0xff; /* all are paused: none takes another's */
	p.is.prio2buffer[0] = p.is.prio2buffer[5] = 0;
	p.is.buffer_size[0] = p.is.buffer_size[1] = 80000;
	finds_nothing(&p);
	p.is.prio2buffer[2] = 255; /* of a driver that has lost its mind */
	examine(&p);
}

/* ConnectX trusts the VLAN tag until a DSCP is mapped: PFC on a priority that no packet has does nothing. */
static void audit__no_dscp(void **state)
{
	struct audit_port p = sound();

	(void)state;
	p.is.app_priorities = 0;
	finds(&p, "priority 3 has PFC, and the NIC maps no DSCP to a priority");
	assert_non_null(strstr(said, "dcb app add dev eth0 dscp-prio 26:3"));
	p.has_vlans = true; /* the tag may have the priority */
	finds_nothing(&p);
	p.has_vlans = false;
	p.delay_is_length = false; /* another driver's default is not known */
	finds_nothing(&p);
	p.delay_is_length = true;
	p.is.pfc_en |= 1; /* priority 0 has PFC */
	p.is.prio2buffer[0] = 1;
	examine(&p);
	assert_null(strstr(said, "DSCP"));
	p = sound();
	p.is.app_priorities = 0;
	p.is.has_app = false; /* the driver does not tell */
	finds_nothing(&p);
}

static void audit__another_priority_and_pauses(void **state)
{
	struct audit_port p = sound();

	(void)state;
	p.pfc_wanted = 5;
	finds(&p, "Pfc=5 pauses hosts on priority 5, and the NIC has PFC on priority 3");
	p.pfc_wanted = 3;
	p.pauses = true;
	finds(&p, "802.3x pause is on as well as PFC");
	p.is = (struct dcb_settings){0};
	finds(&p, "802.3x pause is on as well as PFC");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(audit__says_nothing_of_a_sound_port),
	    cmocka_unit_test(audit__says_nothing_without_pfc),
	    cmocka_unit_test(audit__buffer_too_small),
	    cmocka_unit_test(audit__larger_frames_and_rates_need_more),
	    cmocka_unit_test(audit__shared_buffer),
	    cmocka_unit_test(audit__no_dscp),
	    cmocka_unit_test(audit__another_priority_and_pauses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
