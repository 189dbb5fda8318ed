/* SPDX-License-Identifier: Apache-2.0 */
#include "closed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "daemon/arena/arena_file.h"
#include "daemon/arena/arena_scan.h"
#include "daemon/kernel/steer.h"
#include "daemon/util/clock.h"
#include "daemon/util/log.h"
#include "daemon/privileged/privileged.h"

#define SAY_AGAIN_NS (60 * NS_PER_S) /* how often the log repeats that a link owes and cannot start, or lost its rules */
#define SETTLED_NS                                                                                                     \
	(3 * NS_PER_S) /* how long files that can be understood again stay the same before they are believed */
#define NAMES_MAX (SITES_MAX + STRAYS_MAX)

static bool all_closed; /* all RoCE is to stay closed, as far as this process knows */

/* What could not be understood since all RoCE was closed: a mount may bring a file's content later. */
static struct {
	struct site_paths files;
	bool directory;    /* it could not be listed */
	bool more;         /* there were more files than there is room for */
	uint64_t sum;      /* of the files' contents when all were understood last */
	uint64_t since_ns; /* since when the sum has been that; 0: some are not understood */
} unread_before;

struct closing {
	struct site_paths paths;
	struct arena_claim claims[SITES_MAX]; /* claims of the files that were understood */
	struct link_config config[SITES_MAX];
	uint32_t n;
	char names[NAMES_MAX][LINK_NAME_MAX]; /* of links whose rules stay */
	uint32_t nnames;
	struct arena_stray strays[STRAYS_MAX];
	const struct closed_links *links; /* this daemon's; NULL: none */
	char *report;
	bool unlisted; /* there may be more link files than were seen */
	bool unread;   /* a link file could not be understood, and its link does not run */
	bool unsure;   /* the file of a running link could not be understood */
	bool failed;   /* rules could not be set */
};

static void say(struct closing *c, const char *what)
{
	size_t n = strlen(c->report);

	snprintf(c->report + n, SITES_REPORT_MAX - n, "%s%s", n > 0 ? "\n" : "", what);
}

static void say_failed(struct closing *c, const char *what)
{
	say(c, what);
	c->failed = true;
}

static void keep(struct closing *c, const char *name)
{
	if (c->nnames < NAMES_MAX)
		snprintf(c->names[c->nnames++], LINK_NAME_MAX, "%s", name);
}

/* Keeps the rules of the link that a file is named after ("/etc/longreach/tokyo.conf": tokyo), even if the file cannot
 * be understood. */
static void keep_file(struct closing *c, const char *path)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	char name[LINK_NAME_MAX];
	size_t len = strlen(base);

	if (len > 5 && strcmp(base + len - 5, ".conf") == 0)
		len -= 5;
	snprintf(name, sizeof(name), "%.*s", (int)len, base);
	keep(c, name);
}

/* One line for each link whose rules are flushed at once, and no flood if that goes on. */
static void log_put_back(const char *link, const char *what)
{
	static struct log_limit said = {.window_ns = SAY_AGAIN_NS, .burst = SITES_MAX};
	char more[LOG_MORE_MAX];
	uint32_t missed = 0;

	if (!log_limit_pass(&said, clock_now_ns(), &missed))
		return;
	log_limit_more(missed, more);
	log_warn("link %s: another program removed or changed %s: longreachd has put the rules back [rules_changed]%s", link,
	         what, more);
}

static void log_all_put_back(void)
{
	static struct log_limit said = {.window_ns = 10 * NS_PER_S, .burst = 3};

	if (log_limit_pass(&said, clock_now_ns(), NULL))
		log_warn("another program removed the nft table inet longreach or the rules of `ip rule` at 89, which close "
		         "all RoCE while a link file has an error: longreachd has put them back [rules_changed]");
}

void closed_note_owed(struct link_config *c)
{
	c->barrier_owed =
	    c->barrier == BARRIER_AUTO && !config_acks_early(c) && arena_file_owes_early(c->arena_dir, c->name);
}

int closed_rest(const struct link_config *c, char *err, size_t errlen)
{
	struct link_config as_owed = *c;
	static struct log_limit said = {.window_ns = SAY_AGAIN_NS, .burst = SITES_MAX};
	enum arena_debt debt = arena_file_debt(c->arena_dir, c->name);
	int r;

	if (debt == ARENA_OWES && log_limit_pass(&said, clock_now_ns(), NULL))
		log_warn("link %s: packets that hosts believe delivered are in %s: all traffic that the link takes "
		         "stays closed between the prefixes until the link has been started and its buffer has drained",
		         c->name, c->arena_dir);
	closed_note_owed(&as_owed);
	r = privileged_steer_install(&as_owed, debt == ARENA_CLEAR ? STEER_AT_REST : STEER_RUNNING, err, errlen);
	if (r > 0)
		log_put_back(c->name, err);
	return r;
}

/* Closes the next link of config[]. */
static void rest(struct closing *c, bool runs)
{
	const struct link_config *config = &c->config[c->n];
	char err[CONFIG_ERR_MAX] = "";
	int r;

	c->claims[c->n++] = (struct arena_claim){.link = config->name, .dir = config->arena_dir};
	r = runs ? privileged_steer_install(config, STEER_RUNNING, err, sizeof(err))
	         : closed_rest(config, err, sizeof(err));
	if (r < 0)
		say_failed(c, err);
	else if (r > 0 && runs)
		log_put_back(config->name, err);
}

/* The number of this daemon's link; its links->n: it has no such link. */
static uint32_t find_link(const struct closed_links *links, const char *name)
{
	uint32_t i = 0;

	while (i < links->n && strcmp(links->list[i]->name, name) != 0)
		i++;
	return i;
}

static bool has_path(const struct site_paths *list, const char *path)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (strcmp(list->path[i], path) == 0)
			return true;
	return false;
}

static void note_unread(struct closing *c, const char *path)
{
	struct site_paths *files = &unread_before.files;

	c->unread = true;
	if (has_path(files, path))
		return;
	if (files->n < SITES_MAX)
		snprintf(files->path[files->n++], SITE_PATH_MAX, "%s", path);
	else
		unread_before.more = true;
}

static void close_one(struct closing *c, const char *path)
{
	char err[CONFIG_ERR_MAX] = "";
	struct link_config *config = &c->config[c->n];
	int r = config_load(path, config, err);
	bool has, runs;
	uint32_t i;

	if (r == -ENOENT)
		return;
	keep_file(c, path);
	i = c->nnames > 0 ? find_link(c->links, c->names[c->nnames - 1]) : c->links->n;
	has = i < c->links->n;
	runs = has && c->links->runs[i];
	if (r < 0 && runs) {
		c->unsure = true;
	} else if (r < 0) {
		say(c, err[0] != '\0' ? err : strerror(-r));
		note_unread(c, path);
	}
	if (has) /* it keeps its rules, even if its file has changed */
		*config = *c->links->list[i];
	if (has || r == 0)
		rest(c, runs);
}

static bool is_kept(const struct closing *c, const char *name)
{
	for (uint32_t i = 0; i < c->nnames; i++)
		if (strcmp(c->names[i], name) == 0)
			return true;
	return false;
}

/* Keeps the rules of this daemon's links without a file: the file was renamed or removed, and the daemon was not reloaded
 * yet. Their rules are removed when they stop: without the rules the kernel would forward their packets as well,
 * unsealed. */
static void close_fileless(struct closing *c)
{
	for (uint32_t i = 0; i < c->links->n && c->n < SITES_MAX; i++) {
		if (is_kept(c, c->links->list[i]->name))
			continue;
		keep(c, c->links->list[i]->name);
		c->config[c->n] = *c->links->list[i];
		rest(c, c->links->runs[i]);
	}
}

/* Removes the rules of links whose files are gone, unless packets are left in their buffers. All other links are known
 * and closed: what they ask for as well stays, under any name. */
static void remove_gone(struct closing *c)
{
	for (uint32_t i = 0; i < c->links->ngone; i++) {
		const struct link_config *gone = &c->links->gone[i];

		if (!is_kept(c, gone->name) && arena_file_debt(gone->arena_dir, gone->name) == ARENA_CLEAR)
			privileged_steer_remove(gone, c->config, c->n);
	}
}

/* Removes the rules of links without a file, unless packets are left in a buffer of such a link. */
static void sweep(struct closing *c)
{
	const char *links[NAMES_MAX];
	bool all;
	uint32_t n = arena_scan(c->claims, c->n, c->strays, STRAYS_MAX, &all);

	if (!all) {
		log_warn("cannot tell whether links without a link file owe packets: more than %d buffers have no "
		         "link, or a directory of buffers cannot be read: the rules of such links stay",
		         STRAYS_MAX);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		if (c->strays[i].kind == STRAY_UNCLAIMED)
			keep(c, c->strays[i].link);
	for (uint32_t i = 0; i < c->nnames; i++)
		links[i] = c->names[i];
	privileged_steer_sweep(links, c->nnames);
	if (!c->unread)
		privileged_hold_only(c->config, c->n);
	if (!c->unread && !c->failed && n == 0)
		privileged_fib_rule_sweep(c->config, c->n);
}

/* True if all files that could not be understood before are there and can be understood now. */
static bool all_are_read(const struct closing *c)
{
	if (c->unread || unread_before.more || (unread_before.directory && c->paths.n == 0))
		return false;
	for (uint32_t i = 0; i < unread_before.files.n; i++)
		if (!has_path(&c->paths, unread_before.files.path[i]))
			return false; /* it may be on its way to another name */
	return c->n == c->paths.n;
}

/* True if all files have been understood, with the same content, for SETTLED_NS: none is half written. */
static bool has_settled(const struct closing *c)
{
	uint64_t sum = XXH3_64bits(c->config, c->n * sizeof(c->config[0])), now = clock_now_ns();

	if (!all_are_read(c)) {
		unread_before.since_ns = 0;
		return false;
	}
	if (unread_before.since_ns == 0 || unread_before.sum != sum)
		unread_before.since_ns = now;
	unread_before.sum = sum;
	return now - unread_before.since_ns >= SETTLED_NS;
}

/* Closes all RoCE, or no longer. Files of running links alone close nothing more, and open nothing either. */
static void set_all(struct closing *c, bool only_restores)
{
	bool known = all_closed, settled = only_restores && known && has_settled(c);
	char err[CONFIG_ERR_MAX];
	int r;

	all_closed = c->unread ||
	             ((c->unsure || (only_restores && known && !settled)) && privileged_steer_all_stands());
	if (!all_closed)
		memset(&unread_before, 0, sizeof(unread_before));
	if (!all_closed && settled)
		log_notice("all link files can be understood again: other RoCE than theirs is not closed any more");
	r = privileged_steer_all(all_closed, err, sizeof(err));
	if (r > 0 && known && all_closed)
		log_all_put_back();
	if (r < 0)
		say_failed(c, err);
	else if (all_closed)
		say(c, "until that is corrected, this machine forwards no RoCE at all");
}

static int close_files(const struct site_sources *src, const struct closed_links *links, bool only_restores, char *report)
{
	static const struct closed_links none = {.n = 0};
	struct closing *c = calloc(1, sizeof(*c));
	int r = 0;

	report[0] = '\0';
	if (c == NULL) {
		snprintf(report, SITES_REPORT_MAX, "not enough memory");
		return -EIO;
	}
	c->report = report;
	c->links = links != NULL ? links : &none;
	c->unlisted = c->unread = site_paths_read(src, &c->paths, report) < 0;
	unread_before.directory |= c->unlisted;
	for (uint32_t i = 0; i < c->paths.n; i++)
		close_one(c, c->paths.path[i]);
	close_fileless(c);
	set_all(c, only_restores);
	if (!c->unread && !c->failed)
		remove_gone(c);
	if (src->nfiles == 0 && !c->unlisted && !only_restores)
		sweep(c);
	if (c->unread)
		r = -EINVAL;
	if (c->failed)
		r = -EIO;
	free(c);
	return r;
}

int closed_apply(const struct site_sources *src, const struct closed_links *links, char *report)
{
	return close_files(src, links, false, report);
}

int closed_restore(const struct site_sources *src, char *report)
{
	return close_files(src, NULL, true, report);
}

void closed_forget(void)
{
	all_closed = false;
	memset(&unread_before, 0, sizeof(unread_before));
	steer_forget();
}

void closed_log(char *report, char *said)
{
	for (char *line; (line = strsep(&report, "\n")) != NULL;) {
		if (line[0] == '\0' || strstr(said, line) != NULL)
			continue;
		log_err("%s", line);
		site_report(said, "%s", line);
	}
}

static void list_owed_of(const struct link_config *config, FILE *out)
{
	char path[SITE_PATH_MAX];

	for (uint32_t shard = 0; shard < SHARDS_MAX; shard++) {
		arena_file_name(path, sizeof(path), config->arena_dir, config->name, shard);
		if (arena_file_debt_of(path) != ARENA_CLEAR)
			fprintf(out, "%s\n", path);
	}
}

int closed_list_owed(const struct site_sources *src, FILE *out)
{
	struct closing *c = calloc(1, sizeof(*c));
	char report[SITES_REPORT_MAX] = "", err[CONFIG_ERR_MAX];
	bool unread, all;
	uint32_t n;

	if (c == NULL)
		return -ENOMEM;
	unread = site_paths_read(src, &c->paths, report) < 0;
	for (uint32_t i = 0; i < c->paths.n; i++) {
		struct link_config *config = &c->config[c->n];
		int r = config_load(c->paths.path[i], config, err);

		if (r < 0 && r != -ENOENT) {
			fprintf(out, "%s\n", c->paths.path[i]); /* the file may name a directory that no other file
			                                         * names */
			unread = true;
		}
		if (r < 0)
			continue;
		c->claims[c->n++] = (struct arena_claim){.link = config->name, .dir = config->arena_dir};
		list_owed_of(config, out);
	}
	n = arena_scan(c->claims, c->n, c->strays, STRAYS_MAX, &all);
	for (uint32_t i = 0; i < n; i++)
		fprintf(out, "%s\n", c->strays[i].path);
	free(c);
	return unread || !all ? -EINVAL : 0;
}

static bool all_understood(const struct site_sources *src)
{
	static struct site_paths paths; /* large */
	static struct link_config config;
	static char report[SITES_REPORT_MAX];
	char err[CONFIG_ERR_MAX];
	bool sound;

	report[0] = '\0';
	sound = site_paths_read(src, &paths, report) == 0;
	for (uint32_t i = 0; i < paths.n && sound; i++) {
		int r = config_load(paths.path[i], &config, err);

		sound = r == 0 || r == -ENOENT;
	}
	return sound;
}

int closed_keep_all(const struct site_sources *src, char *err)
{
	bool stands = privileged_steer_all_stands(), known = all_closed;
	int r;

	all_closed = stands || (known && !all_understood(src));
	if (!all_closed)
		return 0;
	r = privileged_steer_all(true, err, CONFIG_ERR_MAX);
	if (known && r > 0)
		log_all_put_back();
	return known || r < 0 ? r : 0; /* `longreachd --close` may not have set the rules yet */
}

bool closed_all(void)
{
	return all_closed;
}
