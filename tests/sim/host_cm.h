/* SPDX-License-Identifier: Apache-2.0 */
/* host_cm.h - the connection manager of the model hosts: REQ, REP, RTU, DREQ, DREP as MADs on QP1. */
#ifndef SIM_HOST_CM_H
#define SIM_HOST_CM_H

#include <stdint.h>

#include "proxy/roce/roce.h"

struct conn;
struct host;

void host_cm_init(struct conn *c);
void host_cm_free(struct conn *c);
/* Side 0 connects; conn_ready() tells each side when it may go on. */
void host_cm_open(struct conn *c);
/* Side 0 disconnects; conn_disconnected() when the other side has answered. */
void host_cm_close(struct conn *c);
/* Side 1 was asked to disconnect and does when its own work is complete. */
void host_cm_try_drep(struct conn *c);
void host_cm_rx(struct host *h, const uint8_t *l3, const struct roce_pkt *pkt);

#endif
