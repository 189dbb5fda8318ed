/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - one link's configuration file: reading and writing.
 *
 * Theory of operation
 *
 * inih splits the file into sections, names and values; this file feeds it line by line from memory, so that it knows
 * the number of the line that a value came from, and looks each name up in the table (config_keys.c). Leading blanks
 * are cut off before inih sees them: it would take an indented line for the continuation of the one before. Each error
 * is one sentence with file, line, the text as it stands there, and what would be right. config_load() stops at the
 * first error; config_load_all() reads on, and leaves out only errors that follow from one already told. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "config_keys.h"

#define QUOTE_MAX 80 /* characters of a value that are quoted */

struct parser {
	struct link_config *c;
	const char *file;
	const char *next, *end;        /* text not yet read */
	unsigned line;                 /* number of the last line handed out */
	char *err;                     /* CONFIG_ERR_MAX; empty: no error so far */
	unsigned err_line;             /* line of the error in err; 0: the error is about no line */
	uint32_t path;                 /* index of the path or export that the current section's keys belong to */
	struct config_reading *r;      /* the reading that errors are added to if ... */
	bool all;                      /* ... all errors are wanted */
	char skipped[QUOTE_MAX];       /* an unknown section that was already reported */
};

/* True if reading can stop: further errors would not be told. */
static bool is_done(const struct parser *p)
{
	return p->err[0] != '\0' && !p->all;
}

static void add_error(struct config_reading *r, const char *text)
{
	if (r->nerrors < CONFIG_ERRORS_MAX)
		snprintf(r->error[r->nerrors++], CONFIG_ERR_MAX, "%s", text);
	else
		r->left_out++;
}

static void fail_at(struct parser *p, unsigned line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Notes the first error, or every error if all are wanted. */
static void fail_at(struct parser *p, unsigned line, const char *fmt, ...)
{
	char text[CONFIG_ERR_MAX];
	va_list ap;
	int n;

	if (is_done(p))
		return;
	if (line != 0)
		n = snprintf(text, sizeof(text), "%s:%u: ", p->file, line);
	else
		n = snprintf(text, sizeof(text), "%s: ", p->file);
	if (n > 0 && n < CONFIG_ERR_MAX) {
		va_start(ap, fmt);
		vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
		va_end(ap);
	}
	if (p->all)
		add_error(p->r, text);
	if (p->err[0] != '\0')
		return;
	p->err_line = line;
	memcpy(p->err, text, sizeof(text));
}

/* Copies the offending text so that it can stand in a message: shortened, nothing unprintable. */
static const char *quote(char buf[QUOTE_MAX + 4], const char *text, size_t len)
{
	size_t n = len < QUOTE_MAX ? len : QUOTE_MAX;

	for (size_t i = 0; i < n; i++)
		buf[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
	memcpy(buf + n, len > n ? "..." : "", len > n ? 4 : 1);
	return buf;
}

/* --- lines for inih --- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* True if one of the characters is in the line, up to a comment behind a blank, as inih searches. */
static bool has_any(const char *s, size_t len, const char *chars)
{
	for (size_t i = 0; i < len; i++) {
		if (s[i] == ';' && i > 0 && is_blank(s[i - 1]))
			return false;
		if (strchr(chars, s[i]) != NULL)
			return true;
	}
	return false;
}

/* The length of a byte order mark, which inih skips, in front of the file's first line. */
static size_t bom_len(const struct parser *p, const char *s, size_t len)
{
	return p->line == 1 && len >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

/* Checks a line before inih sees it: inih reports only the first line that it does not understand. */
static bool line_is_sound(const struct parser *p, const char *s, size_t len)
{
	size_t bom = bom_len(p, s, len);

	s += bom;
	len -= bom;
	if (len == 0 || *s == ';' || *s == '#')
		return true;
	return *s == '[' ? has_any(s + 1, len - 1, "]") : has_any(s, len, "=:");
}

/* The length of the sound line [Section] up to its `]`, if text that is no comment stands behind it, which inih would
 * ignore; else len. */
static size_t section_len(const struct parser *p, const char *s, size_t len)
{
	size_t bom = bom_len(p, s, len), end, i;
	const char *close = len > bom && s[bom] == '[' ? memchr(s + bom, ']', len - bom) : NULL;

	if (close == NULL)
		return len;
	end = (size_t)(close - s) + 1;
	for (i = end; i < len && is_blank(s[i]);)
		i++;
	return i < len && s[i] != ';' && s[i] != '#' ? end : len;
}

/* fgets() over memory. Lines that are too long for inih, or that it would not understand, are reported here and handed
 * to inih empty. */
static char *next_line(char *str, int num, void *stream)
{
	struct parser *p = stream;
	const char *from = p->next, *eol;
	char q[QUOTE_MAX + 4];
	size_t len;

	if (from == p->end)
		return NULL;
	eol = memchr(from, '\n', (size_t)(p->end - from));
	p->next = eol != NULL ? eol + 1 : p->end;
	p->line++;
	if (eol == NULL)
		eol = p->end;
	while (from < eol && is_blank(*from))
		from++;
	len = (size_t)(eol - from);
	if (memchr(from, '\0', len) != NULL) {
		fail_at(p, p->line, "has a byte 0: expected text");
		len = 0;
	} else if (len + 3 > (size_t)num) {
		fail_at(p, p->line,
		        "longer than %d characters: write a long list in several lines, each with its key", num - 3);
		len = 0;
	} else if (!line_is_sound(p, from, len)) {
		fail_at(p, p->line, "%s: expected [Section] or Key=value", quote(q, from, len));
		len = 0;
	} else if (section_len(p, from, len) < len) {
		fail_at(p, p->line, "%s: expected nothing behind ] but a comment: write each key in a line of its own",
		        quote(q, from, len));
		len = section_len(p, from, len);
	}
	memcpy(str, from, len);
	memcpy(str + len, "\n", 2);
	return str;
}

static const char *line_text(const char *text, size_t len, unsigned line, char buf[QUOTE_MAX + 4])
{
	const char *end = text + len, *eol;

	for (;;) {
		eol = memchr(text, '\n', (size_t)(end - text));
		if (eol == NULL)
			eol = end;
		if (--line == 0 || eol == end)
			return quote(buf, text, (size_t)(eol - text));
		text = eol + 1;
	}
}

/* --- values --- */

static void fail_unknown(struct parser *p, const char *section, const char *name)
{
	const struct config_key *k = config_key_find(NULL, name);
	char q[QUOTE_MAX + 4];
	const char *near;

	quote(q, name, strlen(name));
	if (section[0] == '\0') {
		fail_at(p, p->line, "%s=: expected a section such as [Link] before the first key", q);
	} else if (!config_section_known(section)) {
		char qs[QUOTE_MAX + 4];

		near = config_section_nearest(section);
		fail_at(p, p->line, "[%s] is not a section: expected %s%s%s", quote(qs, section, strlen(section)),
		        near != NULL ? "[" : "[Link], [Host], [Path], [Buffer], [Relay], [Export NAME], [Security] or [Tuning",
		        near != NULL ? near : "", "]");
	} else if (k != NULL) {
		fail_at(p, p->line, "%s= is in section [%s]: expected it in [%s]", q, section, k->section);
	} else {
		k = config_key_nearest(name);
		if (k != NULL)
			fail_at(p, p->line, "%s= is not a key: expected %s= in [%s]", q, k->name, k->section);
		else
			fail_at(p, p->line, "%s= is not a key of [%s]: longreach.conf(5) lists them", q, section);
	}
}

static void fail_value(struct parser *p, const struct config_key *k, const char *value, const char *why)
{
	char q[QUOTE_MAX + 4];

	p->r->bad[k - config_keys] = true;
	fail_at(p, p->line, "%s=%s: %s%s%s", k->name, quote(q, value, strlen(value)), why,
	        strstr(value, " #") != NULL ? " (a comment behind a value begins with ;)" : "",
	        value[0] == '"' || value[0] == '\'' ? " (a value stands without quotes)" : "");
}

/* Items of a list are parted by blanks or commas. */
static void take_list(struct parser *p, const struct config_key *k, const char *value)
{
	unsigned *item_line = p->r->item_line[k - config_keys];
	char item[CONFIG_ITEM_MAX], why[CONFIG_WHY_MAX];
	const char *s = value, *between = k->type->commas ? " \t" : " \t,";

	for (;;) {
		size_t len;

		s += strspn(s, between);
		len = strcspn(s, between);
		if (len == 0)
			return;
		snprintf(item, sizeof(item), "%.*s", (int)len, s);
		if (config_key_read(k, p->c, 0, item, why) < 0) {
			fail_value(p, k, value, why);
			return;
		}
		item_line[(config_key_count(k, p->c) - 1) % CONFIG_ITEMS_MAX] = p->line;
		s += len;
	}
}

static void take_value(struct parser *p, const struct config_key *k, const char *value)
{
	uint32_t path = config_key_is_of_many(k) ? p->path : 0;
	unsigned *given = &p->r->line[path][k - config_keys];
	char why[CONFIG_WHY_MAX];

	if (*given != 0 && !(k->flags & KEY_LIST)) {
		fail_at(p, p->line, "%s= is given in line %u too: expected it once", k->name, *given);
		return;
	}
	if (*given == 0) {
		*given = p->line;
		if (k->flags & KEY_LIST)
			config_key_clear(k, p->c); /* the file's value replaces the default */
	}
	if (value[strspn(value, " \t,")] == '\0') {
		snprintf(why, sizeof(why), "expected %s", k->type->expected);
		fail_value(p, k, value, why);
	} else if (k->flags & KEY_LIST) {
		take_list(p, k, value);
	} else if (config_key_read(k, p->c, path, value, why) < 0) {
		fail_value(p, k, value, why);
	}
}

/* --- [Path NAME] --- */

static void set_section_defaults(struct link_config *c, unsigned kind, uint32_t which)
{
	char why[CONFIG_WHY_MAX];

	for (uint32_t i = 0; i < config_nkeys; i++)
		if (config_keys[i].flags & kind && config_keys[i].fallback != NULL &&
		    config_key_read(&config_keys[i], c, which, config_keys[i].fallback, why) < 0)
			abort(); /* the table contradicts itself */
}

static bool section_name_is_sound(const char *name, size_t max)
{
	size_t len = strlen(name);

	return len < max && strspn(name, NAME_CHARACTERS) == len;
}

/* For a section "Path" or "Path NAME": finds the path or begins a new one. False: another section, or an error. */
static bool enter_path(struct parser *p, const char *section)
{
	const char *name = section + strlen("Path");
	struct link_config *c = p->c;
	char q[QUOTE_MAX + 4];

	name += strspn(name, " \t");
	for (p->path = 0; p->path < c->npaths; p->path++)
		if (strcmp(c->paths[p->path].name, name) == 0)
			return true;
	if (!section_name_is_sound(name, PATH_NAME_MAX)) {
		fail_at(p, p->line, "[%s]: expected a name of at most %d letters, digits and . _ -",
		        quote(q, section, strlen(section)), PATH_NAME_MAX - 1);
	} else if (c->npaths == PATHS_MAX) {
		fail_at(p, p->line, "[%s]: more than %d paths", section, PATHS_MAX);
	} else if (c->npaths > 0 && (*name == '\0' || c->paths[0].name[0] == '\0')) {
		fail_at(p, p->line,
		        "[Path] has no name, and there is [Path %s] too: expected a name for each of several paths",
		        *name != '\0' ? name : c->paths[0].name);
	} else {
		snprintf(c->paths[c->npaths++].name, PATH_NAME_MAX, "%s", name);
		set_section_defaults(c, KEY_PATH, p->path);
		return true;
	}
	p->path = 0;
	return false;
}

/* [KIND] or [KIND NAME]. */
static bool is_section_of(const char *section, const char *kind)
{
	size_t len = strlen(kind);

	return strncmp(section, kind, len) == 0 && (section[len] == '\0' || is_blank(section[len]));
}

/* --- [Export NAME] --- */

/* For a section "Export NAME": finds the export or begins a new one. False: another section, or an error. */
static bool enter_export(struct parser *p, const char *section)
{
	const char *name = section + strlen("Export");
	struct link_config *c = p->c;
	char q[QUOTE_MAX + 4];

	name += strspn(name, " \t");
	for (p->path = 0; p->path < c->nexports; p->path++)
		if (strcmp(c->exports[p->path].name, name) == 0)
			return true;
	if (*name == '\0' || !section_name_is_sound(name, EXPORT_NAME_MAX)) {
		fail_at(p, p->line, "[%s]: expected [Export NAME], with a name of at most %d letters, digits and . _ -",
		        quote(q, section, strlen(section)), EXPORT_NAME_MAX - 1);
	} else if (c->nexports == EXPORTS_MAX) {
		fail_at(p, p->line, "[%s]: more than %d exports", section, EXPORTS_MAX);
	} else {
		snprintf(c->exports[c->nexports++].name, EXPORT_NAME_MAX, "%s", name);
		set_section_defaults(c, KEY_EXPORT, p->path);
		return true;
	}
	p->path = 0;
	return false;
}

/* Sorts the paths by name, so that both edges number them alike. */
static void sort_paths(struct parser *p)
{
	struct link_config *c = p->c;

	for (uint32_t i = 1; i < c->npaths; i++) {
		for (uint32_t j = i; j > 0 && strcmp(c->paths[j - 1].name, c->paths[j].name) > 0; j--) {
			struct path_config swap = c->paths[j];
			unsigned lines[CONFIG_KEYS_MAX];

			c->paths[j] = c->paths[j - 1];
			c->paths[j - 1] = swap;
			memcpy(lines, p->r->line[j], sizeof(lines));
			memcpy(p->r->line[j], p->r->line[j - 1], sizeof(lines));
			memcpy(p->r->line[j - 1], lines, sizeof(lines));
		}
	}
}

/* Reports an unknown section once; its keys are ignored. */
static void skip_section(struct parser *p, const char *section)
{
	snprintf(p->skipped, sizeof(p->skipped), "%s", section);
}

/* inih's callback: always reports success, so that inih's own return value is about syntax only. */
static int take_pair(void *user, const char *section, const char *name, const char *value)
{
	struct parser *p = user;
	const struct config_key *k;

	if (is_done(p) || (section[0] != '\0' && strncmp(section, p->skipped, sizeof(p->skipped) - 1) == 0))
		return 1;
	if (is_section_of(section, "Path") || is_section_of(section, "Export")) {
		bool of_path = is_section_of(section, "Path");

		if (of_path ? !enter_path(p, section) : !enter_export(p, section)) {
			skip_section(p, section);
			return 1;
		}
		section = of_path ? "Path" : "Export";
	}
	k = config_key_find(section, name);
	if (k == NULL) {
		fail_unknown(p, section, name);
		if (!config_section_known(section))
			skip_section(p, section);
	} else {
		take_value(p, k, value);
	}
	return 1;
}

/* --- whole files --- */

static void set_defaults(struct link_config *c)
{
	char why[CONFIG_WHY_MAX];

	for (uint32_t i = 0; i < WORKERS_MAX; i++)
		c->cpus[i] = -1;
	for (uint32_t i = 0; i < config_nkeys; i++)
		if (!config_key_is_of_many(&config_keys[i]) && config_keys[i].fallback != NULL &&
		    config_key_read(&config_keys[i], c, 0, config_keys[i].fallback, why) < 0)
			abort(); /* the table contradicts itself */
}

/* The link's name is the file's, without directory and .conf. */
static int set_name(struct parser *p)
{
	const char *base = strrchr(p->file, '/');
	size_t len;

	base = base != NULL ? base + 1 : p->file;
	len = strlen(base);
	if (len > 5 && strcmp(base + len - 5, ".conf") == 0)
		len -= 5;
	if (!link_name_is_sound(base, len)) {
		fail_at(p, 0, "the file's name is the link's: expected at most %d letters, digits and . _ -",
		        LINK_NAME_MAX - 1);
		return -EINVAL;
	}
	memcpy(p->c->name, base, len);
	p->c->name[len] = '\0';
	if (strlen(p->file) >= sizeof(p->c->path)) {
		fail_at(p, 0, "path too long");
		return -EINVAL;
	}
	snprintf(p->c->path, sizeof(p->c->path), "%s", p->file);
	return 0;
}

/* Callback of config_check(): reports `KEY=: why`, with the key's line if it has one. */
static void fail_rule(void *arg, const struct config_key *k, uint32_t path, const char *why)
{
	struct parser *p = arg;
	unsigned line = k != NULL ? p->r->line[config_key_is_of_many(k) ? path : 0][k - config_keys] : 0;
	const char *name = k == NULL               ? ""
	                   : k->flags & KEY_PATH   ? p->c->paths[path].name
	                   : k->flags & KEY_EXPORT ? p->c->exports[path].name
	                                           : "";

	if (k == NULL)
		fail_at(p, 0, "%s", why);
	else if (line == 0)
		fail_at(p, 0, "[%s%s%s] %s= %s", k->section, *name != '\0' ? " " : "", name, k->name, why);
	else
		fail_at(p, line, "%s= %s", k->name, why);
}

/* Default of FEC=: on a shared line most losses are congestion, and repairs would add to it: there FEC is off unless
 * configured. */
static void choose_fec(struct parser *p)
{
	const struct config_key *k = config_key_find("Link", "FEC");

	if (p->r->line[0][k - config_keys] != 0)
		return;
	for (uint32_t i = 0; i < p->c->npaths; i++)
		if (p->c->paths[i].rate_control == RATE_auto)
			p->c->fec = (struct fec_config){.mode = FEC_OFF};
}

static void parse_text(struct parser *p, const char *text, size_t len)
{
	char q[QUOTE_MAX + 4];
	int bad_line;

	bad_line = ini_parse_stream(next_line, p, take_pair, p);
	/* inih goes on after an error: tells the earlier one in the file of inih's error and ours. */
	if (bad_line > 0 && p->err_line > (unsigned)bad_line && !p->all)
		p->err[0] = '\0';
	if (bad_line > 0)
		fail_at(p, (unsigned)bad_line, "%s: expected [Section] or Key=value",
		        line_text(text, len, (unsigned)bad_line, q));
	else if (bad_line < 0)
		fail_at(p, 0, "not enough memory");
	if (p->c->npaths == 0) { /* config_check() will report its missing keys */
		p->c->npaths = 1;
		set_section_defaults(p->c, KEY_PATH, 0);
	}
	sort_paths(p);
	choose_fec(p);
	if (!is_done(p))
		config_check(p->c, p->r->bad, fail_rule, p);
}

static int parse_file(struct parser *p, const char *text, size_t len)
{
	memset(p->c, 0, sizeof(*p->c));
	memset(p->r, 0, sizeof(*p->r));
	p->err[0] = '\0';
	if (config_nkeys > CONFIG_KEYS_MAX)
		abort();
	if (set_name(p) < 0)
		return -EINVAL;
	if (len > CONFIG_FILE_MAX) {
		fail_at(p, 0, "longer than %d bytes: expected a link file", CONFIG_FILE_MAX);
		return -EINVAL;
	}
	set_defaults(p->c);
	parse_text(p, text, len);
	if (p->err[0] == '\0')
		p->c->digest = config_digest(p->c);
	return p->err[0] == '\0' ? 0 : -EINVAL;
}

int config_parse(const char *name, const char *text, size_t len, struct link_config *c, char err[CONFIG_ERR_MAX])
{
	struct config_reading *r = malloc(sizeof(*r)); /* large */
	struct parser p = {.c = c, .file = name, .next = text, .end = text + len, .err = err, .r = r};
	int result = -ENOMEM;

	if (r != NULL)
		result = parse_file(&p, text, len);
	else
		snprintf(err, CONFIG_ERR_MAX, "%s: not enough memory", name);
	free(r);
	return result;
}

int config_parse_all(const char *name, const char *text, size_t len, struct link_config *c, struct config_reading *r)
{
	char err[CONFIG_ERR_MAX];
	struct parser p = {.c = c, .file = name, .next = text, .end = text + len, .err = err, .r = r, .all = true};

	return parse_file(&p, text, len);
}

bool config_is_sound(const struct config_reading *r, const char *key)
{
	return !r->bad[config_key_find(NULL, key) - config_keys];
}

void config_blame(struct config_reading *r, const struct link_config *c, const char *key, uint32_t i, const char *fmt,
                  ...)
{
	const struct config_key *k = config_key_find(NULL, key);
	char text[CONFIG_ERR_MAX], item[CONFIG_ITEM_MAX], where[16] = "";
	unsigned line = k->flags & KEY_LIST ? r->item_line[k - config_keys][i % CONFIG_ITEMS_MAX]
	                                    : r->line[k->flags & KEY_PATH ? i : 0][k - config_keys];
	va_list ap;
	int n;

	k->type->write(k, config_key_item(k, c, i), item, sizeof(item));
	if (line != 0)
		snprintf(where, sizeof(where), ":%u", line);
	n = snprintf(text, sizeof(text), "%s%s: %s=%.80s: ", c->path, where, k->name, item);
	if (n > 0 && n < CONFIG_ERR_MAX) {
		va_start(ap, fmt);
		vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, ap);
		va_end(ap);
	}
	add_error(r, text);
}

/* Up to cap bytes; -errno. */
static ssize_t read_whole(const char *path, char *text, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t len = 0;
	ssize_t n = 0;
	int saved;

	if (fd < 0)
		return -errno;
	while (len < cap && (n = read(fd, text + len, cap - len)) > 0)
		len += (size_t)n;
	saved = errno;
	close(fd);
	return n < 0 ? -saved : (ssize_t)len;
}

/* The file's text, malloc'ed, and its length; NULL with *len negative errno. */
static char *load_text(const char *path, ssize_t *len)
{
	char *text = malloc(CONFIG_FILE_MAX + 1);

	*len = text != NULL ? read_whole(path, text, CONFIG_FILE_MAX + 1) : -ENOMEM;
	if (*len >= 0)
		return text;
	free(text);
	return NULL;
}

/* A symbolic link to a file that is not there is a link file that cannot be read: its target may be on a file system
 * that is mounted later. Only -ENOENT says that there is no link file. Returns the error. */
static int say_unreadable(const char *path, ssize_t e, char err[CONFIG_ERR_MAX])
{
	char target[LINK_FILE_MAX];
	ssize_t n = e == -ENOENT ? readlink(path, target, sizeof(target)) : -1;

	if (n >= 0)
		snprintf(err, CONFIG_ERR_MAX, "%s: points to a file that is not there: %.*s", path, (int)n, target);
	else
		snprintf(err, CONFIG_ERR_MAX, "%s: cannot be read: %s", path, strerror((int)-e));
	/* EINVAL of readlink(): no link, but a file that has appeared meanwhile */
	return n >= 0 || (e == -ENOENT && errno == EINVAL) ? -EINVAL : (int)e;
}

int config_load(const char *path, struct link_config *c, char err[CONFIG_ERR_MAX])
{
	ssize_t len;
	char *text = load_text(path, &len);
	int r;

	if (text == NULL)
		return say_unreadable(path, len, err);
	r = config_parse(path, text, (size_t)len, c, err);
	free(text);
	return r;
}

int config_load_all(const char *path, struct link_config *c, struct config_reading *r)
{
	ssize_t len;
	char *text = load_text(path, &len);
	int result;

	if (text == NULL) {
		memset(c, 0, sizeof(*c));
		memset(r, 0, sizeof(*r));
		return say_unreadable(path, len, r->error[r->nerrors++]);
	}
	result = config_parse_all(path, text, (size_t)len, c, r);
	free(text);
	return result;
}

/* --- comparing and printing --- */

/* Writes all items of a key in the file's syntax. */
static void write_items(const struct config_key *k, const struct link_config *c, char *text, size_t cap)
{
	char item[CONFIG_ITEM_MAX];
	size_t len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < config_key_count(k, c) && len < cap; i++) {
		k->type->write(k, config_key_item(k, c, i), item, sizeof(item));
		len += (size_t)snprintf(text + len, cap - len, "%s%s", i == 0 ? "" : " ", item);
	}
}

#define ITEMS_TEXT_MAX (HOST_GROUPS_MAX * 168) /* the longest list: groups of IPv6 addresses */

void config_carry_over(const struct link_config *from, struct link_config *to)
{
	bool keeps = to->barrier == BARRIER_AUTO && config_barrier(from) == BARRIER_PAIR && !config_acks_early(to);

	to->barrier_owed = keeps && from->barrier_owed;
	to->barrier_kept = keeps && !to->barrier_owed;
}

static bool same_paths(const struct link_config *a, const struct link_config *b)
{
	for (uint32_t i = 0; i < a->npaths && i < b->npaths; i++)
		if (strcmp(a->paths[i].name, b->paths[i].name) != 0)
			return false;
	return a->npaths == b->npaths;
}

bool config_reloadable(const struct link_config *from, const struct link_config *to, char err[CONFIG_ERR_MAX])
{
	char was[ITEMS_TEXT_MAX], is[ITEMS_TEXT_MAX];

	if (!same_paths(from, to)) {
		snprintf(err, CONFIG_ERR_MAX,
		         "%s: paths cannot be added or removed while the link runs: `longreach restart %s` takes the "
		         "file up",
		         to->path, to->name);
		return false;
	}
	for (uint32_t i = 0; i < config_nkeys; i++) {
		const struct config_key *k = &config_keys[i];

		write_items(k, from, was, sizeof(was));
		write_items(k, to, is, sizeof(is));
		if (strcmp(was, is) == 0 || (k->flags & KEY_RELOADABLE))
			continue;
		snprintf(err, CONFIG_ERR_MAX,
		         "%s: %s= cannot change while the link runs (from %.60s to %.60s): `longreach restart %s` takes the "
		         "file up",
		         to->path, k->name, was[0] != '\0' ? was : "nothing", is[0] != '\0' ? is : "nothing", to->name);
		return false;
	}
	return true;
}

bool config_restarts(const struct link_config *from, const struct link_config *to)
{
	return config_barrier(from) != config_barrier(to) || (from->fec.mode == FEC_OFF) != (to->fec.mode == FEC_OFF);
}

static void write_help(const char *help, FILE *out)
{
	while (*help != '\0') {
		size_t len = strcspn(help, "\n");

		fprintf(out, "# %.*s\n", (int)len, help);
		help += len + (help[len] == '\n');
	}
}

/* Writes a list that is too long for one line with one item per line. */
static void write_key(const struct config_key *k, const struct link_config *c, uint32_t path, FILE *out)
{
	bool one = config_key_is_of_many(k);
	uint32_t from = one ? path : 0, n = one ? path + 1 : config_key_count(k, c);
	char item[CONFIG_ITEM_MAX];

	if (n == 0)
		fprintf(out, "#%s=\n", k->name);
	for (uint32_t i = from; i < n; i++) {
		k->type->write(k, config_key_item(k, c, i), item, sizeof(item));
		fprintf(out, "%s%s=%s\n", item[0] == '\0' ? "#" : "", k->name, item);
	}
}

/* Writes one section of a kind that may occur several times. */
static void write_section(const struct link_config *c, unsigned kind, uint32_t which, FILE *out)
{
	const char *name = kind == KEY_PATH ? c->paths[which].name : c->exports[which].name;

	fprintf(out, "\n[%s%s%s]\n", kind == KEY_PATH ? "Path" : "Export", *name != '\0' ? " " : "", name);
	for (uint32_t i = 0; i < config_nkeys; i++) {
		if (!(config_keys[i].flags & kind))
			continue;
		if (which == 0)
			write_help(config_keys[i].help, out);
		write_key(&config_keys[i], c, which, out);
	}
}

void config_write(const struct link_config *c, FILE *out)
{
	const char *section = "";

	fprintf(out, "# %s\n", c->path);
	for (uint32_t i = 0; i < config_nkeys; i++) {
		const struct config_key *k = &config_keys[i];
		bool begins = strcmp(section, k->section) != 0;

		section = k->section;
		for (uint32_t which = 0; begins && config_key_is_of_many(k) && which < config_key_count(k, c); which++)
			write_section(c, k->flags & (KEY_PATH | KEY_EXPORT), which, out);
		if (config_key_is_of_many(k))
			continue;
		if (begins)
			fprintf(out, "\n[%s]\n", k->section);
		write_help(k->help, out);
		write_key(k, c, 0, out);
	}
}

/* The names of sections of a kind; a path without a name is as much of the configuration as one with a name. */
static uint64_t digest_names(const struct link_config *c, uint64_t digest)
{
	for (uint32_t i = 0; i < c->npaths; i++)
		digest = XXH64(c->paths[i].name, strlen(c->paths[i].name) + 1, digest);
	for (uint32_t i = 0; i < c->nexports; i++)
		digest = XXH64(c->exports[i].name, strlen(c->exports[i].name) + 1, digest);
	return digest;
}

uint64_t config_digest(const struct link_config *c)
{
	uint64_t digest = digest_names(c, 0);
	char item[CONFIG_ITEM_MAX];

	for (uint32_t i = 0; i < config_nkeys; i++) {
		const struct config_key *k = &config_keys[i];
		uint32_t n = config_key_count(k, c);

		digest = XXH64(k->name, strlen(k->name) + 1, digest);
		for (uint32_t j = 0; j < n; j++) {
			k->type->write(k, config_key_item(k, c, j), item, sizeof(item));
			digest = XXH64(item, strlen(item) + 1, digest);
		}
	}
	return digest;
}

void config_print(const struct link_config *c)
{
	config_write(c, stdout);
}
