/* SPDX-License-Identifier: Apache-2.0 */
/* wan_engine.h - a WAN port on devices of a plugin (nic_engine.h): WanDevice= with Engine=dpdk.
 *
 * One worker, wan_engine_ops of wan_port.h. The devices are those that lan_engine_start() has opened. Beside each of
 * them the kernel still receives everything (config_check.c): ARP, neighbours and the TCP of the control channel stay
 * with the kernel, which also gives the next hops. */
#ifndef DAEMON_WAN_ENGINE_H
#define DAEMON_WAN_ENGINE_H

#include "wan_port.h"

#define WAN_ENGINE_HEADROOM 128 /* bytes in front of a datagram's payload, for its headers */

#endif
