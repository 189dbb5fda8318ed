/* SPDX-License-Identifier: Apache-2.0 */
#include "ip_frame.h"

#include <string.h>

#include "proxy/util/bytes.h"

size_t wan_ip_put(uint8_t *buf, size_t cap, const struct wan_ip *w)
{
	uint8_t *b = wan_frame_begin(buf, cap, WF_IP, 0, WAN_IP_BODY_LEN + (size_t)w->len);

	if (!b)
		return 0;
	put_be64(b, w->seq);
	put_be16(b + 8, w->total);
	put_be16(b + 10, w->offset);
	put_be16(b + 12, w->entries);
	put_be16(b + 14, w->vlan_tci);
	memcpy(b + WAN_IP_BODY_LEN, w->data, w->len);
	return WAN_IP_OVERHEAD + (size_t)w->len;
}

bool wan_ip_get(const struct wan_frame *f, struct wan_ip *w)
{
	const uint8_t *b = f->body;

	if (f->len <= WAN_IP_BODY_LEN)
		return false;
	w->seq = get_be64(b);
	w->total = get_be16(b + 8);
	w->offset = get_be16(b + 10);
	w->entries = get_be16(b + 12);
	w->vlan_tci = get_be16(b + 14);
	w->len = (uint16_t)(f->len - WAN_IP_BODY_LEN);
	w->data = b + WAN_IP_BODY_LEN;
	if (w->total > IP_BUF_MAX || w->entries > BARRIER_ENTRIES_MAX ||
	    w->entries * BARRIER_ENTRY_LEN >= w->total || w->offset % PIECE_UNIT != 0)
		return false;
	if (w->offset + w->len > w->total)
		return false;
	return w->len % PIECE_UNIT == 0 || w->offset + w->len == w->total;
}
