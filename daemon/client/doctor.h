/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - `longreach doctor`: what is wrong with a link, and what to do about it.
 *
 * The daemon is asked twice, a second apart, and the machine once. Each check of doctor_checks looks at one link (or at
 * none: the daemon as a whole) and says what it finds by doctor_find(). A check without a result says nothing, or calls
 * doctor_cannot() if it lacks a right that it needs. Nothing may be reported of a healthy link, so a check reports only
 * what it has seen, never what might be. */
#ifndef DAEMON_CLIENT_DOCTOR_H
#define DAEMON_CLIENT_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client_json.h"
#include "daemon/config/config.h"

struct doctor;

/* What is known of a link. */
struct doctor_link {
	char name[LINK_NAME_MAX];
	const struct json_object *now, *before; /* the link in the daemon's last answer and in the one a second earlier;
	                                         * NULL: missing */
	bool has_config;                        /* the link's file could be read */
	struct link_config config;              /* the parts of the file that could be understood */
	struct config_reading *reading;
};

struct doctor_check {
	const char *name;
	void (*look)(struct doctor *d, const struct doctor_link *l);
	const char *text; /* what it finds, for --list and longreach(1) */
};

/* The checks, in the order in which findings are printed. Earlier ones are more often the cause of later ones. */
extern const struct doctor_check doctor_checks[];
extern const uint32_t doctor_nchecks;

/* "what is wrong\nwhat to do", for the check that is looking. */
void doctor_find(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The running check cannot look: why. */
void doctor_cannot(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The daemon's process, 0: not known. */
pid_t doctor_daemon(const struct doctor *d);

/* doctor_link.c: from the daemon's answers. */
void doctor_link_failed(struct doctor *d, const struct doctor_link *l);
void doctor_edges_differ(struct doctor *d, const struct doctor_link *l);
void doctor_workers(struct doctor *d, const struct doctor_link *l);
void doctor_end_to_end(struct doctor *d, const struct doctor_link *l);
void doctor_load(struct doctor *d, const struct doctor_link *l);
void doctor_keys(struct doctor *d, const struct doctor_link *l);
void doctor_peer_name(struct doctor *d, const struct doctor_link *l);
void doctor_control(struct doctor *d, const struct doctor_link *l);
void doctor_rates_apart(struct doctor *d, const struct doctor_link *l);
void doctor_clocks_apart(struct doctor *d, const struct doctor_link *l);
void doctor_clock_set(struct doctor *d, const struct doctor_link *l);
void doctor_path_down(struct doctor *d, const struct doctor_link *l);
void doctor_path_asymmetric(struct doctor *d, const struct doctor_link *l);
void doctor_path_mtu(struct doctor *d, const struct doctor_link *l);
void doctor_distance(struct doctor *d, const struct doctor_link *l);
void doctor_buffer_full(struct doctor *d, const struct doctor_link *l);
void doctor_rnr_timer(struct doctor *d, const struct doctor_link *l);
void doctor_retry_early(struct doctor *d, const struct doctor_link *l);
void doctor_return_path(struct doctor *d, const struct doctor_link *l);
void doctor_stalled(struct doctor *d, const struct doctor_link *l);
void doctor_request_path(struct doctor *d, const struct doctor_link *l);
void doctor_overrun(struct doctor *d, const struct doctor_link *l);
void doctor_not_reloaded(struct doctor *d, const struct doctor_link *l);

/* doctor_machine.c: files, memory, settings of the kernel. */
void doctor_link_file(struct doctor *d, const struct doctor_link *l);
void doctor_lan_port(struct doctor *d, const struct doctor_link *l);
void doctor_wan_port(struct doctor *d, const struct doctor_link *l);
void doctor_lan_mtu(struct doctor *d, const struct doctor_link *l);
void doctor_huge_pages(struct doctor *d, const struct doctor_link *l);
void doctor_buffer_memory(struct doctor *d, const struct doctor_link *l);
void doctor_memlock(struct doctor *d, const struct doctor_link *l);
void doctor_numa(struct doctor *d, const struct doctor_link *l);
void doctor_certificate(struct doctor *d, const struct doctor_link *l);
void doctor_clock(struct doctor *d, const struct doctor_link *l);
void doctor_ip_forward(struct doctor *d, const struct doctor_link *l);
void doctor_pfc(struct doctor *d, const struct doctor_link *l);
void doctor_offloads(struct doctor *d, const struct doctor_link *l);
void doctor_enable_roce(struct doctor *d, const struct doctor_link *l);
void doctor_relay(struct doctor *d, const struct doctor_link *l);
/* About the daemon as a whole: ignores l. */
void doctor_lsm(struct doctor *d, const struct doctor_link *l);

/* doctor_net.c: routes and neighbours. */
void doctor_local_route(struct doctor *d, const struct doctor_link *l);
void doctor_remote_route(struct doctor *d, const struct doctor_link *l);
void doctor_wan_neighbour(struct doctor *d, const struct doctor_link *l);
void doctor_lan_neighbour(struct doctor *d, const struct doctor_link *l);
void doctor_rp_filter(struct doctor *d, const struct doctor_link *l);

/* True if, by the kernel's neighbour table, a local host or its next hop answers no ARP and no neighbour discovery. */
bool doctor_host_is_deaf(const struct ip_addr *host);

/* doctor_gpu.c: device files of a GPU's driver. */
void doctor_gpu(struct doctor *d, const struct doctor_link *l);

/* doctor_nft.c: rules of nft. */
void doctor_nft_rules(struct doctor *d, const struct doctor_link *l);
void doctor_firewall(struct doctor *d, const struct doctor_link *l);

/* longreach doctor ...: the exit status. argv[0] is "doctor", control_path what --control said before it. */
int doctor_main(int argc, char **argv, const char *control_path);

#endif
