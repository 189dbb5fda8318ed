/* SPDX-License-Identifier: Apache-2.0 */
#include "wan_seal.h"

#include <isa-l/crc.h>

#include "bytes.h"

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
