/* SPDX-License-Identifier: Apache-2.0 */
#include "lan_match.h"

#include <linux/if_ether.h>
#include <netinet/in.h>
#include <string.h>

enum {
	TYPE_AT = 2 * LAN_MAC_LEN,
	TAG_LEN = 4,
	IP4_HDR = 20,
	IP6_HDR = 40,
	UDP_DPORT_AT = 2,
	FRAGMENT_BITS = 0x3fff, /* more fragments, fragment offset */
};

static bool between_prefixes(const struct lan_filter_spec *s, const struct ip_addr *src, const struct ip_addr *dst)
{
	return (s->nlocal == 0 || ip_prefix_any(s->local, s->nlocal, src)) &&
	       (s->nremote == 0 || ip_prefix_any(s->remote, s->nremote, dst));
}

static struct ip_addr ip4_at(const uint8_t *b)
{
	struct ip_addr a = {.b = {[10] = 0xff, [11] = 0xff}};

	memcpy(a.b + 12, b, 4);
	return a;
}

static struct ip_addr ip6_at(const uint8_t *b)
{
	struct ip_addr a;

	memcpy(a.b, b, sizeof(a.b));
	return a;
}

static bool ours4(const struct lan_filter_spec *s, const uint8_t *l3, size_t len)
{
	struct ip_addr src, dst;

	if (len < IP4_HDR + (s->all_ip ? 0 : UDP_DPORT_AT + 2))
		return false;
	if (!s->all_ip && (l3[0] != 0x45 || l3[9] != IPPROTO_UDP || (get_be16(l3 + 6) & FRAGMENT_BITS) != 0 ||
	                   get_be16(l3 + IP4_HDR + UDP_DPORT_AT) != ROCE_UDP_PORT))
		return false;
	src = ip4_at(l3 + 12);
	dst = ip4_at(l3 + 16);
	return between_prefixes(s, &src, &dst);
}

static bool ours6(const struct lan_filter_spec *s, const uint8_t *l3, size_t len)
{
	struct ip_addr src, dst;

	if (len < IP6_HDR + (s->all_ip ? 0 : UDP_DPORT_AT + 2))
		return false;
	if (!s->all_ip && (l3[6] != IPPROTO_UDP || get_be16(l3 + IP6_HDR + UDP_DPORT_AT) != ROCE_UDP_PORT))
		return false;
	src = ip6_at(l3 + 8);
	dst = ip6_at(l3 + 24);
	return between_prefixes(s, &src, &dst);
}

enum lan_verdict lan_match(const struct lan_filter_spec *s, const uint8_t mac[LAN_MAC_LEN], const uint8_t *frame,
                           size_t len, uint16_t stripped_tci, struct lan_matched *m)
{
	size_t at = ETH_HLEN;
	uint16_t type;
	bool ours;

	if (len < ETH_HLEN + TAG_LEN || (memcmp(frame, mac, LAN_MAC_LEN) == 0) == s->other_mac)
		return LAN_NOT_OURS;
	m->vlan_tci = stripped_tci;
	type = get_be16(frame + TYPE_AT);
	/* takes the outer tag out, of either kind, if the device has not, as the kernel does */
	if (stripped_tci == 0 && (type == ETH_P_8021Q || type == ETH_P_8021AD)) {
		m->vlan_tci = get_be16(frame + ETH_HLEN);
		type = get_be16(frame + ETH_HLEN + 2);
		at += TAG_LEN;
	}
	m->l3 = frame + at;
	m->len = len - at;
	ours = type == ETH_P_IP ? ours4(s, m->l3, m->len) : type == ETH_P_IPV6 && ours6(s, m->l3, m->len);
	if (!ours)
		return LAN_NOT_OURS;
	return m->len + ETH_HLEN > s->snaplen ? LAN_TOO_LONG : LAN_OURS;
}
