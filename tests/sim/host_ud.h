/* SPDX-License-Identifier: Apache-2.0 */
/* host_ud.h - wire-up as UCX does it: the two ends tell each other over UD that they are ready, and that they are done.
 *
 * UD is not reliable: side 0 asks again until side 1 answers. */
#ifndef SIM_HOST_UD_H
#define SIM_HOST_UD_H

#include <stdint.h>

#include "proxy/roce/roce.h"

struct conn;
struct host;

#define UD_QPN 0x00f00du /* of every host's UD queue pair */

/* Side 0 begins; conn_ready() tells each side when it may go on. */
void host_ud_open(struct conn *c);
/* Side 0 is done, and says so; conn_disconnected() when side 1 is done too. */
void host_ud_close(struct conn *c);
/* Nothing came for a while. */
void host_ud_resend(struct conn *c);
void host_ud_rx(struct host *h, const uint8_t *l3, const struct roce_pkt *pkt);

#endif
