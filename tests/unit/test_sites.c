/* SPDX-License-Identifier: Apache-2.0 */
/* In which order a reload closes, stops and starts links: files, links and the kernel's rules are played here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/link/sites.c"
#include "no_log.h"

struct site {
	struct link_config config;
	bool halted, runs;
};

static const char *names[SITES_MAX]; /* the files in the directory */
static uint32_t nnames;
static char done[512];     /* what was done, with blanks between */
static bool starts = true; /* links start */
static bool restarts;      /* files ask for a restart */
static uint32_t nexports;  /* that files have ... */
static bool writable;      /* ... with Mode=write */
static uint32_t lanes;     /* that files have: another number is another file */

static void note(const char *what, const char *link)
{
	size_t n = strlen(done);

	snprintf(done + n, sizeof(done) - n, "%s%s %s", n > 0 ? ", " : "", what, link);
}

/* --- files --- */

void site_report(char *report, const char *fmt, ...)
{
	size_t n = strlen(report);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(report + n, SITES_REPORT_MAX - n, fmt, ap);
	va_end(ap);
}

int site_paths_read(const struct site_sources *src, struct site_paths *out, char *report)
{
	(void)src, (void)report;
	out->n = 0;
	for (uint32_t i = 0; i < nnames; i++)
		snprintf(out->path[out->n++], SITE_PATH_MAX, "/etc/longreach/%s.conf", names[i]);
	return 0;
}

int config_load(const char *path, struct link_config *c, char err[CONFIG_ERR_MAX])
{
	const char *name = strrchr(path, '/') + 1;

	(void)err;
	*c = (struct link_config){.lanes = lanes, .nexports = nexports, .exports[0].writable = writable};
	snprintf(c->name, sizeof(c->name), "%.*s", (int)strcspn(name, "."), name);
	return 0;
}

int config_compatible(const struct link_config *a, const struct link_config *b, char err[CONFIG_ERR_MAX])
{
	(void)a, (void)b, (void)err;
	return 0;
}

bool config_reloadable(const struct link_config *from, const struct link_config *to, char err[CONFIG_ERR_MAX])
{
	(void)from, (void)to, (void)err;
	return true;
}

bool config_restarts(const struct link_config *from, const struct link_config *to)
{
	(void)from, (void)to;
	return restarts;
}

void config_carry_over(const struct link_config *from, struct link_config *to)
{
	(void)from, (void)to;
}

int tls_open(const struct link_config *c, struct tls **tls, char err[CONFIG_ERR_MAX])
{
	(void)c, (void)err;
	*tls = NULL;
	return 0;
}

void tls_close(struct tls *tls)
{
	(void)tls;
}

uint32_t arena_scan(const struct arena_claim *claims, uint32_t nclaims, struct arena_stray *out, uint32_t max,
                    bool *all)
{
	(void)claims, (void)nclaims, (void)out, (void)max, (void)all;
	return 0;
}

const char *stray_text(const struct arena_stray *s, char text[STRAY_TEXT_MAX])
{
	(void)s;
	return text;
}

/* --- the kernel's rules --- */

int closed_rest(const struct link_config *c, char *err, size_t errlen)
{
	(void)err, (void)errlen;
	note("close", c->name);
	return 0;
}

bool closed_all(void)
{
	return false;
}

/* --- links --- */

struct site *site_new(const struct link_config *c, struct event_base *base, const char *pcap_dir,
                      struct failed_record *failed)
{
	struct site *s = calloc(1, sizeof(*s));

	(void)base, (void)pcap_dir, (void)failed;
	assert_non_null(s);
	s->config = *c;
	s->runs = starts;
	note("start", c->name);
	return s;
}

void site_remove(struct site *s)
{
	note("stop", s->config.name);
	free(s);
}

void site_free(struct site *s)
{
	free(s);
}

void site_reconfigure(struct site *s, const struct link_config *c)
{
	s->config = *c;
	s->runs |= starts && !s->halted;
}

void site_restart(struct site *s, const struct link_config *c)
{
	s->config = *c;
	s->runs = starts;
}

void site_restart_anew(struct site *s, const struct link_config *c)
{
	(void)s, (void)c;
}

void site_halt(struct site *s)
{
	s->halted = true;
	s->runs = false;
}

void site_go(struct site *s, const struct link_config *c)
{
	(void)s, (void)c;
}

bool site_reread_keys(struct site *s)
{
	(void)s;
	return false;
}

bool site_halted(const struct site *s)
{
	return s->halted;
}

void site_set_waits(struct site *s, const char *why)
{
	(void)s, (void)why;
}

const char *site_waits(const struct site *s)
{
	(void)s;
	return "";
}

bool site_is_held(const struct site *s)
{
	(void)s;
	return false;
}

const char *site_buffer_note(struct site *s)
{
	(void)s;
	return "";
}

bool site_buffer_is_of(const struct site *s, const struct link_config *c)
{
	(void)s, (void)c;
	return false;
}

const char *site_error(const struct site *s)
{
	return s->runs ? "" : "no such port lan0";
}

const struct link_config *site_config(const struct site *s)
{
	return &s->config;
}

struct link *site_link(const struct site *s)
{
	return s->runs ? (struct link *)(uintptr_t)s : NULL;
}

uint32_t link_untold(const struct link *l)
{
	(void)l;
	return 0;
}

/* --- a daemon --- */

static struct sites sites;
static char report[SITES_REPORT_MAX];

#define HAS(...) has((const char *[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

static void has(const char *const *list, size_t n)
{
	nnames = (uint32_t)n;
	memcpy(names, list, n * sizeof(*list));
	done[0] = '\0';
}

static int set_up(void **state)
{
	static struct site_configs configs;

	(void)state;
	sites = (struct sites){.sources.dir = "/etc/longreach"};
	starts = true;
	restarts = writable = false;
	nexports = 0;
	lanes = 1;
	HAS("osaka", "tokyo");
	return sites_read(&sites.sources, MISSING_IS_GONE, &configs, report) == 0 ? sites_start(&sites, &configs) : -1;
}

static int tear_down(void **state)
{
	(void)state;
	sites_forget_gone(&sites);
	sites_stop(&sites);
	return 0;
}

/* A reload is no start of the daemon. */
static void sites_start__notes_when(void **state)
{
	int64_t was = sites.started_ns, now = clock_wall_ns();

	(void)state;
	assert_true(was <= now && was > now - 60 * (int64_t)NS_PER_S);
	HAS("osaka", "tokyo", "wakkanai");
	assert_int_equal(sites_reload(&sites, report), 0);
	assert_int_equal(sites.started_ns, was);
}

/* All that takes seconds happens behind the rules of the new name. The rules of the old one stay for the caller, who
 * knows when all others are set. */
static void sites_reload__closes_a_renamed_link_before_anything_stops_or_starts(void **state)
{
	(void)state;
	HAS("asahikawa", "osaka", "wakkanai");
	assert_int_equal(sites_reload(&sites, report), 0);
	assert_string_equal(done, "close asahikawa, close wakkanai, stop tokyo, start asahikawa, start wakkanai");
	assert_non_null(sites.gone);
	assert_int_equal(sites.gone->n, 1);
	assert_string_equal(sites.gone->list[0].name, "tokyo");
	sites_forget_gone(&sites);
	assert_null(sites.gone);
	HAS("asahikawa", "osaka", "wakkanai");
	assert_int_equal(sites_reload(&sites, report), 0);
	assert_string_equal(done, "");
	assert_null(sites.gone);
}

/* The file of a stopped link may have other prefixes now. */
static void sites_reload__closes_links_at_rest_as_well(void **state)
{
	(void)state;
	site_halt(sites_find(&sites, "tokyo"));
	HAS("tokyo");
	assert_int_equal(sites_reload(&sites, report), 0);
	assert_string_equal(done, "close tokyo, stop osaka");
}

static void reports(const char *text)
{
	HAS("tokyo");
	assert_int_equal(sites_reload(&sites, report), 0);
	if (strstr(report, text) == NULL)
		fail_msg("\"%s\" is missing in \"%s\"", text, report);
}

/* Somebody who has mended a link's file must not read "changed" of a link that still does not run. */
static void sites_reload__says_of_a_link_that_does_not_start_why(void **state)
{
	(void)state;
	starts = false;
	lanes = 2;
	restarts = true;
	reports(
	    "link tokyo: restarted, to turn its barrier or FEC on or off; it does not start yet: no such port lan0");
	lanes = 4;
	reports("link tokyo: changed; it does not start yet: no such port lan0");
	reports("link tokyo: unchanged; it does not start yet: no such port lan0");
	starts = true;
	lanes = 8;
	reports("link tokyo: changed");
	assert_null(strstr(report, "does not start"));
	site_halt(sites_find(&sites, "tokyo"));
	reports("link tokyo: stays stopped");
	assert_null(strstr(report, "does not start"));
}

#define RELOAD_EXPORTS "its [Export] sections have changed: `systemctl reload longreach-exports` puts them into force"

/* Else the other site goes on writing to an export that is read-only by now. */
static void sites_reload__says_that_exports_are_reloaded_by_themselves(void **state)
{
	(void)state;
	reports("link tokyo: unchanged");
	nexports = 1;
	writable = true;
	reports("link tokyo: changed; " RELOAD_EXPORTS);
	reports("link tokyo: unchanged");
	writable = false;
	reports("link tokyo: changed; " RELOAD_EXPORTS);
	lanes = 2;
	reports("link tokyo: changed");
	assert_null(strstr(report, "Export"));
	nexports = 0;
	reports("link tokyo: changed; " RELOAD_EXPORTS);
	nexports = 1;
	HAS("osaka", "tokyo");
	assert_int_equal(sites_reload(&sites, report), 0);
	assert_non_null(strstr(report, "link osaka: started; " RELOAD_EXPORTS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(sites_start__notes_when, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(sites_reload__closes_a_renamed_link_before_anything_stops_or_starts, set_up,
	                                    tear_down),
	    cmocka_unit_test_setup_teardown(sites_reload__closes_links_at_rest_as_well, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(sites_reload__says_of_a_link_that_does_not_start_why, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(sites_reload__says_that_exports_are_reloaded_by_themselves, set_up,
	                                    tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
