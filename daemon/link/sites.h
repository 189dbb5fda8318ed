/* SPDX-License-Identifier: Apache-2.0 */
/* sites.h - all links of the daemon: where their files are, starting them, taking up changed files. */
#ifndef DAEMON_SITES_H
#define DAEMON_SITES_H

#include "daemon/arena/arena_scan.h"
#include "daemon/config/site_paths.h"
#include "site.h"

struct site_configs {
	struct link_config list[SITES_MAX];
	uint32_t n;
};

struct sites {
	struct site_sources sources;
	struct event_base *base;
	const char *pcap_dir;
	int64_t started_ns;           /* since 1970, as the clock was when sites_start() was called; never changes */
	struct failed_record *failed; /* NULL: none is kept */
	char refused[SITES_REPORT_MAX]; /* why the link files are not in force since they were read last; empty: they are */
	bool unstarted; /* so it was at the start, and since then: no link was started */
	char unserved[CONFIG_ERR_MAX]; /* why no metrics are served; empty: they are, or nobody wants them */
	struct site *list[SITES_MAX];
	uint32_t n;
	struct site_configs *gone; /* links that sites_reload() has stopped because their files are gone: closed_apply()
	                            * has to remove their rules; NULL: none */
};

enum sites_missing {
	MISSING_IS_ERROR, /* a named file must be there */
	MISSING_IS_GONE,  /* a named file that is gone means that its link is to stop */
};

/* Reads and checks all files. 0, or -EINVAL with every error in report (SITES_REPORT_MAX): then out has the files without
 * error. */
int sites_read(const struct site_sources *src, enum sites_missing missing, struct site_configs *out, char *report);

/* Starts a site for each. 0, -ENOMEM. */
int sites_start(struct sites *s, const struct site_configs *configs);
/* Reads the files again and takes up what they say; an error anywhere changes nothing. A link whose changes cannot be
 * taken up while running keeps its configuration (site_waits()); the other links are reloaded all the same. Returns how
 * many such links there are, or negative errno. report: what was done, or why not.
 *
 * The prefixes of a link that is stopped may be those of another file now, as when a file was renamed. So the rules of
 * links that do not run are set first, and the rules of stopped links stay: call closed_apply() with them (`gone`) when
 * this has returned. */
int sites_reload(struct sites *s, char *report);
/* Their rules are removed, or left to a later closed_apply(). */
void sites_forget_gone(struct sites *s);

/* X(enumerator, word). Verbs for one link; no other link is touched. Start and restart read only that link's file. */
#define SITES_VERBS(X) X(START, "start") X(STOP, "stop") X(RESTART, "restart")
#define X(e, word)     SITES_##e,
enum sites_verb { SITES_VERBS(X) SITES_VERB_COUNT };
#undef X
/* SITES_VERB_COUNT: it is none */
enum sites_verb sites_verb_of(const char *word);
/* 0, or negative errno: nothing was changed. report: what was done, or why not. */
int sites_do(struct sites *s, enum sites_verb verb, const char *name, char *report);
void sites_stop(struct sites *s);

/* Buffers that none of the links will drain, in their directories, now. Returns how many, at most max; 0 while no link
 * was started because a link file was refused. */
uint32_t sites_strays(const struct sites *s, struct arena_stray *out, uint32_t max);

/* closed.h's closed_all(). */
bool sites_all_closed(void);

struct site *sites_find(const struct sites *s, const char *name); /* NULL */

#endif
