/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* strcasestr, qsort_r */
#include "client_top_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- series --- */

void top_series_put(struct top_series *s, double v)
{
	if (s->n == TOP_SERIES_MAX)
		memmove(s->v, s->v + 1, --s->n * sizeof(s->v[0]));
	s->v[s->n++] = v;
}

static const char *spark_cell(double share, bool utf8)
{
	static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
	int i = share <= 0 ? 0 : share >= 1 ? 8 : (int)(share * 8) + 1;

	return utf8 ? blocks[i > 8 ? 8 : i] : ascii[i > 8 ? 8 : i];
}

/* The greatest of the last n values. */
static double greatest(const struct top_series *s, unsigned n)
{
	double most = 0;

	for (unsigned i = s->n - n; i < s->n; i++)
		most = s->v[i] > most ? s->v[i] : most;
	return most;
}

void top_spark(char *buf, size_t cap, const struct top_series *s, unsigned width, double most, bool utf8)
{
	unsigned n = s->n < width ? s->n : width;
	size_t used = 0;

	if (most <= 0)
		most = greatest(s, n);
	for (unsigned i = 0; i < width && used + 4 <= cap; i++) {
		double v = i < width - n ? 0 : s->v[s->n - width + i];

		used += (size_t)snprintf(buf + used, cap - used, "%s", spark_cell(most > 0 ? v / most : 0, utf8));
	}
}

/* --- answers --- */

const char *top_printable(char *buf, size_t cap, const char *text)
{
	size_t i;

	for (i = 0; i + 1 < cap && text[i] != '\0'; i++)
		buf[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
	buf[i] = '\0';
	return buf;
}

static struct top_link *find_link(struct top *t, const char *name)
{
	for (unsigned i = 0; i < t->nlinks; i++)
		if (strncmp(t->link[i].name, name, TOP_NAME_MAX - 1) == 0)
			return &t->link[i];
	return NULL;
}

static struct top_link *link_of(struct top *t, const char *name)
{
	struct top_link *l = find_link(t, name);

	if (l != NULL || t->nlinks == TOP_LINKS_MAX)
		return l;
	l = &t->link[t->nlinks++];
	*l = (struct top_link){0};
	snprintf(l->name, sizeof(l->name), "%s", name);
	return l;
}

static void take_link(struct top *t, const struct json_object *json)
{
	const struct json_object *rates = j_get(json, "rates"), *pool = j_get(j_get(json, "buffer"), "from_lan");
	struct top_link *l = link_of(t, j_text(json, "name"));
	double room = j_number(pool, "capacity_bytes");

	if (l == NULL)
		return;
	l->json = json;
	l->present = true;
	top_series_put(&l->out, j_number(rates, "lan_rx_bps"));
	top_series_put(&l->in, j_number(rates, "lan_tx_bps"));
	top_series_put(&l->fill, room > 0 ? j_number(pool, "used_bytes") / room : 0);
}

/* Links that are gone leave the list. */
static void drop_links(struct top *t, bool all_asked)
{
	unsigned n = 0;

	for (unsigned i = 0; i < t->nlinks; i++)
		if (t->link[i].present || !all_asked)
			t->link[n++] = t->link[i];
	t->nlinks = n;
}

/* --- flows --- */

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len-- > 0)
		h = (h ^ *p++) * 0x100000001b3ull;
	return h;
}

static uint64_t mix_uint(uint64_t h, uint64_t v)
{
	return mix(h, &v, sizeof(v));
}

static uint64_t key_of(const struct json_object *f)
{
	uint64_t h = 0xcbf29ce484222325ull;

	h = mix(h, j_text(f, "side"), strlen(j_text(f, "side")));
	h = mix(h, j_text(f, "src"), strlen(j_text(f, "src")));
	h = mix(h, j_text(f, "dst"), strlen(j_text(f, "dst")));
	return mix_uint(mix_uint(mix_uint(h, j_uint(f, "id")), j_uint(f, "incarnation")), j_uint(f, "dest_qpn"));
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = ((const struct top_flow *)a)->key, y = ((const struct top_flow *)b)->key;

	return (x > y) - (x < y);
}

static double rate_of(const struct top *t, const struct top_flow *f)
{
	const struct top_flow *was = t->nbefore
	                                 ? bsearch(f, t->before, t->nbefore, sizeof(*f), by_key)
	                                 : NULL;
	double seconds = (t->taken_ns - t->before_ns) / 1e9;

	return was == NULL || seconds <= 0 || f->bytes < was->bytes ? -1 : (f->bytes - was->bytes) * 8 / seconds;
}

static void take_flows(struct top *t, struct top_flow *flows, struct top_flow **shown, const struct json_object *link)
{
	const struct json_object *list = j_get(link, "flows"), *f;
	bool same = strcmp(t->flows_of, j_text(link, "name")) == 0;

	free(t->before);
	free(t->shown);
	t->before = t->flows;
	t->nbefore = same ? t->nflows : 0;
	t->before_ns = t->taken_ns;
	if (t->nbefore)
		qsort(t->before, t->nbefore, sizeof(*t->before), by_key);
	t->flows = flows;
	t->shown = shown;
	t->nflows = t->nshown = 0;
	t->taken_ns = j_number(link, "taken_ns");
	t->left_out = j_uint(link, "flows_left_out");
	snprintf(t->flows_of, sizeof(t->flows_of), "%s", j_text(link, "name"));
	for (size_t i = 0; i < TOP_FLOWS_MAX && (f = j_at(list, i)) != NULL; i++) {
		flows[i] = (struct top_flow){.key = key_of(f), .json = f, .bytes = j_number(f, "bytes")};
		flows[i].bps = rate_of(t, &flows[i]);
		t->nflows++;
	}
}

static size_t count(const struct json_object *array)
{
	size_t n = 0;

	while (n < TOP_FLOWS_MAX && j_at(array, n) != NULL)
		n++;
	return n;
}

bool top_take(struct top *t, struct json_object *doc)
{
	const struct json_object *links = j_get(doc, "links"), *with = NULL, *l;
	struct top_flow *flows = NULL, **shown = NULL;
	size_t n;

	for (size_t i = 0; with == NULL && (l = j_at(links, i)) != NULL; i++)
		if (j_get(l, "flows") != NULL)
			with = l;
	n = count(j_get(with, "flows"));
	if (with != NULL) {
		flows = calloc(n + 1, sizeof(*flows));
		shown = calloc(n + 1, sizeof(struct top_flow *));
		if (flows == NULL || shown == NULL) {
			free(flows);
			free(shown);
			return false;
		}
	}
	for (unsigned i = 0; i < t->nlinks; i++) {
		t->link[i].present = false;
		t->link[i].json = NULL;
	}
	for (size_t i = 0; (l = j_at(links, i)) != NULL; i++)
		take_link(t, l);
	drop_links(t, with == NULL);
	if (with != NULL) {
		take_flows(t, flows, shown, with);
	} else {
		t->nflows = t->nshown = 0;
		t->flows_of[0] = '\0';
	}
	jdoc_free(&t->doc);
	t->doc = doc;
	return true;
}

void top_free(struct top *t)
{
	jdoc_free(&t->doc);
	free(t->flows);
	free(t->before);
	free(t->shown);
	*t = (struct top){0};
}

/* --- order --- */

const char *top_sort_name(enum top_sort sort)
{
#define X(e, name) [TOP_SORT_##e] = name,
	static const char *const names[] = {TOP_SORTS(X)};
#undef X

	return names[sort];
}

const char *top_flow_state(const struct json_object *f)
{
	return j_bool(f, "stalled")                              ? "stalled"
	       : j_bool(f, "rnr")                                ? "RNR heard"
	       : j_bool(f, "rnr_back_pressure")                  ? "RNR sent"
	       : strcmp(j_text(f, "pairing"), "learning") == 0 ? "learning"
	                                                         : "";
}

static bool passes(const struct json_object *f, const char *filter)
{
	char line[256], words[TOP_FILTER_MAX], *rest = NULL;

	snprintf(line, sizeof(line), "%s %s %s 0x%" PRIx64 " 0x%" PRIx64 " %s %s", j_text(f, "side"), j_text(f, "src"),
	         j_text(f, "dst"), j_uint(f, "dest_qpn"), j_uint(f, "requester_qpn"), j_text(f, "pairing"),
	         top_flow_state(f));
	snprintf(words, sizeof(words), "%s", filter);
	for (char *w = strtok_r(words, " ", &rest); w != NULL; w = strtok_r(NULL, " ", &rest))
		if (strcasestr(line, w) == NULL)
			return false;
	return true;
}

struct order {
	enum top_sort sort;
	bool reverse;
};

static int compare(double a, double b)
{
	return (a < b) - (a > b); /* the greatest first */
}

static int by_order(const void *pa, const void *pb, void *arg)
{
	const struct top_flow *a = *(const struct top_flow *const *)pa, *b = *(const struct top_flow *const *)pb;
	const struct order *o = arg;
	int r = 0;

	switch (o->sort) {
	case TOP_SORT_RATE:
		r = compare(a->bps, b->bps);
		break;
	case TOP_SORT_BUFFER:
		r = compare(j_number(a->json, "buffered_bytes"), j_number(b->json, "buffered_bytes"));
		break;
	case TOP_SORT_BYTES:
		r = compare(a->bytes, b->bytes);
		break;
	case TOP_SORT_HOST:
		r = strcmp(j_text(a->json, "src"), j_text(b->json, "src"));
		break;
	default:
		r = strcmp(top_flow_state(b->json), top_flow_state(a->json));
		break;
	}
	if (r == 0)
		return by_key(a, b); /* equal rows keep their order */
	return o->reverse ? -r : r;
}

void top_sort(struct top *t, enum top_sort sort, bool reverse, const char *filter)
{
	struct order o = {sort, reverse};

	t->nshown = 0;
	for (unsigned i = 0; i < t->nflows; i++)
		if (passes(t->flows[i].json, filter))
			t->shown[t->nshown++] = &t->flows[i];
	if (t->nshown)
		qsort_r(t->shown, t->nshown, sizeof(struct top_flow *), by_order, &o);
}

int top_find(const struct top *t, uint64_t key)
{
	for (unsigned i = 0; i < t->nshown; i++)
		if (t->shown[i]->key == key)
			return (int)i;
	return -1;
}
