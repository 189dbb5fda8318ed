/* SPDX-License-Identifier: Apache-2.0 */
/* lan_engine.h - LAN ports on the devices of a plugin (nic_engine.h): Engine=dpdk.
 *
 * Devices are opened once, by lan_engine_start(), before the process gives its rights away (sandbox.h), and stay started
 * until it ends. A link that starts takes its devices, and gives them back when it stops: lan_engine_ops. So does a WAN
 * port (wan_engine.h): lan_engine_take(), lan_engine_give_back().
 *
 * The interface of LanPort= stays with the kernel and gives the port its MAC address, next hops, MTU and nft rules. */
#ifndef DAEMON_LAN_ENGINE_H
#define DAEMON_LAN_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/config/config.h"

#define LAN_ENGINE_PLUGIN  "longreach-dpdk.so"
#define LAN_ENGINE_ERR_MAX 512

/* Options that the process was started with. */
struct lan_engine_options {
	const char *plugins;   /* the folder with LAN_ENGINE_PLUGIN */
	const char *arguments; /* for the EAL; "": none */
};

/* Loads the plugin and opens the devices of these links, if any of them has Engine=dpdk. Failures are logged, and told
 * later to each link that needs the failed device. Call once. */
void lan_engine_start(const struct lan_engine_options *o, const struct link_config *links, uint32_t n);
/* For --check-config: checks whether this machine has what the link needs. Opens no device. 0, or -ENOENT with err (of
 * LAN_ENGINE_ERR_MAX bytes) a sentence. */
int lan_engine_check(const struct lan_engine_options *o, const struct link_config *c, char *err);
void lan_engine_stop(void);

struct nic_engine;
struct nic_device;
struct nic_stats;

/* Takes a device that no port has, by the text of LanDevice= or WanDevice= (`key` says which). Drops frames that wait
 * in it. 0; or -ENODEV or -EBUSY with err (of errlen bytes) a sentence. */
int lan_engine_take(const char *key, const char *device, const struct nic_engine **engine, struct nic_device **nic,
                    char *err, size_t errlen);
/* What a device that was taken has counted since then. */
void lan_engine_stats(const char *device, struct nic_stats *s);
/* Gives the device back: another port may take it. */
void lan_engine_give_back(const char *device);

#endif
