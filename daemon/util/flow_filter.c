/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_filter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "addr.h"

#define TEXT_MAX 256

/* --- words --- */

static int read_number(const char *text, uint32_t most, uint32_t *n)
{
	char *end;
	unsigned long v;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	v = strtoul(text, &end, text[1] == 'x' || text[1] == 'X' ? 16 : 10);
	if (errno != 0 || *end != '\0' || v > most)
		return -EINVAL;
	*n = (uint32_t)v;
	return 0;
}

static int read_qpn(const char *text, uint32_t *n)
{
	return read_number(text, 0xffffff, n);
}

static int read_side(const char *text, enum flow_side *side)
{
	if (strcmp(text, "near") != 0 && strcmp(text, "far") != 0)
		return -EINVAL;
	*side = strcmp(text, "near") == 0 ? FLOW_NEAR : FLOW_FAR;
	return 0;
}

int flow_filter_read(struct flow_filter *f, const char *word, const char *value)
{
	const struct {
		const char *word;
		bool *has;
		struct ip_addr *addr;
		uint32_t *qpn;
	} words[] = {
	    {"host", &f->has_host, &f->host, NULL},       {"src", &f->has_src, &f->src, NULL},
	    {"dst", &f->has_dst, &f->dst, NULL},          {"qpn", &f->has_qpn, NULL, &f->qpn},
	    {"src_qpn", &f->has_src_qpn, NULL, &f->src_qpn}, {"dst_qpn", &f->has_dst_qpn, NULL, &f->dst_qpn},
	};
	int r = -ENOENT;

	if (strcmp(word, "side") == 0) {
		r = read_side(value, &f->side);
		f->has_side = r == 0;
	} else if (strcmp(word, "flow") == 0) {
		r = read_number(value, UINT32_MAX, &f->flow);
		f->has_flow = r == 0;
	} else if (strcmp(word, "vlan") == 0) {
		r = read_number(value, 4095, &f->vlan);
		f->has_vlan = r == 0;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		r = words[i].addr != NULL ? addr_read(value, words[i].addr) : read_qpn(value, words[i].qpn);
		*words[i].has = r == 0;
	}
	return r;
}

static void add_addr(char *text, size_t cap, bool has, const char *word, const struct ip_addr *a)
{
	char t[ADDR_TEXT_MAX];
	size_t at = strlen(text);

	if (has)
		snprintf(text + at, cap - at, " %s %s", word, addr_write(a, t, sizeof(t)));
}

static void add_number(char *text, size_t cap, bool has, const char *word, uint32_t n)
{
	size_t at = strlen(text);

	if (has)
		snprintf(text + at, cap - at, " %s %u", word, n);
}

const char *flow_filter_write(const struct flow_filter *f, char *text, size_t cap)
{
	snprintf(text, cap, "%s", !f->has_side ? "" : f->side == FLOW_NEAR ? " side near" : " side far");
	add_number(text, cap, f->has_flow, "flow", f->flow);
	add_addr(text, cap, f->has_host, "host", &f->host);
	add_number(text, cap, f->has_qpn, "qpn", f->qpn);
	add_addr(text, cap, f->has_src, "src", &f->src);
	add_number(text, cap, f->has_src_qpn, "src_qpn", f->src_qpn);
	add_addr(text, cap, f->has_dst, "dst", &f->dst);
	add_number(text, cap, f->has_dst_qpn, "dst_qpn", f->dst_qpn);
	add_number(text, cap, f->has_vlan, "vlan", f->vlan);
	return text;
}

/* --- what somebody types --- */

/* HOST, HOST:QPN or [HOST]:QPN. */
static int parse_end(char *text, bool *has, struct ip_addr *a, bool *has_qpn, uint32_t *qpn)
{
	char *host = text, *colon = strrchr(text, ':'), *bracket = strchr(text, ']');

	*has = *has_qpn = false;
	if (text[0] == '[' && bracket != NULL) {
		*bracket = '\0';
		host = text + 1;
		colon = bracket[1] == ':' ? bracket + 1 : NULL;
		if (colon == NULL && bracket[1] != '\0')
			return -EINVAL;
	} else if (colon != NULL && strchr(text, ':') != colon) {
		colon = NULL; /* IPv6 without brackets has no QPN behind it */
	}
	if (colon != NULL) {
		*colon = '\0';
		if (read_qpn(colon + 1, qpn) < 0)
			return -EINVAL;
		*has_qpn = true;
	}
	if (addr_read(host, a) < 0)
		return -EINVAL;
	*has = true;
	return 0;
}

/* Splits SRC>DST at ">", "->" or "to"; NULL: the text is no such pair. */
static char *split_pair(char *text)
{
	char *at = strchr(text, '>');

	if (at == NULL)
		return NULL;
	if (at > text && at[-1] == '-')
		at[-1] = '\0';
	*at = '\0';
	return at + 1;
}

static int parse_numbered(struct flow_filter *f, const char *text)
{
	const char *colon = strchr(text, ':');
	char side[8];

	if (colon == NULL || (size_t)(colon - text) >= sizeof(side))
		return -EINVAL;
	snprintf(side, sizeof(side), "%.*s", (int)(colon - text), text);
	if (read_side(side, &f->side) < 0 || read_number(colon + 1, UINT32_MAX, &f->flow) < 0)
		return -EINVAL;
	f->has_side = f->has_flow = true;
	return 0;
}

int flow_filter_parse(struct flow_filter *f, const char *text, const char **what)
{
	char copy[TEXT_MAX], *to;

	memset(f, 0, sizeof(*f));
	*what = text;
	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	snprintf(copy, sizeof(copy), "%s", text);
	if (parse_numbered(f, text) == 0)
		return 0;
	if (read_qpn(text, &f->qpn) == 0) {
		f->has_qpn = true;
		return 0;
	}
	to = split_pair(copy);
	if (to == NULL)
		return parse_end(copy, &f->has_host, &f->host, &f->has_qpn, &f->qpn);
	if (parse_end(copy, &f->has_src, &f->src, &f->has_src_qpn, &f->src_qpn) < 0)
		return -EINVAL;
	*what = strchr(text, '>') + 1;
	return parse_end(to, &f->has_dst, &f->dst, &f->has_dst_qpn, &f->dst_qpn);
}

/* --- flows --- */

static bool is_requester(const struct proxy_flow_status *s, bool has_qpn, uint32_t qpn)
{
	return !has_qpn || s->pairing == PAIR_LEARNING || s->requester_qpn == qpn;
}

static bool fits_host(const struct flow_filter *f, const struct proxy_flow_status *s)
{
	if (!f->has_host)
		return !f->has_qpn || s->dest_qpn == f->qpn || (s->pairing != PAIR_LEARNING && s->requester_qpn == f->qpn);
	if (ip_addr_eq(&s->src, &f->host) && is_requester(s, f->has_qpn, f->qpn))
		return true;
	return ip_addr_eq(&s->dst, &f->host) && (!f->has_qpn || s->dest_qpn == f->qpn);
}

bool flow_filter_fits(const struct flow_filter *f, const struct proxy_flow_status *s)
{
	if ((f->has_side && s->side != f->side) || (f->has_flow && s->flow != f->flow))
		return false;
	if (f->has_vlan && (s->vlan_tci & 0xfffu) != f->vlan)
		return false;
	if ((f->has_src && !ip_addr_eq(&s->src, &f->src)) || !is_requester(s, f->has_src_qpn, f->src_qpn))
		return false;
	if ((f->has_dst && !ip_addr_eq(&s->dst, &f->dst)) || (f->has_dst_qpn && s->dest_qpn != f->dst_qpn))
		return false;
	return fits_host(f, s);
}
