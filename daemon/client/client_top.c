/* SPDX-License-Identifier: Apache-2.0 */
/* client_top.c - `longreach top`: three pages on a terminal of at least 80 columns and 24 lines.
 *
 *     links     a row for each link, below them the paths and bursts of the one that is chosen
 *     link      one link: traffic, buffer, bursts, paths, and its flows, sorted and filtered
 *     flow      all that the daemon knows of one flow
 *
 * The client asks the daemon once a second, with the request that the page needs: flows come for one link only. Names
 * in an answer are made printable before they reach the terminal. Colours only repeat what words say. */
#define _GNU_SOURCE
#define NCURSES_WIDECHAR 1
#include "client_top.h"

#include <curses.h>
#include <fcntl.h>
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client_conn.h"
#include "client_top_model.h"
#include "daemon/telemetry/control.h"
#include "daemon/util/clock.h"
#include "daemon/util/units.h"

enum exit_codes { EXIT_LEFT = 0, EXIT_REFUSED = 1, EXIT_NO_TERMINAL = 2, EXIT_NO_DAEMON = 3 };
enum page { PAGE_LINKS, PAGE_LINK, PAGE_FLOW };
enum colour { COLOUR_GOOD = 1, COLOUR_WARN, COLOUR_BAD };

#define PERIODS 4
static const unsigned periods_ms[PERIODS] = {500, 1000, 2000, 5000};

struct ui {
	const char *control_path;
	struct top top;
	enum page page;
	bool utf8, paused, help, typing, leave;
	unsigned period; /* index into periods_ms */
	uint64_t next_ns;
	bool unheard; /* the last request was not answered */
	unsigned chosen_link;
	char link[TOP_NAME_MAX]; /* of the page */
	/* flows */
	enum top_sort sort;
	bool reverse;
	char filter[TOP_FILTER_MAX];
	int chosen, first;   /* rows among those shown */
	uint64_t chosen_key; /* 0: the first row, whichever it is */
	struct top_series flow_rate;
};

/* --- writing --- */

static void put(int y, int x, attr_t attr, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void put(int y, int x, attr_t attr, const char *fmt, ...)
{
	wchar_t wide[512];
	char text[512];
	va_list ap;
	size_t n;

	if (y < 0 || y >= LINES || x < 0 || x >= COLS)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	n = mbstowcs(wide, text, sizeof(wide) / sizeof(wide[0]) - 1);
	if (n == (size_t)-1)
		return;
	wide[n] = L'\0';
	attr_on(attr, NULL);
	mvaddnwstr(y, x, wide, COLS - x);
	attr_off(attr, NULL);
}

static void put_row(int y, attr_t attr)
{
	mvchgat(y, 0, -1, attr, 0, NULL);
}

static attr_t colour(enum colour c)
{
	attr_t bold = c == COLOUR_BAD ? A_BOLD : 0;

	return has_colors() ? bold | (attr_t)COLOR_PAIR(c) : bold;
}

static attr_t state_attr(const char *state)
{
	return strcmp(state, "up") == 0                                        ? colour(COLOUR_GOOD)
	       : strcmp(state, "new") == 0 || strcmp(state, "waiting") == 0 ? colour(COLOUR_WARN)
	                                                                       : colour(COLOUR_BAD);
}

static void put_spark(const struct ui *u, int y, int x, const struct top_series *s, unsigned width, double most)
{
	char buf[TOP_SERIES_MAX * 4];

	top_spark(buf, sizeof(buf), s, width < TOP_SERIES_MAX ? width : TOP_SERIES_MAX, most, u->utf8);
	put(y, x, 0, "%s", buf);
}

/* A name of the daemon's or the other edge's. */
#define NAME(buf, text) top_printable(buf, sizeof(buf), text)

/* "15:04:05.1234" of CLOCK_REALTIME. */
static const char *clock_text(char buf[32], uint64_t ns)
{
	time_t s = (time_t)(ns / NS_PER_S);
	struct tm utc;
	size_t n;

	gmtime_r(&s, &utc);
	n = strftime(buf, 32, "%H:%M:%S", &utc);
	snprintf(buf + n, 32 - n, ".%04u", (unsigned)(ns % NS_PER_S / 100000));
	return buf;
}

/* --- parts of a page --- */

static void draw_title(const struct ui *u)
{
	const char *names[] = {"all links", u->link, u->link};
	char name[TOP_NAME_MAX], now[32];
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	clock_text(now, (uint64_t)ts.tv_sec * NS_PER_S);
	put(0, 0, A_BOLD, "longreach top: %s%s", NAME(name, names[u->page]), u->page == PAGE_FLOW ? ", a flow" : "");
	put(0, COLS - 30, u->unheard ? colour(COLOUR_BAD) : 0, "%19s %.8s Z",
	    u->unheard  ? "daemon is silent"
	    : u->paused ? "paused"
	                : "", now);
}

static void draw_keys(const struct ui *u)
{
	static const char *const keys[] = {
	    "up/down choose  Enter open  p pause  +/- period  h help  q quit",
	    "Enter open  s sort  r reverse  / filter  Esc back  p pause  h help  q quit",
	    "Esc back  p pause  h help  q quit",
	};

	if (u->typing)
		put(LINES - 1, 0, A_BOLD, "filter: %s_   (Enter keeps it, Esc drops it)", u->filter);
	else
		put(LINES - 1, 0, A_DIM, "%s", keys[u->page]);
}

static void draw_help(void)
{
	static const char *const text[] = {
	    "up, down, k, j, PgUp, PgDn, Home   choose a row",
	    "Enter, right                       open: a link, a flow",
	    "Esc, left, Backspace               back",
	    "s, r                               sort flows by the next column; reverse the order",
	    "/                                  filter flows: words of address, 0xQP, side, state",
	    "p                                  pause; + and - change how often the daemon is asked",
	    "q                                  quit",
	    "",
	    "RNR sent   the flow has no room, or it is not its turn: RNR NAKs hold its requester off",
	    "RNR heard  the responder itself sends RNR NAKs: it has no receive posted",
	    "stalled    the responder makes no progress",
	    "learning   the requester's queue pair is not known yet: no packet is acknowledged early",
	    "burst      RoCEv2 from hosts: the fullest 1 ms and the fullest 100 us of the last minute",
	    "prio       burst of each priority: the PCP of the VLAN tag, without a tag DSCP / 8",
	    "",
	    "any key goes back",
	};

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++)
		put(2 + (int)i, 0, 0, "%s", text[i]);
}

static const char *loss_of(char text[16], const struct json_object *path)
{
	if (j_bool(path, "loss_stale"))
		return "stale";
	snprintf(text, 16, "%.3f%%", j_number(path, "loss_ppm") / 1e4);
	return text;
}

static void draw_paths(int *y, const struct json_object *link, int end)
{
	const struct json_object *paths = j_get(link, "paths"), *p;
	char name[16], loss[16], t[3][UNITS_TEXT_MAX];

	if (*y < end)
		put((*y)++, 0, A_UNDERLINE, "%-10s %-5s %9s %11s %11s %8s %9s %8s", "PATH", "STATE", "RTT", "DELIVERS", "RATE",
		    "LOSS", "RESENT", "FEC");
	for (size_t i = 0; *y < end && (p = j_at(paths, i)) != NULL; i++, ++*y) {
		put(*y, 0, 0, "%-10.10s", j_text(p, "name")[0] != '\0' ? NAME(name, j_text(p, "name")) : "the path");
		put(*y, 11, state_attr(j_text(p, "state")), "%-5.5s", NAME(name, j_text(p, "state")));
		put(*y, 17, 0, "%9s %11s %11s %8s %9" PRIu64 " %8" PRIu64,
		    j_bool(p, "rtt_stale") ? "stale" : units_show_time(t[0], j_number(p, "rtt_ns")),
		    units_show_rate(t[1], j_number(p, "delivery_bps")), units_show_rate(t[2], j_number(p, "rate_bps")),
		    loss_of(loss, p), j_uint(p, "repaired_by_retransmission"), j_uint(p, "repaired_by_fec"));
	}
}

static const struct json_object *bursts_of_link(const struct json_object *link)
{
	const struct json_object *ports = j_get(j_get(link, "bursts"), "ports"), *p, *all = NULL;

	for (size_t i = 0; (p = j_at(ports, i)) != NULL; i++)
		if (j_text(p, "port")[0] == '\0')
			all = p;
	return all;
}

/* Draws a row of priorities, as many as there is room for: for each the fullest bin of 1 ms and of 100 us. */
static void draw_priorities(int y, const struct json_object *list)
{
	char t[2][UNITS_TEXT_MAX], text[64];
	const struct json_object *p;
	int x = 8, len;

	put(y, 0, 0, "prio");
	for (size_t i = 0; (p = j_at(list, i)) != NULL; i++, x += len) {
		len = snprintf(text, sizeof(text), "%" PRIu64 ": %s, %s   ", j_uint(p, "priority"),
		               units_show_rate(t[0], j_number(p, "most_1ms_bps")),
		               units_show_rate(t[1], j_number(p, "most_100us_bps")));
		if (x + len > COLS) {
			put(y, x, 0, "...");
			return;
		}
		put(y, x, 0, "%s", text);
	}
}

static void draw_bursts(const struct ui *u, int *y, const struct json_object *link)
{
	const struct json_object *all = bursts_of_link(link), *history = j_get(all, "history"), *s;
	struct top_series ms = {0};
	char t[2][UNITS_TEXT_MAX], at[32];

	for (size_t i = 0; (s = j_at(history, i)) != NULL && i < 3600; i++)
		top_series_put(&ms, j_number(s, "most_1ms_bps"));
	put(*y, 0, 0, "burst   1 ms %11s, 100 us %11s  at %s", units_show_rate(t[0], j_number(all, "most_1ms_bps")),
	    units_show_rate(t[1], j_number(all, "most_100us_bps")), clock_text(at, j_uint(all, "most_100us_time_ns")));
	put_spark(u, (*y)++, 64, &ms, (unsigned)(COLS > 64 ? COLS - 64 : 0), 0);
	if (j_at(j_get(all, "priorities"), 0) != NULL)
		draw_priorities((*y)++, j_get(all, "priorities"));
}

/* [#####.....|..]: fill, and where XOFF is. */
static void draw_buffer(int y, const struct json_object *link)
{
	const struct json_object *pool = j_get(j_get(link, "buffer"), "from_lan"), *plan = j_get(link, "buffer_plan");
	double used = j_number(pool, "used_bytes"), room = j_number(pool, "capacity_bytes");
	double xoff = j_number(plan, "xoff_bytes");
	int width = 30, at = room > 0 ? (int)(xoff / room * width) : width;
	char bar[64], t[3][UNITS_TEXT_MAX];

	for (int i = 0; i < width; i++)
		bar[i] = i < (room > 0 ? used / room * width : 0) ? '#' : '.';
	if (at >= 0 && at < width)
		bar[at] = '|';
	bar[width] = '\0';
	put(y, 0, 0, "buffer  [");
	put(y, 9, used >= xoff && xoff > 0 ? colour(COLOUR_BAD) : 0, "%s", bar);
	put(y, 9 + width, 0, "] %s of %s, XOFF %s", units_show_bytes(t[0], used), units_show_bytes(t[1], room),
	    units_show_bytes(t[2], xoff));
}

static void draw_way(int y, const struct json_object *link)
{
	const struct json_object *n = j_get(link, "counters");
	char t[3][UNITS_TEXT_MAX];

	put(y, 0, 0, "way     rtt %s (least %s), at most %s; lost %.3f %%, resent %" PRIu64,
	    units_show_time(t[0], j_number(link, "rtt_ns")), units_show_time(t[1], j_number(link, "rtt_min_ns")),
	    units_show_distance(t[2], j_number(link, "measured_distance_m")),
	    100 * j_number(j_get(link, "rates"), "wan_loss"), j_uint(n, "wan_repairs"));
}

static void draw_traffic(const struct ui *u, int y, const char *what, double bps, const struct top_series *s)
{
	char t[UNITS_TEXT_MAX];

	put(y, 0, 0, "%-7s %12s", what, units_show_rate(t, bps));
	put_spark(u, y, 22, s, (unsigned)(COLS > 23 ? COLS - 23 : 0), 0);
}

/* --- the page of all links --- */

static void draw_link_row(const struct ui *u, int y, const struct top_link *l)
{
	char name[TOP_NAME_MAX], state[16], t[3][UNITS_TEXT_MAX];
	const struct json_object *rates = j_get(l->json, "rates");
	double fill = l->fill.n ? l->fill.v[l->fill.n - 1] : 0;

	put(y, 0, 0, "%-14.14s", NAME(name, l->name));
	put(y, 15, state_attr(j_text(l->json, "state")), "%-8.8s", NAME(state, j_text(l->json, "state")));
	if (j_get(l->json, "counters") == NULL)
		return;
	put(y, 24, 0, "%8s %6.2f%% %11s %11s %4.0f%%", units_show_time(t[0], j_number(l->json, "rtt_ns")),
	    100 * j_number(rates, "wan_loss"), units_show_rate(t[1], j_number(rates, "lan_rx_bps")),
	    units_show_rate(t[2], j_number(rates, "lan_tx_bps")), 100 * fill);
	put_spark(u, y, 71, &l->out, (unsigned)(COLS > 71 ? COLS - 71 : 0), 0);
}

static void draw_links(struct ui *u)
{
	int y = 1, room = LINES - 12 > 3 ? LINES - 12 : 3;
	unsigned first = u->chosen_link >= (unsigned)room ? u->chosen_link - (unsigned)room + 1 : 0;
	const struct top_link *l;

	put(y++, 0, A_UNDERLINE, "%-14s %-8s %8s %7s %11s %11s %5s %-9s", "LINK", "STATE", "RTT", "LOSS", "FROM HOSTS",
	    "TO HOSTS", "FILL", " A MINUTE");
	if (u->top.nlinks == 0)
		put(y, 0, 0, "no links: put a link file NAME.conf into /etc/longreach and run `longreach reload`");
	for (unsigned i = first; i < u->top.nlinks && y < room + 2; i++, y++) {
		draw_link_row(u, y, &u->top.link[i]);
		if (i == u->chosen_link)
			put_row(y, A_REVERSE);
	}
	if (u->chosen_link >= u->top.nlinks)
		return;
	l = &u->top.link[u->chosen_link];
	y++;
	if (j_get(l->json, "counters") == NULL) {
		char why[256];

		put(y, 0, 0, "%s", NAME(why, j_text(l->json, "error")));
		return;
	}
	draw_buffer(y++, l->json);
	draw_way(y++, l->json);
	draw_bursts(u, &y, l->json);
	draw_paths(&y, l->json, LINES - 1);
}

/* --- the page of a link --- */

static const struct top_link *link_of_page(const struct ui *u)
{
	for (unsigned i = 0; i < u->top.nlinks; i++)
		if (strcmp(u->top.link[i].name, u->link) == 0 && u->top.link[i].json != NULL)
			return &u->top.link[i];
	return NULL;
}

static int address_width(void)
{
	int w = (COLS - 50) / 2;

	return w < 15 ? 15 : w > 39 ? 39 : w;
}

static const char *rate_text(char t[UNITS_TEXT_MAX], double bps)
{
	if (bps >= 0)
		return units_show_rate(t, bps);
	snprintf(t, UNITS_TEXT_MAX, "-");
	return t;
}

static void draw_flow_row(int y, const struct top_flow *f)
{
	char src[64], dst[64], t[2][UNITS_TEXT_MAX];
	int w = address_width();

	put(y, 0, 0, "%-4.4s %-*.*s %-*.*s 0x%06" PRIx64 " %11s %9s ", j_text(f->json, "side"), w, w,
	    NAME(src, j_text(f->json, "src")), w, w, NAME(dst, j_text(f->json, "dst")), j_uint(f->json, "dest_qpn"),
	    rate_text(t[0], f->bps), units_show_bytes(t[1], j_number(f->json, "buffered_bytes")));
	put(y, 38 + 2 * w, colour(COLOUR_WARN), "%s", top_flow_state(f->json));
}

/* The chosen flow stays chosen when rows change places. */
static void keep_chosen(struct ui *u, int room)
{
	int at = u->chosen_key ? top_find(&u->top, u->chosen_key) : -1;
	int last = (int)u->top.nshown - 1;

	if (at >= 0)
		u->chosen = at;
	if (u->chosen > last)
		u->chosen = last;
	if (u->chosen < 0)
		u->chosen = 0;
	if (u->chosen < u->first)
		u->first = u->chosen;
	if (u->chosen >= u->first + room)
		u->first = u->chosen - room + 1;
}

static void draw_flows(struct ui *u, int y)
{
	int w = address_width(), room = LINES - 2 - y;

	put(y++, 0, A_UNDERLINE, "%-4s %-*s %-*s %-8s %11s %9s %-9s", "SIDE", w, "REQUESTER", w, "RESPONDER", "TO QP", "RATE",
	    "BUFFERED", "STATE");
	keep_chosen(u, room > 0 ? room : 1);
	for (int i = u->first; i < (int)u->top.nshown && y < LINES - 2; i++, y++) {
		draw_flow_row(y, u->top.shown[i]);
		if (i == u->chosen)
			put_row(y, A_REVERSE);
	}
	put(LINES - 2, 0, A_DIM, "flows %u of %" PRIu64 ", by %s%s%s%s", u->top.nshown, u->top.nflows + u->top.left_out,
	    top_sort_name(u->sort), u->reverse ? ", reversed" : "", u->filter[0] != '\0' ? ", with: " : "", u->filter);
}

static void draw_link(struct ui *u)
{
	const struct top_link *l = link_of_page(u);
	const struct json_object *j = l != NULL ? l->json : NULL, *rates = j_get(j, "rates");
	char state[32], mode[16], why[256];
	int y = 1;

	if (l == NULL) {
		put(2, 0, 0, "this link is gone");
		return;
	}
	put(y, 0, 0, "state");
	put(y, 8, state_attr(j_text(j, "state")), "%s", NAME(state, j_text(j, "state")));
	put(y++, 20, 0, "ack mode %s%s%s", NAME(mode, j_text(j, "ack_mode")), j_text(j, "error")[0] ? ": " : "",
	    NAME(why, j_text(j, "error")));
	if (j_get(j, "counters") == NULL)
		return;
	draw_traffic(u, y++, "outward", j_number(rates, "lan_rx_bps"), &l->out);
	draw_traffic(u, y++, "inward", j_number(rates, "lan_tx_bps"), &l->in);
	draw_buffer(y++, j);
	draw_way(y++, j);
	draw_bursts(u, &y, j);
	draw_paths(&y, j, LINES > 20 ? y + 4 : y + 2);
	draw_flows(u, y + 1);
}

/* --- the page of a flow --- */

static void draw_flow(struct ui *u)
{
	int at = top_find(&u->top, u->chosen_key), y = 1;
	const struct json_object *f;
	uint64_t acked, delivered;
	char a[64], b[64], t[2][UNITS_TEXT_MAX];

	if (at < 0) {
		put(2, 0, 0, "this flow has ended, or the filter hides it");
		return;
	}
	f = u->top.shown[at]->json;
	acked = j_uint(f, "pos_acked");
	delivered = j_uint(f, "pos_delivered");
	put(y++, 0, A_BOLD, "%s QP 0x%06" PRIx64 " -> %s QP 0x%06" PRIx64, NAME(a, j_text(f, "src")),
	    j_uint(f, "requester_qpn"), NAME(b, j_text(f, "dst")), j_uint(f, "dest_qpn"));
	y++;
	put(y++, 0, 0, "side        %s: %s", NAME(a, j_text(f, "side")),
	    strcmp(j_text(f, "side"), "near") == 0 ? "this edge acknowledges to its requester"
	                                           : "this edge delivers to its responder");
	put(y++, 0, 0, "rate        %-12s", rate_text(t[0], u->top.shown[at]->bps));
	put_spark(u, y - 1, 26, &u->flow_rate, (unsigned)(COLS > 27 ? COLS - 27 : 0), 0);
	put(y++, 0, 0, "state       %s", top_flow_state(f)[0] != '\0' ? top_flow_state(f) : "goes on");
	put(y++, 0, 0, "pairing     %s", NAME(a, j_text(f, "pairing")));
	put(y++, 0, 0, "ack mode    %s", NAME(a, j_text(f, "ack_mode")));
	put(y++, 0, 0, "path MTU    %" PRIu64, j_uint(f, "pmtu"));
	put(y++, 0, 0, "VLAN        %" PRIu64, j_uint(f, "vlan"));
	put(y++, 0, 0, "life        %" PRIu64 " (flow %" PRIu64 ")", j_uint(f, "incarnation"), j_uint(f, "id"));
	put(y++, 0, 0, "bytes       %s in %" PRIu64 " messages", units_show_bytes(t[0], j_number(f, "bytes")),
	    j_uint(f, "messages"));
	put(y++, 0, 0, "buffered    %s", units_show_bytes(t[0], j_number(f, "buffered_bytes")));
	y++;
	put(y++, 0, 0, "position    base %" PRIu64 "   the first of this life", j_uint(f, "pos_base"));
	put(y++, 0, 0, "            delivered %" PRIu64 "   the responder has all packets below it", delivered);
	put(y++, 0, 0, "            acknowledged %" PRIu64 "   the requester has the ACKs of all packets below it",
	    acked);
	put(y++, 0, 0, "            next %" PRIu64 "   expected from the requester", j_uint(f, "pos_next"));
	put(y++, 0, 0, "            acknowledged and not delivered: %" PRIu64 " packets", acked > delivered ? acked - delivered : 0);
}

static void draw(struct ui *u)
{
	erase();
	draw_title(u);
	if (COLS < 60 || LINES < 15)
		put(1, 0, 0, "the terminal is too small: make it 80 columns and 24 lines or more");
	else if (u->help)
		draw_help();
	else if (u->page == PAGE_LINKS)
		draw_links(u);
	else if (u->page == PAGE_LINK)
		draw_link(u);
	else
		draw_flow(u);
	draw_keys(u);
	refresh();
}

/* --- asking --- */

/* EXIT_LEFT, or the exit code; what is wrong was said on standard error. */
static int ask(struct ui *u)
{
	char request[CONTROL_LINE_MAX];
	struct json_object *doc = NULL;
	char *text;
	int at;

	if (u->page == PAGE_LINKS)
		snprintf(request, sizeof(request), "status");
	else
		snprintf(request, sizeof(request), "status flows link %s", u->link);
	text = client_ask(u->control_path, request);
	if (text == NULL)
		return EXIT_NO_DAEMON;
	if (jdoc_parse(&doc, text) < 0 || !j_bool(doc, "ok")) {
		fprintf(stderr, "longreach: %s\n",
		        doc != NULL ? j_text(doc, "error") : "cannot read the daemon's answer");
		jdoc_free(&doc);
		free(text);
		return EXIT_REFUSED;
	}
	free(text);
	if (!top_take(&u->top, doc)) {
		jdoc_free(&doc);
		return EXIT_REFUSED;
	}
	top_sort(&u->top, u->sort, u->reverse, u->filter);
	at = u->page == PAGE_FLOW ? top_find(&u->top, u->chosen_key) : -1;
	if (at >= 0 && u->top.shown[at]->bps >= 0)
		top_series_put(&u->flow_rate, u->top.shown[at]->bps);
	return EXIT_LEFT;
}

static void ask_again(struct ui *u)
{
	int r = ask(u);

	u->unheard = r == EXIT_NO_DAEMON;
	if (r == EXIT_REFUSED && u->page != PAGE_LINKS) { /* the link has gone */
		u->page = PAGE_LINKS;
		u->unheard = ask(u) != EXIT_LEFT;
	}
	if (u->chosen_link >= u->top.nlinks)
		u->chosen_link = u->top.nlinks ? u->top.nlinks - 1 : 0;
	u->next_ns = clock_now_ns() + periods_ms[u->period] * NS_PER_MS;
}

/* --- keys --- */

static void open_row(struct ui *u)
{
	if (u->page == PAGE_LINKS && u->chosen_link < u->top.nlinks) {
		snprintf(u->link, sizeof(u->link), "%s", u->top.link[u->chosen_link].name);
		u->page = PAGE_LINK;
		u->chosen = u->first = 0;
		u->chosen_key = 0;
		ask_again(u);
	} else if (u->page == PAGE_LINK && u->chosen < (int)u->top.nshown) {
		u->chosen_key = u->top.shown[u->chosen]->key;
		u->flow_rate = (struct top_series){0};
		u->page = PAGE_FLOW;
	}
}

static void go_back(struct ui *u)
{
	if (u->page == PAGE_FLOW) {
		u->page = PAGE_LINK;
	} else if (u->page == PAGE_LINK) {
		u->page = PAGE_LINKS;
		ask_again(u);
	}
}

static void move_by(struct ui *u, int by)
{
	if (u->page == PAGE_LINKS) {
		int at = (int)u->chosen_link + by, last = (int)u->top.nlinks - 1;

		u->chosen_link = at < 0 || last < 0 ? 0 : at > last ? (unsigned)last : (unsigned)at;
	} else if (u->page == PAGE_LINK && u->top.nshown > 0) {
		int at = u->chosen + by, last = (int)u->top.nshown - 1;

		u->chosen = at < 0 ? 0 : at > last ? last : at;
		u->chosen_key = u->top.shown[u->chosen]->key;
	}
}

static void sort_again(struct ui *u)
{
	top_sort(&u->top, u->sort, u->reverse, u->filter);
}

static void type(struct ui *u, int key)
{
	size_t n = strlen(u->filter);

	if (key == 27)
		u->filter[0] = '\0';
	if (key == 27 || key == '\n' || key == '\r' || key == KEY_ENTER) {
		u->typing = false;
	} else if ((key == KEY_BACKSPACE || key == 127 || key == 8) && n > 0) {
		u->filter[n - 1] = '\0';
	} else if (key >= ' ' && key <= '~' && n + 1 < sizeof(u->filter)) {
		u->filter[n] = (char)key;
		u->filter[n + 1] = '\0';
	}
	sort_again(u);
}

static void change_view(struct ui *u, int key)
{
	switch (key) {
	case 's':
		u->sort = (enum top_sort)((u->sort + 1) % TOP_SORT_COUNT);
		break;
	case 'r':
		u->reverse = !u->reverse;
		break;
	case '/':
		u->typing = u->page == PAGE_LINK;
		return;
	case 'p':
		u->paused = !u->paused;
		return;
	case '+':
		u->period -= u->period > 0;
		return;
	case '-':
		u->period += u->period < PERIODS - 1;
		return;
	case 'h':
	case '?':
		u->help = true;
		return;
	default:
		return;
	}
	u->chosen_key = 0;
	u->chosen = 0;
	sort_again(u);
}

static void on_key(struct ui *u, int key)
{
	if (u->help || u->typing) {
		if (u->typing)
			type(u, key);
		u->help = false;
		return;
	}
	switch (key) {
	case 'q':
		u->leave = true;
		return;
	case KEY_UP:
	case 'k':
		move_by(u, -1);
		return;
	case KEY_DOWN:
	case 'j':
		move_by(u, 1);
		return;
	case KEY_PPAGE:
		move_by(u, -10);
		return;
	case KEY_NPAGE:
		move_by(u, 10);
		return;
	case KEY_HOME:
		move_by(u, -TOP_FLOWS_MAX);
		return;
	case '\n':
	case '\r':
	case KEY_ENTER:
	case KEY_RIGHT:
		open_row(u);
		return;
	case 27:
	case KEY_LEFT:
	case KEY_BACKSPACE:
	case 127:
		go_back(u);
		return;
	default:
		change_view(u, key);
	}
}

/* Waits for a key or the next second. False: the terminal is gone. */
static bool wait_for_key(const struct ui *u)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	uint64_t now = clock_now_ns();
	int ms = u->next_ns > now ? (int)((u->next_ns - now) / NS_PER_MS) + 1 : 0;

	return poll(&p, 1, u->paused ? -1 : ms) <= 0 || (p.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

static void run(struct ui *u)
{
	int key;

	while (!u->leave) {
		draw(u);
		if (!wait_for_key(u))
			return;
		while ((key = getch()) != ERR && !u->leave)
			on_key(u, key);
		if (!u->paused && clock_now_ns() >= u->next_ns)
			ask_again(u);
	}
}

/* --- the terminal --- */

static bool terminal_open(void)
{
	int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (newterm(NULL, stdout, stdin) == NULL) {
		fprintf(stderr, "longreach: top: the terminal (TERM=%s) is not known\n", getenv("TERM") ? getenv("TERM") : "");
		if (nowhere >= 0)
			close(nowhere);
		return false;
	}
	/* errors of requests are shown in the title, not on standard error */
	if (nowhere >= 0) {
		dup2(nowhere, STDERR_FILENO);
		close(nowhere);
	}
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	if (has_colors()) {
		start_color();
		use_default_colors();
		init_pair(COLOUR_GOOD, COLOR_GREEN, -1);
		init_pair(COLOUR_WARN, COLOR_YELLOW, -1);
		init_pair(COLOUR_BAD, COLOR_RED, -1);
	}
	return true;
}

int client_top(const char *control_path, const char *link)
{
	struct ui u = {.control_path = control_path, .period = 1};
	int r;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		fprintf(stderr, "longreach: top needs a terminal; `longreach status --watch` does not\n");
		return EXIT_NO_TERMINAL;
	}
	setlocale(LC_CTYPE, "");
	u.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	if (link != NULL) {
		u.page = PAGE_LINK;
		snprintf(u.link, sizeof(u.link), "%s", link);
	}
	r = ask(&u); /* the first request, while messages are still visible */
	if (r != EXIT_LEFT || !terminal_open()) {
		top_free(&u.top);
		return r != EXIT_LEFT ? r : EXIT_NO_TERMINAL;
	}
	u.next_ns = clock_now_ns() + periods_ms[u.period] * NS_PER_MS;
	run(&u);
	endwin();
	top_free(&u.top);
	return EXIT_LEFT;
}
