/* SPDX-License-Identifier: Apache-2.0 */
/* offload.h - receive offloads of LAN ports, off while a link uses the port.
 *
 * Of the port and of what it stands on (VLAN, bond, bridge). GRO and LRO join packets, and a joined packet is none that
 * a host sent: its ICRC fits nothing. What was on is switched on again when the last link lets go of the port. Main
 * thread only. */
#ifndef DAEMON_OFFLOAD_H
#define DAEMON_OFFLOAD_H

/* Says in the log what could not be switched off; never fails. */
void offload_acquire(const char *ifname);
/* The port may have been made anew, or somebody has switched on what was off: puts that right and says so. */
void offload_refresh(const char *ifname);
void offload_release(const char *ifname);
/* Of all ports, whoever uses them. */
void offload_release_all(void);

#endif
