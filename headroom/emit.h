/* SPDX-License-Identifier: Apache-2.0 */
/* emit.h - what the emitters share. For headroom/ alone. */
#ifndef HEADROOM_EMIT_H
#define HEADROOM_EMIT_H

#include "headroom/report.h"

int emit_sonic(const struct report *rep, FILE *out, FILE *err);
int emit_pg_profile_lookup(const struct report *rep, FILE *out, FILE *err);
int emit_dcb(const struct report *rep, FILE *out, FILE *err);
int emit_mlnx_qos(const struct report *rep, FILE *out, FILE *err);
int emit_nvue(const struct report *rep, FILE *out, FILE *err);
int emit_eos(const struct report *rep, FILE *out, FILE *err);
int emit_nxos(const struct report *rep, FILE *out, FILE *err);

/* The link's length for devices that want metres: a measured round trip as fibre, rounded up. */
uint64_t emit_length_m(const struct report *rep);

/* Bit mask of the lossless priorities. */
unsigned emit_priorities(const struct report *rep);

/* First of the eight DSCPs of a priority, where no map of its own is set: the class selector (RFC 2474), which mlnx_qos
 * and NVUE map by default. 26, of RoCE as usually configured, is the third of priority 3. */
static inline unsigned emit_dscp(unsigned priority)
{
	return 8 * priority;
}

/* "3,4" */
void emit_priority_list(const struct report *rep, FILE *out);

/* The switch that the numbers are for; `otherwise` where none is named or its limits are not known. */
const struct headroom_asic *emit_asic(const struct report *rep, const char *otherwise);

/* 0, or -1 after a message on `err` that the model or the device ignores an option that was given, and what to do
 * instead: a configuration without it would look as if it had it. For --emit, and for apply. */
int emit_check_options(const struct report *rep, FILE *err);

/* 0, or -1 after a message on `err` that the model's buffer (size) does not hold the fill at XOFF and the headroom: for
 * devices that have no pool of headroom. */
int emit_check_buffer(const struct report *rep, FILE *err);

/* 0, or -1 after a message on `err` that `whose` has no room for the `needed` bytes of `ports` ports, and what to do
 * instead. --port-buffer is not asked. */
int emit_check_ports(const struct report *rep, unsigned ports, uint64_t needed, uint64_t room, const char *whose,
                     FILE *err);

/* The same for one port. The operator's --port-buffer counts more than `room`. */
int emit_check_room(const struct report *rep, uint64_t needed, uint64_t room, const char *whose, FILE *err);

/* The same for the headroom of all lossless priorities on a port of a switch, or on all --ports where they share the
 * chip's. */
int emit_check_asic(const struct report *rep, const struct headroom_asic *asic, FILE *err);

/* Buffer that a priority of a NIC's port gets: 1 to n in the order of the lossless priorities; 0 for the others. */
unsigned emit_buffer_of(unsigned mask, unsigned priority);

/* Sizes of the port's buffers, multiples of DCB_CELLS_BYTES: `each` or more for each lossless priority, for the others
 * what `total` leaves, two frames at least, and 0 for buffers without a priority. Returns what all need at least; above
 * `total` the sizes do not fit, and the first has no meaning. */
uint64_t emit_buffer_sizes(const struct report *rep, uint64_t each, uint64_t total,
                           uint64_t sizes[HEADROOM_PRIORITIES]);

/* First line of a snippet: the link that it is for. */
void emit_head(const struct report *rep, const char *comment, FILE *out);

#endif
