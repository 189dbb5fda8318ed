/* SPDX-License-Identifier: Apache-2.0 */
/* port.h - one interface as raw Ethernet: a TPACKET_V2 receive ring, and batches of frames out. */
#ifndef WANLINE_PORT_H
#define WANLINE_PORT_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "line.h"

#define PORT_BATCH 64u

struct port {
	char name[IF_NAMESIZE];
	int fd;
	uint8_t *ring;
	size_t ring_size;
	uint32_t frame_size, frames, frames_per_block, block_size;
	uint32_t next;  /* frame that the kernel fills next */
	bool csum_seen; /* frames with checksums left undone came in: transmit offload is on at the other end */
};

/* Opens the interface, with a ring of at least `frames` frames. 0 or -errno with a sentence in err. */
int port_open(struct port *p, const char *ifname, uint32_t frames, char *err, size_t err_cap);
void port_close(struct port *p);

/* The next frame received, if there is one, and when the kernel took it (CLOCK_REALTIME). It stays valid until
 * port_done(). A frame that the kernel had to cut short comes with its true length and must not be read. */
bool port_next(struct port *p, struct line_frame *f, uint64_t *at_real_ns, bool *cut_short);
void port_done(struct port *p);

/* Sends n <= PORT_BATCH frames; returns how many the kernel took. */
uint32_t port_send(struct port *p, const struct line_out *out, uint32_t n);

/* Clears an error on the socket. True if the interface does not exist any more. */
bool port_gone(struct port *p);

/* Frames that the kernel dropped because the ring was full, since the last call. */
uint64_t port_drops(struct port *p);

#endif
