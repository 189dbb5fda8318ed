/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - one link's configuration file: reading and writing.
 *
 * Theory of operation
 *
 * inih splits the file into sections, names and values; this file feeds it line by line from memory, so that it knows
 * the number of the line that a value came from, and looks each name up in the table (config_keys.c). Leading blanks
 * are cut off before inih sees them: it would take an indented line for the continuation of the one before.
 * The first error ends it all: err is one sentence with file, line, the text as it stands there, and what would be
 * right. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_keys.h"

#define QUOTE_MAX 80 /* characters of a value that are quoted */
#define KEYS_MAX  64

struct parser {
	struct link_config *c;
	const char *file;
	const char *next, *end;        /* text not yet read */
	unsigned line;                 /* number of the last line handed out */
	char *err;                     /* CONFIG_ERR_MAX; empty: no error so far */
	unsigned err_line;             /* that err speaks of; 0: of none */
	uint32_t path;                 /* that the keys of [Path] speak of */
	unsigned given_line[PATHS_MAX][KEYS_MAX]; /* by path and key: where it was first given, 0: nowhere */
};

static void fail_at(struct parser *p, unsigned line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Notes the first error. */
static void fail_at(struct parser *p, unsigned line, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (p->err[0] != '\0')
		return;
	p->err_line = line;
	if (line != 0)
		n = snprintf(p->err, CONFIG_ERR_MAX, "%s:%u: ", p->file, line);
	else
		n = snprintf(p->err, CONFIG_ERR_MAX, "%s: ", p->file);
	if (n < 0 || n >= CONFIG_ERR_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(p->err + n, CONFIG_ERR_MAX - (size_t)n, fmt, ap);
	va_end(ap);
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

/* fgets() over memory. Lines that inih could not take whole are errors, and empty for it. */
static char *next_line(char *str, int num, void *stream)
{
	struct parser *p = stream;
	const char *from = p->next, *eol;
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
		fail_at(p, p->line, "a byte 0: expected text");
		len = 0;
	} else if (len + 3 > (size_t)num) {
		fail_at(p, p->line,
		        "longer than %d characters: a list may be given in several lines, each with its key", num - 3);
		len = 0;
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
		        near != NULL ? "[" : "[Link], [Host], [Path], [Buffer], [Security] or [Tuning",
		        near != NULL ? near : "", "]");
	} else if (k != NULL) {
		fail_at(p, p->line, "%s= stands in [%s]: expected it in [%s]", q, section, k->section);
	} else {
		k = config_key_nearest(name);
		if (k != NULL)
			fail_at(p, p->line, "%s= is not a key: did you mean %s= in [%s]?", q, k->name, k->section);
		else
			fail_at(p, p->line, "%s= is not a key of [%s]: longreach.conf(5) lists them", q, section);
	}
}

static void fail_value(struct parser *p, const struct config_key *k, const char *value, const char *why)
{
	char q[QUOTE_MAX + 4];

	fail_at(p, p->line, "%s=%s: %s%s", k->name, quote(q, value, strlen(value)), why,
	        strstr(value, " #") != NULL ? " (a comment behind a value begins with ;)" : "");
}

/* Items of a list are parted by blanks or commas. */
static void take_list(struct parser *p, const struct config_key *k, const char *value)
{
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
		s += len;
	}
}

static void take_value(struct parser *p, const struct config_key *k, const char *value)
{
	uint32_t path = k->flags & KEY_PATH ? p->path : 0;
	unsigned *given = &p->given_line[path][k - config_keys];
	char why[CONFIG_WHY_MAX];

	if (*given != 0 && !(k->flags & KEY_LIST)) {
		fail_at(p, p->line, "%s= was given before, in line %u: expected it once", k->name, *given);
		return;
	}
	if (*given == 0) {
		*given = p->line;
		if (k->flags & KEY_LIST)
			config_key_clear(k, p->c); /* what the file says replaces the default */
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

static void set_path_defaults(struct link_config *c, uint32_t path)
{
	char why[CONFIG_WHY_MAX];

	for (uint32_t i = 0; i < config_nkeys; i++)
		if (config_keys[i].flags & KEY_PATH && config_keys[i].fallback != NULL &&
		    config_key_read(&config_keys[i], c, path, config_keys[i].fallback, why) < 0)
			abort(); /* the table contradicts itself */
}

static bool path_name_is_sound(const char *name)
{
	size_t len = strlen(name);

	return len < PATH_NAME_MAX && strspn(name, NAME_CHARACTERS) == len;
}

/* The section is of a path: "Path" or "Path NAME". Finds it or begins a new one. */
static void enter_path(struct parser *p, const char *section)
{
	const char *name = section + strlen("Path");
	struct link_config *c = p->c;
	char q[QUOTE_MAX + 4];

	name += strspn(name, " \t");
	for (p->path = 0; p->path < c->npaths; p->path++)
		if (strcmp(c->paths[p->path].name, name) == 0)
			return;
	if (!path_name_is_sound(name))
		fail_at(p, p->line, "[%s]: expected a name of at most %d letters, digits and . _ -",
		        quote(q, section, strlen(section)), PATH_NAME_MAX - 1);
	else if (c->npaths == PATHS_MAX)
		fail_at(p, p->line, "[%s]: more than %d paths", section, PATHS_MAX);
	else if (c->npaths > 0 && (*name == '\0' || c->paths[0].name[0] == '\0'))
		fail_at(p, p->line, "[Path] stands beside [Path %s]: expected a name for each of several paths",
		        *name != '\0' ? name : c->paths[0].name);
	else
		snprintf(c->paths[c->npaths++].name, PATH_NAME_MAX, "%s", name);
	if (p->err[0] == '\0')
		set_path_defaults(c, p->path);
	else
		p->path = 0;
}

static bool is_path(const char *section)
{
	return strncmp(section, "Path", 4) == 0 && (section[4] == '\0' || is_blank(section[4]));
}

/* By name, so that both edges number them alike. */
static void sort_paths(struct parser *p)
{
	struct link_config *c = p->c;

	for (uint32_t i = 1; i < c->npaths; i++) {
		for (uint32_t j = i; j > 0 && strcmp(c->paths[j - 1].name, c->paths[j].name) > 0; j--) {
			struct path_config swap = c->paths[j];
			unsigned lines[KEYS_MAX];

			c->paths[j] = c->paths[j - 1];
			c->paths[j - 1] = swap;
			memcpy(lines, p->given_line[j], sizeof(lines));
			memcpy(p->given_line[j], p->given_line[j - 1], sizeof(lines));
			memcpy(p->given_line[j - 1], lines, sizeof(lines));
		}
	}
}

/* inih's callback: always content, so that its own return value speaks of syntax alone. */
static int take_pair(void *user, const char *section, const char *name, const char *value)
{
	struct parser *p = user;
	const struct config_key *k;

	if (p->err[0] != '\0')
		return 1;
	if (is_path(section)) {
		enter_path(p, section);
		section = "Path";
		if (p->err[0] != '\0')
			return 1;
	}
	k = config_key_find(section, name);
	if (k == NULL)
		fail_unknown(p, section, name);
	else
		take_value(p, k, value);
	return 1;
}

/* --- whole files --- */

static void set_defaults(struct link_config *c)
{
	char why[CONFIG_WHY_MAX];

	for (uint32_t i = 0; i < WORKERS_MAX; i++)
		c->cpus[i] = -1;
	for (uint32_t i = 0; i < config_nkeys; i++)
		if (!(config_keys[i].flags & KEY_PATH) && config_keys[i].fallback != NULL &&
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

/* `%s=: why`, or with the line where the key stands. */
static void fail_rule(struct parser *p, const struct config_key *k, uint32_t path, const char *why)
{
	unsigned line = k != NULL ? p->given_line[k->flags & KEY_PATH ? path : 0][k - config_keys] : 0;
	const char *name = k != NULL && k->flags & KEY_PATH ? p->c->paths[path].name : "";

	if (k == NULL)
		fail_at(p, 0, "%s", why);
	else if (line == 0)
		fail_at(p, 0, "[%s%s%s] %s= %s", k->section, *name != '\0' ? " " : "", name, k->name, why);
	else
		fail_at(p, line, "%s= %s", k->name, why);
}

/* Where the line is shared with others losses are of congestion in most cases, and repairs would add to it: there FEC is
 * for those who ask for it. */
static void choose_fec(struct parser *p)
{
	const struct config_key *k = config_key_find("Link", "FEC");

	if (p->given_line[0][k - config_keys] != 0)
		return;
	for (uint32_t i = 0; i < p->c->npaths; i++)
		if (p->c->paths[i].rate_control == RATE_auto)
			p->c->fec = (struct fec_config){.mode = FEC_OFF};
}

static void parse_text(struct parser *p, const char *text, size_t len)
{
	char why[CONFIG_WHY_MAX * 2], q[QUOTE_MAX + 4];
	const struct config_key *k;
	uint32_t path;
	int bad_line;

	bad_line = ini_parse_stream(next_line, p, take_pair, p);
	/* inih goes on after an error: of its own and ours, the first in the file is the one to tell. */
	if (bad_line > 0 && p->err_line > (unsigned)bad_line)
		p->err[0] = '\0';
	if (bad_line > 0 && p->err[0] == '\0')
		fail_at(p, (unsigned)bad_line, "%s: expected [Section] or Key=value",
		        line_text(text, len, (unsigned)bad_line, q));
	else if (bad_line < 0)
		fail_at(p, 0, "not enough memory");
	if (p->c->npaths == 0) { /* its keys will be missed */
		p->c->npaths = 1;
		set_path_defaults(p->c, 0);
	}
	sort_paths(p);
	choose_fec(p);
	if (p->err[0] == '\0' && config_check(p->c, &k, &path, why) < 0)
		fail_rule(p, k, path, why);
}

int config_parse(const char *name, const char *text, size_t len, struct link_config *c, char err[CONFIG_ERR_MAX])
{
	struct parser p = {.c = c, .file = name, .next = text, .end = text + len, .err = err};

	_Static_assert(KEYS_MAX >= 40, "room for every key");
	memset(c, 0, sizeof(*c));
	err[0] = '\0';
	if (config_nkeys > KEYS_MAX)
		abort();
	if (set_name(&p) < 0)
		return -EINVAL;
	if (len > CONFIG_FILE_MAX) {
		fail_at(&p, 0, "longer than %d bytes: is it a link file?", CONFIG_FILE_MAX);
		return -EINVAL;
	}
	set_defaults(c);
	parse_text(&p, text, len);
	return err[0] == '\0' ? 0 : -EINVAL;
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

int config_load(const char *path, struct link_config *c, char err[CONFIG_ERR_MAX])
{
	char *text = malloc(CONFIG_FILE_MAX + 1);
	ssize_t len;
	int r;

	if (text == NULL)
		return -ENOMEM;
	len = read_whole(path, text, CONFIG_FILE_MAX + 1);
	if (len < 0) {
		snprintf(err, CONFIG_ERR_MAX, "%s: cannot be read: %s", path, strerror((int)-len));
		r = (int)len;
	} else {
		r = config_parse(path, text, (size_t)len, c, err);
	}
	free(text);
	return r;
}

/* --- comparing and printing --- */

/* All items of a key as one would write them. */
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
	to->barrier_kept =
	    to->barrier == BARRIER_AUTO && config_barrier(from) == BARRIER_PAIR && !config_acks_early(to);
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
		         "%s: paths cannot come or go while the link runs: restart longreachd for it", to->path);
		return false;
	}
	for (uint32_t i = 0; i < config_nkeys; i++) {
		const struct config_key *k = &config_keys[i];

		write_items(k, from, was, sizeof(was));
		write_items(k, to, is, sizeof(is));
		if (strcmp(was, is) == 0 || (k->flags & KEY_RELOADABLE))
			continue;
		snprintf(err, CONFIG_ERR_MAX,
		         "%s: %s= cannot change while the link runs (from %.80s to %.80s): restart longreachd for it",
		         to->path, k->name, was[0] != '\0' ? was : "nothing", is[0] != '\0' ? is : "nothing");
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

/* A list longer than one line may be goes out with one item per line. */
static void write_key(const struct config_key *k, const struct link_config *c, uint32_t path, FILE *out)
{
	uint32_t from = k->flags & KEY_PATH ? path : 0, n = k->flags & KEY_PATH ? path + 1 : config_key_count(k, c);
	char item[CONFIG_ITEM_MAX];

	if (n == 0)
		fprintf(out, "#%s=\n", k->name);
	for (uint32_t i = from; i < n; i++) {
		k->type->write(k, config_key_item(k, c, i), item, sizeof(item));
		fprintf(out, "%s%s=%s\n", item[0] == '\0' ? "#" : "", k->name, item);
	}
}

static void write_path(const struct link_config *c, uint32_t path, FILE *out)
{
	const char *name = c->paths[path].name;

	fprintf(out, "\n[Path%s%s]\n", *name != '\0' ? " " : "", name);
	for (uint32_t i = 0; i < config_nkeys; i++) {
		if (!(config_keys[i].flags & KEY_PATH))
			continue;
		if (path == 0)
			write_help(config_keys[i].help, out);
		write_key(&config_keys[i], c, path, out);
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
		for (uint32_t path = 0; begins && k->flags & KEY_PATH && path < c->npaths; path++)
			write_path(c, path, out);
		if (k->flags & KEY_PATH)
			continue;
		if (begins)
			fprintf(out, "\n[%s]\n", k->section);
		write_help(k->help, out);
		write_key(k, c, 0, out);
	}
}

void config_print(const struct link_config *c)
{
	config_write(c, stdout);
}
