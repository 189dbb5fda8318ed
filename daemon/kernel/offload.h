/* SPDX-License-Identifier: Apache-2.0 */
/* offload.h - receive offloads of LAN ports, off while a link uses the port.
 *
 * They are switched off on the port and on the interfaces below it (VLAN, bond, bridge). GRO and LRO join packets, and
 * no host has sent a joined packet: no ICRC matches it. Offloads that were on are switched on again when the last link
 * releases the port. Main thread only. */
#ifndef DAEMON_OFFLOAD_H
#define DAEMON_OFFLOAD_H

/* Switches the offloads off; logs those that could not be switched off. Never fails. */
void offload_acquire(const char *ifname);
/* Switches the offloads off again if the port was made anew or somebody switched them on, and logs that. */
void offload_refresh(const char *ifname);
void offload_release(const char *ifname);
/* Releases all ports, whichever links use them. */
void offload_release_all(void);

#endif
