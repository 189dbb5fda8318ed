/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_seal.h"

#include <isa-l/crc.h>

#include "proxy/util/bytes.h"

size_t wan_seal(uint8_t *buf, size_t len)
{
	memset(buf + len, 0, WAN_TAG_LEN);
	put_be32(buf + len, crc32_gzip_refl(0, buf, len));
	return len + WAN_TAG_LEN;
}

enum proxy_drop wan_open(const uint8_t *buf, size_t *len)
{
	if (*len < WAN_TAG_LEN)
		return DROP_WAN_TRUNCATED;
	*len -= WAN_TAG_LEN;
	return get_be32(buf + *len) == crc32_gzip_refl(0, buf, *len) ? DROP_NONE : DROP_WAN_BAD_TAG;
}

static struct wan_seal_id id_of(const struct wan_hdr *h)
{
	return (struct wan_seal_id){.epoch = h->epoch,
	                            .wan_pn = h->wan_pn,
	                            .lane = h->lane,
	                            .path = h->path,
	                            .phase = h->flags & WAN_FLAG_PHASE};
}

int wan_seal_ready(const struct proxy_config *c, struct wan_hdr *h, uint64_t acked_end)
{
	struct wan_seal_id id = id_of(h);
	int phase;

	if (!c->seal)
		return 0;
	phase = c->seal->phase(c->seal_ctx, &id, acked_end);
	h->flags = (uint8_t)(WAN_FLAG_SEALED | (phase & WAN_FLAG_PHASE));
	return phase < 0 ? phase : 0;
}

void wan_seal_gather(uint8_t *buf, const struct wan_seal_part *part, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		memcpy(buf + WAN_HDR_LEN + part[i].off, part[i].from, part[i].len);
}

size_t wan_seal_datagram(const struct proxy_config *c, const struct wan_hdr *h, uint8_t *buf, size_t len,
                         const struct wan_seal_part *part, unsigned n)
{
	struct wan_seal_id id = id_of(h);

	if (!c->seal) {
		wan_seal_gather(buf, part, n);
		return wan_seal(buf, len);
	}
	c->seal->seal(c->seal_ctx, &id, buf, len, part, n);
	return len + WAN_TAG_LEN;
}

enum proxy_drop wan_open_datagram(const struct proxy_config *c, const struct wan_hdr *h, uint8_t *buf, size_t *len)
{
	struct wan_seal_id id = id_of(h);

	if (!c->seal)
		return wan_open(buf, len);
	if (!(h->flags & WAN_FLAG_SEALED))
		return DROP_WAN_UNSEALED;
	if (*len < WAN_HDR_LEN + WAN_TAG_LEN)
		return DROP_WAN_TRUNCATED;
	*len -= WAN_TAG_LEN;
	return c->seal->open(c->seal_ctx, &id, buf, *len);
}
