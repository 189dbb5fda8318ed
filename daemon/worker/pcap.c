/* SPDX-License-Identifier: Apache-2.0 */
#include "pcap.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/util/log.h"
#include "proxy/util/bytes.h"
#include "seal/secret_mem.h"

/* pcapng, draft-ietf-opsawg-pcapng. All in host byte order: the section header's magic tells the reader. */
#define BUF_LEN          (256 << 10)
#define BLOCK_SHB        0x0A0D0D0Au
#define BLOCK_IDB        1u
#define BLOCK_EPB        6u
#define BYTE_ORDER_MAGIC 0x1A2B3C4Du
#define LINKTYPE_RAW     101
#define OPT_IF_NAME      2
#define OPT_IF_TSRESOL   9
#define OPT_EPB_FLAGS    2
#define EPB_FIXED        28 /* block header and fixed fields of an EPB */
#define EPB_TAIL         16 /* flags option, end of options, closing length */
#define NAME_MAX_LEN     64

struct pcap {
	int fd;
	bool stopped;
	uint64_t written; /* bytes put into the file or the buffer */
	size_t used;
	char path[384];
	uint8_t buf[BUF_LEN];
};

static void stop(struct pcap *p, const char *why)
{
	if (!p->stopped)
		log_warn("%s: capture ends: %s", p->path, why);
	p->stopped = true;
}

void pcap_flush(struct pcap *p)
{
	size_t off = 0;

	while (p && off < p->used) {
		ssize_t n = write(p->fd, p->buf + off, p->used - off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			stop(p, strerror(errno));
			break;
		}
		off += (size_t)n;
	}
	if (p)
		p->used = 0;
}

static void put(struct pcap *p, const void *data, size_t len)
{
	memcpy(p->buf + p->used, data, len);
	p->used += len;
	p->written += len;
}

static void put_u32(struct pcap *p, uint32_t v)
{
	put(p, &v, sizeof(v));
}

static void put_u16(struct pcap *p, uint16_t v)
{
	put(p, &v, sizeof(v));
}

static void put_padding(struct pcap *p, size_t len)
{
	static const uint8_t zero[4];

	put(p, zero, (4 - len % 4) % 4);
}

static void put_option(struct pcap *p, uint16_t code, const void *data, uint16_t len)
{
	put_u16(p, code);
	put_u16(p, len);
	put(p, data, len);
	put_padding(p, len);
}

static void put_section(struct pcap *p)
{
	uint64_t unknown_len = UINT64_MAX;

	put_u32(p, BLOCK_SHB);
	put_u32(p, 28);
	put_u32(p, BYTE_ORDER_MAGIC);
	put_u16(p, 1);
	put_u16(p, 0);
	put(p, &unknown_len, sizeof(unknown_len));
	put_u32(p, 28);
}

static void put_interface(struct pcap *p, const char *name)
{
	uint16_t name_len = (uint16_t)strlen(name);
	uint32_t len = 20 + 4 + (name_len + 3u) / 4 * 4 + 8 + 4;
	uint8_t nanoseconds = 9;

	put_u32(p, BLOCK_IDB);
	put_u32(p, len);
	put_u16(p, LINKTYPE_RAW);
	put_u16(p, 0);
	put_u32(p, 0); /* no snap length */
	put_option(p, OPT_IF_NAME, name, name_len);
	put_option(p, OPT_IF_TSRESOL, &nanoseconds, 1);
	put_u32(p, 0); /* end of options */
	put_u32(p, len);
}

struct pcap *pcap_open(const char *dir, const char *link, const char *side, uint32_t worker, char *err, size_t errlen)
{
	struct pcap *p = secret_map(sizeof(*p)); /* it holds what hosts send */
	char name[NAME_MAX_LEN];

	if (!p) {
		snprintf(err, errlen, "capture: out of memory");
		return NULL;
	}
	snprintf(name, sizeof(name), "%s-%s.%u", link, side, worker);
	snprintf(p->path, sizeof(p->path), "%s/%s.pcapng", dir, name);
	p->fd = open(p->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (p->fd < 0) {
		snprintf(err, errlen, "%s: cannot write the capture: %s", p->path, strerror(errno));
		secret_unmap(p, sizeof(*p));
		return NULL;
	}
	put_section(p);
	put_interface(p, name);
	return p;
}

void pcap_close(struct pcap *p)
{
	if (!p)
		return;
	pcap_flush(p);
	close(p->fd);
	secret_unmap(p, sizeof(*p));
}

static size_t parts_len(const struct iovec *parts, unsigned n)
{
	size_t len = 0;

	for (unsigned i = 0; i < n; i++)
		len += parts[i].iov_len;
	return len;
}

void pcap_packet(struct pcap *p, uint64_t wall_ns, enum pcap_dir dir, const struct iovec *parts, unsigned n)
{
	size_t len = parts_len(parts, n);
	uint32_t block = (uint32_t)(EPB_FIXED + (len + 3) / 4 * 4 + EPB_TAIL), flags = dir;

	if (!p || p->stopped || block > BUF_LEN)
		return;
	if (p->written + block > PCAP_FILE_MAX) {
		stop(p, "the file has reached its largest size");
		return;
	}
	if (p->used + block > BUF_LEN)
		pcap_flush(p);
	put_u32(p, BLOCK_EPB);
	put_u32(p, block);
	put_u32(p, 0); /* interface */
	put_u32(p, (uint32_t)(wall_ns >> 32));
	put_u32(p, (uint32_t)wall_ns);
	put_u32(p, (uint32_t)len);
	put_u32(p, (uint32_t)len);
	for (unsigned i = 0; i < n; i++)
		put(p, parts[i].iov_base, parts[i].iov_len);
	put_padding(p, len);
	put_option(p, OPT_EPB_FLAGS, &flags, sizeof(flags));
	put_u32(p, 0);
	put_u32(p, block);
}

static size_t make_ip4(uint8_t *h, const struct ip_addr *src, const struct ip_addr *dst, size_t udp_len, bool ce)
{
	uint32_t sum = 0;

	memset(h, 0, 20);
	h[0] = 0x45;
	h[1] = ce ? 3 : 0;
	put_be16(h + 2, (uint16_t)(20 + udp_len));
	put_be16(h + 6, 0x4000); /* don't fragment */
	h[8] = 64;
	h[9] = IPPROTO_UDP;
	memcpy(h + 12, src->b + 12, 4);
	memcpy(h + 16, dst->b + 12, 4);
	for (unsigned i = 0; i < 20; i += 2)
		sum += get_be16(h + i);
	sum = (sum & 0xffff) + (sum >> 16);
	put_be16(h + 10, (uint16_t) ~((sum & 0xffff) + (sum >> 16)));
	return 20;
}

static size_t make_ip6(uint8_t *h, const struct ip_addr *src, const struct ip_addr *dst, size_t udp_len, bool ce)
{
	put_be32(h, 6u << 28 | (ce ? 3u << 20 : 0));
	put_be16(h + 4, (uint16_t)udp_len);
	h[6] = IPPROTO_UDP;
	h[7] = 64;
	memcpy(h + 8, src->b, 16);
	memcpy(h + 24, dst->b, 16);
	return 40;
}

void pcap_udp(struct pcap *p, uint64_t wall_ns, enum pcap_dir dir, const struct ip_addr *src, uint16_t sport,
              const struct ip_addr *dst, uint16_t dport, const uint8_t *payload, size_t len, bool ce)
{
	uint8_t h[48];
	size_t n;
	struct iovec parts[2];

	if (!p || p->stopped)
		return;
	n = ip_addr_is4(dst) ? make_ip4(h, src, dst, 8 + len, ce) : make_ip6(h, src, dst, 8 + len, ce);
	put_be16(h + n, sport);
	put_be16(h + n + 2, dport);
	put_be16(h + n + 4, (uint16_t)(8 + len));
	put_be16(h + n + 6, 0); /* not worked out */
	parts[0] = (struct iovec){h, n + 8};
	parts[1] = (struct iovec){(void *)(uintptr_t)payload, len};
	pcap_packet(p, wall_ns, dir, parts, 2);
}
