/* SPDX-License-Identifier: Apache-2.0 */
/* sites.c - all links of the daemon.
 *
 * A reload reads and checks every file, also against each other and against what runs, before the first link is
 * touched; an error in any file changes nothing. A change that only a start can take up is no error: its link keeps its
 * configuration, and the other files are checked against that. Key files are read again in any case, under the names in
 * force. */
#include "sites.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/closed/closed.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/peer/tls.h"

/* --- reading --- */

static int read_one(const char *path, enum sites_missing missing, struct site_configs *out, char *report)
{
	char err[CONFIG_ERR_MAX] = "";
	int r;

	if (out->n == SITES_MAX) {
		site_report(report, "%s: too many links: at most %d", path, SITES_MAX);
		return -EINVAL;
	}
	r = config_load(path, &out->list[out->n], err);
	if (r == -ENOENT && missing == MISSING_IS_GONE)
		return 0;
	if (r < 0) {
		site_report(report, "%s", err[0] != '\0' ? err : strerror(-r));
		return r;
	}
	out->n++;
	return 0;
}

static int check_together(const struct site_configs *c, char *report)
{
	char err[CONFIG_ERR_MAX];
	int bad = 0;

	for (uint32_t i = 0; i < c->n; i++)
		for (uint32_t j = 0; j < i; j++)
			if (config_compatible(&c->list[j], &c->list[i], err) < 0) {
				site_report(report, "%s", err);
				bad = 1;
			}
	return bad ? -EINVAL : 0;
}

int sites_read(const struct site_sources *src, enum sites_missing missing, struct site_configs *out, char *report)
{
	static struct site_paths paths; /* large */
	int bad;

	out->n = 0;
	report[0] = '\0';
	bad = site_paths_read(src, &paths, report) < 0;
	if (src->nfiles == 0)
		missing = MISSING_IS_GONE; /* the file was removed after the directory was read */
	for (uint32_t i = 0; i < paths.n; i++)
		bad |= read_one(paths.path[i], missing, out, report) < 0;
	if (bad)
		return -EINVAL;
	return check_together(out, report);
}

/* --- running --- */

struct site *sites_find(const struct sites *s, const char *name)
{
	for (uint32_t i = 0; i < s->n; i++)
		if (strcmp(site_config(s->list[i])->name, name) == 0)
			return s->list[i];
	return NULL;
}

static struct link_config *find_config(struct site_configs *c, const char *name)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (strcmp(c->list[i].name, name) == 0)
			return &c->list[i];
	return NULL;
}

static int add_site(struct sites *s, const struct link_config *c)
{
	struct site *site = site_new(c, s->base, s->pcap_dir, s->failed);

	if (site == NULL)
		return -ENOMEM;
	s->list[s->n++] = site;
	return 0;
}

/* --- buffers that no link will drain --- */

uint32_t sites_strays(const struct sites *s, struct arena_stray *out, uint32_t max)
{
	struct arena_claim claims[SITES_MAX];

	if (s->unstarted)
		return 0; /* their links will be started */
	for (uint32_t i = 0; i < s->n; i++)
		claims[i] = (struct arena_claim){.link = site_config(s->list[i])->name,
		                                 .dir = site_config(s->list[i])->arena_dir};
	return arena_scan(claims, s->n, out, max, NULL);
}

bool sites_all_closed(void)
{
	return closed_all();
}

/* Into the log, and into the report if there is one. */
static void say_strays(const struct sites *s, char *report)
{
	struct arena_stray *found = calloc(STRAYS_MAX, sizeof(*found));
	uint32_t n = found != NULL ? sites_strays(s, found, STRAYS_MAX) : 0;
	char text[STRAY_TEXT_MAX];

	for (uint32_t i = 0; i < n; i++) {
		log_err("%s", stray_text(&found[i], text));
		if (report != NULL)
			site_report(report, "%s", text);
	}
	free(found);
}

int sites_start(struct sites *s, const struct site_configs *configs)
{
	s->started_ns = clock_wall_ns();
	for (uint32_t i = 0; i < configs->n; i++)
		if (add_site(s, &configs->list[i]) < 0)
			return -ENOMEM;
	say_strays(s, NULL);
	return 0;
}

/* A link that has taken up a buffer in use may run with another Size= and MaxFlows= than its configuration says: a file
 * that asks for just that buffer changes neither. */
static bool reloadable(const struct site *site, const struct link_config *to, char err[CONFIG_ERR_MAX])
{
	static struct link_config from; /* large */

	from = *site_config(site);
	if (site_buffer_is_of(site, to)) {
		from.arena_bytes = to->arena_bytes;
		from.max_flows = to->max_flows;
	}
	return config_reloadable(&from, to, err);
}

/* A running link that cannot take up its file keeps its configuration, in `next`, too; a link that failed to start can
 * take up any change. Returns how many links keep theirs. */
static int hold_back(struct sites *s, struct site_configs *next)
{
	char err[CONFIG_ERR_MAX];
	int held = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		struct link_config *to = find_config(next, site_config(s->list[i])->name);

		site_set_waits(s->list[i], "");
		if (to == NULL || site_link(s->list[i]) == NULL)
			continue;
		config_carry_over(site_config(s->list[i]), to);
		if (reloadable(s->list[i], to, err))
			continue;
		site_set_waits(s->list[i], err);
		*to = *site_config(s->list[i]);
		held++;
	}
	return held;
}

/* Takes the site out of the list before it is stopped: requests that wait for an answer of the link search the list. */
static struct site *take_out(struct sites *s, uint32_t i)
{
	struct site *site = s->list[i];

	s->n--;
	memmove(&s->list[i], &s->list[i + 1], (s->n - i) * sizeof(s->list[0]));
	return site;
}

/* Sets the rules of all links that do not run before any link is stopped or started: a start may take seconds. */
static void close_first(struct sites *s, const struct site_configs *next)
{
	char err[CONFIG_ERR_MAX] = "";

	for (uint32_t i = 0; i < next->n; i++) {
		const struct link_config *c = &next->list[i];
		const struct site *site = sites_find(s, c->name);

		if ((site == NULL || site_link(site) == NULL) && closed_rest(c, err, sizeof(err)) < 0)
			log_err("link %s: %s", c->name, err);
	}
}

static void note_gone(struct sites *s, const struct link_config *c)
{
	if (s->gone == NULL)
		s->gone = calloc(1, sizeof(*s->gone));
	if (s->gone != NULL && s->gone->n < SITES_MAX)
		s->gone->list[s->gone->n++] = *c;
}

void sites_forget_gone(struct sites *s)
{
	free(s->gone);
	s->gone = NULL;
}

static void stop_removed(struct sites *s, struct site_configs *next, char *report)
{
	for (uint32_t i = 0; i < s->n;) {
		const char *name = site_config(s->list[i])->name;

		if (find_config(next, name) != NULL) {
			i++;
			continue;
		}
		site_report(report, "link %s: stopped, as its link file is gone", name);
		note_gone(s, site_config(s->list[i]));
		site_remove(take_out(s, i));
	}
}

/* The daemon does not serve exports: a process of its own does, with what it has read last. */
static const char *exports_note(const struct link_config *before, const struct link_config *c)
{
	uint32_t n = before != NULL ? before->nexports : 0;

	if (n == c->nexports && (n == 0 || memcmp(before->exports, c->exports, n * sizeof(c->exports[0])) == 0))
		return "";
	return "; its [Export] sections have changed: `systemctl reload longreach-exports` puts them into force";
}

static void change_or_start(struct sites *s, const struct link_config *c, char *report)
{
	struct site *site = sites_find(s, c->name);

	if (site != NULL && site_is_held(site)) {
		bool keys = site_reread_keys(site); /* the keys that it was started with may be revoked */

		log_warn("link %s: goes on as it was started: %s", c->name, site_waits(site));
		site_report(report,
		            "link %s: goes on as it was started, and takes up none of its changed link file: %s%s",
		            c->name, site_waits(site),
		            keys ? "; its keys have changed: the other edge has to prove itself again" : "");
		return;
	}
	if (site != NULL) {
		bool same = memcmp(site_config(site), c, sizeof(*c)) == 0;
		bool restart = !same && site_link(site) != NULL && config_restarts(site_config(site), c);

		bool keys = same && site_reread_keys(site);
		const char *exports = exports_note(site_config(site), c), *note, *fails;

		if (restart)
			site_restart(site, c);
		else if (!same)
			site_reconfigure(site, c);
		fails = site_link(site) == NULL && !site_halted(site) ? site_error(site) : "";
		note = same ? "" : site_buffer_note(site);
		site_report(report, "link %s: %s%s%s%s%s%s", c->name,
		            site_halted(site) ? "stays stopped"
		            : keys            ? "its keys have changed: the other edge has to prove itself again"
		            : same            ? "unchanged"
		            : restart         ? "restarted, to turn its barrier or FEC on or off"
		            : site_link(site) != NULL && link_untold(site_link(site)) > 0
		                ? "changed, but some workers have not taken it yet: `longreach status` says how many"
		                : "changed",
		            exports, note[0] != '\0' ? "; " : "", note,
		            fails[0] != '\0' ? "; it does not start yet: " : "", fails);
		return;
	}
	if (add_site(s, c) < 0) {
		site_report(report, "link %s: not started: not enough memory", c->name);
		return;
	}
	site = s->list[s->n - 1];
	if (site_link(site) != NULL)
		site_report(report, "link %s: started%s", c->name, exports_note(NULL, c));
	else
		site_report(report, "link %s: does not start yet: %s%s", c->name, site_error(site),
		            exports_note(NULL, c));
}

/* Reads the keys as a start would: finds errors that the next start would meet. */
static int check_keys_of(const struct link_config *c, char *report)
{
	char err[CONFIG_ERR_MAX] = "out of memory";
	struct tls *tls;
	int r = tls_open(c, &tls, err);

	if (r < 0)
		site_report(report, "%s: %s; the link keeps the keys in force", c->path, err);
	tls_close(tls);
	return r;
}

static int check_keys(const struct site_configs *next, char *report)
{
	int bad = 0;

	for (uint32_t i = 0; i < next->n; i++)
		bad |= check_keys_of(&next->list[i], report) < 0;
	return bad ? -EINVAL : 0;
}

static void apply(struct sites *s, struct site_configs *next, char *report)
{
	close_first(s, next);
	stop_removed(s, next, report);
	for (uint32_t i = 0; i < next->n; i++)
		change_or_start(s, &next->list[i], report);
	if (report[0] == '\0')
		site_report(report, "no links");
	say_strays(s, report);
}

int sites_reload(struct sites *s, char *report)
{
	struct site_configs *next = malloc(sizeof(*next));
	int r, held = 0;

	if (next == NULL) {
		snprintf(report, SITES_REPORT_MAX, "not enough memory");
		return -ENOMEM;
	}
	r = sites_read(&s->sources, MISSING_IS_GONE, next, report);
	if (r == 0)
		r = check_keys(next, report);
	if (r == 0)
		held = hold_back(s, next);
	if (held > 0)
		r = check_together(next, report);
	if (r == 0)
		apply(s, next, report);
	free(next);
	return r < 0 ? r : held;
}

/* --- one link --- */

enum sites_verb sites_verb_of(const char *word)
{
#define X(e, w) w,
	static const char *const words[] = {SITES_VERBS(X)};
#undef X
	unsigned i = 0;

	while (i < SITES_VERB_COUNT && strcmp(words[i], word) != 0)
		i++;
	return (enum sites_verb)i;
}

/* Finds the link's file: the running link's, or the one of that name among the sources. */
static int find_path(const struct sites *s, const char *name, char path[SITE_PATH_MAX], char *report)
{
	const struct site *site = sites_find(s, name);
	static struct site_paths paths; /* large */
	char ends[LINK_NAME_MAX + 8];

	if (site != NULL) {
		snprintf(path, SITE_PATH_MAX, "%s", site_config(site)->path);
		return 0;
	}
	snprintf(ends, sizeof(ends), "%s.conf", name);
	if (site_paths_read(&s->sources, &paths, report) < 0)
		return -EINVAL;
	for (uint32_t i = 0; i < paths.n; i++) {
		const char *slash = strrchr(paths.path[i], '/');

		if (strcmp(slash != NULL ? slash + 1 : paths.path[i], ends) == 0) {
			snprintf(path, SITE_PATH_MAX, "%s", paths.path[i]);
			return 0;
		}
	}
	site_report(report, "there is no link %.64s, and no file %.64s.conf", name, name);
	return -ENOENT;
}

/* Reads the link's present file and checks it by itself and against the other links' running configurations. */
static int read_of(const struct sites *s, const char *name, struct link_config *c, char *report)
{
	char path[SITE_PATH_MAX], err[CONFIG_ERR_MAX] = "";
	int r = find_path(s, name, path, report);

	if (r < 0)
		return r;
	r = config_load(path, c, err);
	if (r < 0) {
		site_report(report, "%s", err[0] != '\0' ? err : strerror(-r));
		return r;
	}
	for (uint32_t i = 0; i < s->n; i++)
		if (strcmp(site_config(s->list[i])->name, name) != 0 &&
		    config_compatible(site_config(s->list[i]), c, err) < 0) {
			site_report(report, "%s", err);
			r = -EINVAL;
		}
	if (check_keys_of(c, report) < 0)
		r = -EINVAL;
	return r;
}

static void say_begun(const struct site *site, const char *what, char *report)
{
	const char *name = site_config(site)->name;

	if (site_link(site) != NULL)
		site_report(report, "link %s: %s%s%s", name, what, site_waits(site)[0] != '\0' ? "; " : "",
		            site_waits(site));
	else
		site_report(report, "link %s: does not start yet: %s", name, site_error(site));
}

static int stop_one(struct sites *s, const char *name, char *report)
{
	struct site *site = sites_find(s, name);

	if (site == NULL) {
		site_report(report, "there is no link %.64s", name);
		return -ENOENT;
	}
	if (!site_halted(site)) {
		log_notice("link %s: an operator stops the link", name);
		site_halt(site);
	}
	site_report(report, "link %s: %s", name, site_error(site));
	return 0;
}

static int begin_one(struct sites *s, enum sites_verb verb, const char *name, char *report)
{
	static struct link_config c; /* large */
	struct site *site = sites_find(s, name);
	int r;

	if (verb == SITES_START && site != NULL && site_link(site) != NULL) {
		site_report(report, "link %s: is running already%s%s", name, site_waits(site)[0] != '\0' ? "; " : "",
		            site_waits(site));
		return 0;
	}
	r = read_of(s, name, &c, report);
	if (r == 0 && site == NULL && s->n == SITES_MAX) {
		site_report(report, "too many links: at most %d", SITES_MAX);
		r = -EINVAL;
	}
	if (r < 0)
		return r;
	log_notice("link %s: an operator %ss the link", name, verb == SITES_START ? "start" : "restart");
	if (site == NULL && add_site(s, &c) < 0) {
		site_report(report, "not enough memory");
		return -ENOMEM;
	}
	if (site == NULL)
		site = s->list[s->n - 1];
	else if (site_link(site) != NULL)
		site_restart_anew(site, &c);
	else
		site_go(site, &c);
	say_begun(site, verb == SITES_START ? "started" : "restarted", report);
	return 0;
}

int sites_do(struct sites *s, enum sites_verb verb, const char *name, char *report)
{
	report[0] = '\0';
	return verb == SITES_STOP ? stop_one(s, name, report) : begin_one(s, verb, name, report);
}

void sites_stop(struct sites *s)
{
	while (s->n > 0)
		site_free(take_out(s, s->n - 1));
}
