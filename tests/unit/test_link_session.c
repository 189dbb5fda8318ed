/* SPDX-License-Identifier: Apache-2.0 */
/* What a link says of a session, or of its keys, that not all of its workers have taken up; and which of them it tells
 * that an interface has changed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "no_log.h"

#include <net/if.h>
#include <sys/ioctl.h>

static int fake_ioctl(int fd, unsigned long request, void *arg);
#define ioctl fake_ioctl
#include "daemon/link/link_workers.c"
#undef ioctl

static unsigned ncommands, takes, has_memory; /* bit i: of worker i; of its keys */
static struct worker_cmd last[4];             /* that worker i was given */
static unsigned nanswered;                    /* serials of keys that all workers have */
static uint32_t answered;
static bool host_mode; /* of the last configuration that a worker was given */
static struct link *here;

struct seal_keys {
	int nothing;
};

bool worker_command(struct worker *w, const struct worker_cmd *cmd)
{
	for (uint32_t i = 0; i < here->nworkers; i++) {
		if (here->worker[i] != w)
			continue;
		if (!(takes >> i & 1))
			return false;
		last[i] = *cmd;
		last[i].keys = NULL;
	}
	ncommands++;
	if (cmd->type == WORKER_RECONFIGURE) {
		host_mode = cmd->config->no_early_acks;
		free(cmd->config);
	} else {
		free(cmd->keys);
	}
	return true;
}

struct seal_keys *seal_keys_new(const struct seal_secret *s, enum seal_direction dir, const struct seal_scope *of)
{
	(void)s, (void)dir;
	return has_memory >> of->shard & 1 ? calloc(1, sizeof(struct seal_keys)) : NULL;
}

void seal_keys_free(struct seal_keys *k)
{
	free(k);
}

struct seal_scope link_plan_seal(const struct link_config *c, uint32_t shard)
{
	(void)c;
	return (struct seal_scope){.shard = (uint8_t)shard};
}

/* --- what no session asks for --- */

bool worker_answer(struct worker *w, struct worker_cmd *cmd)
{
	(void)w, (void)cmd;
	return false;
}

bool worker_event(struct worker *w, struct proxy_event *ev)
{
	(void)w, (void)ev;
	return false;
}

uint64_t worker_events_lost(const struct worker *w)
{
	(void)w;
	return 0;
}

const struct burst_ring *worker_bursts(const struct worker *w, uint32_t lan_port)
{
	(void)w, (void)lan_port;
	return NULL;
}

bool worker_alive(struct worker *w)
{
	(void)w;
	return true;
}

/* --- one LAN port: the loopback interface --- */

static uint64_t mac_now, mac_of_worker[4];
static int ifindex_of_worker[4];

static int fake_ioctl(int fd, unsigned long request, void *arg)
{
	struct ifreq *ifr = arg;

	(void)fd;
	assert_true(request == SIOCGIFHWADDR);
	assert_string_equal(ifr->ifr_name, "lo");
	if (mac_now == 0) {
		errno = ENODEV;
		return -1;
	}
	for (unsigned i = 0; i < 6; i++)
		ifr->ifr_hwaddr.sa_data[i] = (char)(mac_now >> (8 * (5 - i)));
	return 0;
}

static uint32_t index_of(const struct worker *w)
{
	uint32_t i = 0;

	while (here->worker[i] != w)
		i++;
	return i;
}

int worker_lan_ifindex(const struct worker *w, uint32_t lan_port)
{
	assert_int_equal(lan_port, 0);
	return ifindex_of_worker[index_of(w)];
}

void worker_follow_pause(const struct worker *w, uint32_t lan_port)
{
	(void)w;
	(void)lan_port;
}

uint64_t worker_lan_mac(const struct worker *w, uint32_t lan_port)
{
	assert_int_equal(lan_port, 0);
	return mac_of_worker[index_of(w)];
}

uint32_t worker_ports(const struct link_config *c)
{
	return c->nlan_ports;
}

void worker_port_name(const struct link_config *c, uint32_t port, char ifname[IF_NAMESIZE])
{
	(void)c, (void)port;
	snprintf(ifname, IF_NAMESIZE, "lo");
}

void worker_stop(struct worker *w)
{
	(void)w;
}

int privileged_steer_install(const struct link_config *c, enum steer_extent extent, char *err, size_t errlen)
{
	(void)c, (void)extent, (void)err, (void)errlen;
	return 0;
}

int privileged_steer_keep_routing(const struct link_config *c, bool rules, char *err, size_t errlen)
{
	(void)c, (void)rules, (void)err, (void)errlen;
	return 0;
}

void privileged_offload_refresh(const char *ifname)
{
	(void)ifname;
}

struct proxy_config link_plan_proxy(const struct link_config *c, uint32_t shard, struct wan_pacer *pacers)
{
	(void)c, (void)shard, (void)pacers;
	return (struct proxy_config){0};
}

void relay_counts(const struct relay_thread *r, struct relay_counts *c)
{
	(void)r, (void)c;
}

void bursts_look(struct bursts *b, const struct burst_ring *const *rings, uint64_t wall_ns)
{
	(void)b, (void)rings, (void)wall_ns;
}

void latencies_add(struct latencies *sum, const struct latencies *l)
{
	(void)sum, (void)l;
}

struct flow_watch *flow_watch_new(const struct flow_key *key)
{
	(void)key;
	return NULL;
}

void flow_watch_free(struct flow_watch *w)
{
	(void)w;
}

static void on_answered(void *arg, struct link *l, uint32_t serial)
{
	(void)arg;
	assert_ptr_equal(l, here);
	nanswered++;
	answered = serial;
}

static int setup(void **state)
{
	static char worker[4];

	(void)state;
	here = calloc(1, sizeof(*here));
	here->nworkers = 4;
	here->keys_fn = on_answered;
	for (uint32_t i = 0; i < 4; i++)
		here->worker[i] = (struct worker *)(void *)&worker[i];
	nanswered = 0;
	return 0;
}

/* --- sessions --- */

static int session(unsigned will_take, unsigned memory, const struct seal_secret *tx, char err[CONFIG_ERR_MAX])
{
	struct proxy_session s = {.epoch_tx = 1, .epoch_rx = 2};

	takes = will_take;
	has_memory = memory;
	ncommands = 0;
	return link_session(here, &s, tx, err);
}

static int teardown(void **state)
{
	(void)state;
	free(here);
	return 0;
}

static void link_session__all_take_it(void **state)
{
	struct seal_secret tx = {.epoch = 1};
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(session(15, 15, &tx, err), 0);
	assert_int_equal(ncommands, 4);
	assert_string_equal(err, "");
}

static void link_session__no_memory_for_the_keys_of_one(void **state)
{
	struct seal_secret tx = {.epoch = 1};
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(session(15, 13, &tx, err), -EAGAIN);
	assert_int_equal(ncommands, 3); /* all others have it */
	assert_string_equal(err, "worker 2 of 4 has no session: no memory for its keys");
}

static void link_session__one_takes_no_commands(void **state)
{
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(session(7, 0, NULL, err), -EAGAIN);
	assert_int_equal(ncommands, 3);
	assert_string_equal(err, "worker 4 of 4 has no session: it takes no commands");
}

/* --- keys of what the other edge is about to send --- */

static int keys(unsigned will_take, unsigned memory, uint32_t serial, char err[CONFIG_ERR_MAX])
{
	struct seal_secret rx = {.epoch = 2};

	takes = will_take;
	has_memory = memory;
	ncommands = 0;
	return link_rx_keys(here, &rx, serial, err);
}

/* Worker i has carried out a command: its answer. */
static void answer(const struct worker_cmd *cmd)
{
	struct worker_cmd a = *cmd;

	take_answer(here, &a, true);
}

static void link_rx_keys__all_take_them(void **state)
{
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(keys(15, 15, 7, err), 0);
	assert_string_equal(err, "");
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(nanswered, 0);
		answer(&last[i]);
	}
	assert_int_equal(nanswered, 1);
	assert_int_equal(answered, 7);
}

static void link_rx_keys__no_memory_for_those_of_one(void **state)
{
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(keys(15, 11, 7, err), -EAGAIN);
	assert_int_equal(ncommands, 3); /* all others have them */
	assert_string_equal(err, "worker 3 of 4 cannot open the other edge's next datagrams: no memory for the keys");
	for (unsigned i = 0; i < 4; i++)
		if (i != 2)
			answer(&last[i]);
	assert_int_equal(nanswered, 0);
}

static void link_rx_keys__one_takes_no_commands(void **state)
{
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(keys(14, 15, 7, err), -EAGAIN);
	assert_string_equal(err, "worker 1 of 4 cannot open the other edge's next datagrams: it takes no commands");
}

/* Answers to a call that failed come late, and say nothing of the call that repeats it. */
static void link_rx_keys__late_answers_do_not_count_for_the_next_call(void **state)
{
	struct worker_cmd first[4];
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(keys(15, 7, 7, err), -EAGAIN);
	memcpy(first, last, sizeof(first));
	assert_int_equal(keys(15, 15, 7, err), 0);
	for (unsigned i = 0; i < 3; i++) {
		answer(&first[i]);
		answer(&last[i]);
	}
	assert_int_equal(nanswered, 0); /* the fourth has none */
	answer(&last[3]);
	assert_int_equal(nanswered, 1);
	assert_int_equal(answered, 7);
}

/* --- what ends early ACKs for now --- */

static void link_tell_again__until_all_have_the_configuration(void **state)
{
	(void)state;
	takes = 11;
	ncommands = 0;
	link_hold_promises(here, LINK_HOLD_PEER, true);
	assert_int_equal(ncommands, 3); /* one goes on acknowledging early */
	assert_int_equal(link_untold(here), 1);
	assert_true(link_holds_promises(here));
	link_tell_again(here);
	assert_int_equal(ncommands, 6);
	assert_int_equal(link_untold(here), 1);
	takes = 15;
	link_tell_again(here);
	assert_int_equal(ncommands, 10);
	assert_int_equal(link_untold(here), 0);
	link_tell_again(here);
	assert_int_equal(ncommands, 10);
	assert_true(host_mode);
}

static void link_hold_promises__until_no_reason_is_left(void **state)
{
	(void)state;
	takes = 15;
	ncommands = 0;
	link_hold_promises(here, LINK_HOLD_PEER, false);
	assert_int_equal(ncommands, 0);
	link_hold_promises(here, LINK_HOLD_PEER, true);
	assert_int_equal(ncommands, 4);
	assert_true(host_mode);
	link_hold_promises(here, LINK_HOLD_RULES, true);
	link_hold_promises(here, LINK_HOLD_RULES, false); /* rules are looked at while the edges disagree */
	assert_int_equal(ncommands, 4);
	link_tell_workers(here); /* a reload */
	assert_true(host_mode);
	link_hold_promises(here, LINK_HOLD_PEER, false);
	assert_int_equal(ncommands, 12);
	assert_false(host_mode);
}

/* --- LAN ports that change --- */

static int look(unsigned expected)
{
	char err[CONFIG_ERR_MAX];
	int r;

	takes = 15;
	ncommands = 0;
	memset(last, 0, sizeof(last));
	r = link_follow_ports(here, false, err);
	assert_int_equal(ncommands, expected);
	if (expected)
		assert_non_null(strstr(err, "LAN port lo: "));
	return r;
}

static void have_port(uint64_t mac)
{
	int ifindex = (int)if_nametoindex("lo");

	here->config.nlan_ports = 1;
	here->lan_ifindex[0] = ifindex;
	for (unsigned i = 0; i < 4; i++) {
		ifindex_of_worker[i] = ifindex;
		mac_of_worker[i] = mac;
	}
	mac_now = 0x020000000007;
}

static void link_follow_ports__a_new_mac_address(void **state)
{
	struct worker_cmd cmd = {.type = WORKER_REBIND};

	(void)state;
	have_port(0x020000000007);
	assert_int_equal(look(0), 0);
	mac_now = 0x020000000108;
	mac_of_worker[1] = mac_now;
	assert_int_equal(look(3), -EAGAIN);
	assert_int_equal(last[0].type, WORKER_REBIND);
	assert_int_equal(look(0), -EAGAIN); /* until they have answered */
	for (unsigned i = 0; i < 3; i++)
		answer(&cmd);
	assert_int_equal(look(3), -EAGAIN); /* it has changed again meanwhile, or they could not */
	for (unsigned i = 0; i < 4; i++)
		mac_of_worker[i] = mac_now;
	for (unsigned i = 0; i < 3; i++)
		answer(&cmd);
	assert_int_equal(look(0), 0);
	assert_int_equal(here->lan_port_rebinds, 0); /* it is the same interface */
	mac_now = 0; /* it cannot be read: the next look will tell */
	assert_int_equal(look(0), 0);
}

/* The kernel compares addresses for packet sockets. */
static void link_follow_ports__packet_sockets_know_no_mac_address(void **state)
{
	(void)state;
	have_port(0);
	mac_now = 0x020000000108;
	assert_int_equal(look(0), 0);
	ifindex_of_worker[2]++;
	assert_int_equal(look(1), -EAGAIN);
}

/* It was in another namespace meanwhile: the kernel has unbound the sockets and removed the rules. */
static void link_follow_ports__an_interface_comes_back_with_its_index(void **state)
{
	struct worker_cmd cmd = {.type = WORKER_REBIND, .result = -ENODEV};

	(void)state;
	have_port(0);
	for (unsigned i = 0; i < 4; i++)
		ifindex_of_worker[i] = -1;
	assert_int_equal(look(4), -EAGAIN);
	assert_int_equal(here->lan_port_rebinds, 1);
	for (unsigned i = 0; i < 4; i++)
		answer(&cmd);
	assert_int_equal(look(4), -EAGAIN); /* it had gone again; the rules were set all the same */
	assert_int_equal(here->lan_port_rebinds, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(link_session__all_take_it),
	    TEST(link_session__no_memory_for_the_keys_of_one),
	    TEST(link_session__one_takes_no_commands),
	    TEST(link_tell_again__until_all_have_the_configuration),
	    TEST(link_hold_promises__until_no_reason_is_left),
	    TEST(link_rx_keys__all_take_them),
	    TEST(link_rx_keys__no_memory_for_those_of_one),
	    TEST(link_rx_keys__one_takes_no_commands),
	    TEST(link_rx_keys__late_answers_do_not_count_for_the_next_call),
	    TEST(link_follow_ports__a_new_mac_address),
	    TEST(link_follow_ports__packet_sockets_know_no_mac_address),
	    TEST(link_follow_ports__an_interface_comes_back_with_its_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
