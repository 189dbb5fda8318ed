/* SPDX-License-Identifier: Apache-2.0 */
#include "copy_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_S 60

static const char usage[] =
    "usage: longreach copy [OPTION]... SRC... LINK:EXPORT[/PATH]\n"
    "       longreach copy [OPTION]... LINK:EXPORT[/SRC]... DST\n"
    "\n"
    "Copies files and directories into EXPORT of the other edge of LINK, or from EXPORT to here: contents, modes, times,\n"
    "symbolic and hard links, holes, user xattrs. A file with the same size and time at the destination is not copied.\n"
    "SRC/ means the contents of SRC. The same command, given again, continues an interrupted copy.\n"
    "\n"
    "  --delete           removes files from copied directories at the destination that the source does not have\n"
    "  --exclude PATTERN  neither copies nor removes files that fit: a name (*.o), or a path (/build, doc/*.html)\n"
    "  -n, --dry-run      prints what it would do, changes nothing\n"
    "  -v, --verbose      prints the name of each file\n"
    "  --progress         shows rate and remaining time on standard error, even if that is no terminal\n"
    "  --json             prints a summary as JSON\n"
    "  --timeout SECONDS  waits so long for a link, an edge, a server or a disk that does not answer. Default: 60\n"
    "  --socket PATH      the relay's socket. Default: /run/longreach/LINK.relay\n";

enum { OPT_DELETE = 256, OPT_EXCLUDE, OPT_JSON, OPT_PROGRESS, OPT_TIMEOUT, OPT_SOCKET };

static const struct option long_options[] = {
    {"delete", no_argument, NULL, OPT_DELETE},
    {"exclude", required_argument, NULL, OPT_EXCLUDE},
    {"dry-run", no_argument, NULL, 'n'},
    {"verbose", no_argument, NULL, 'v'},
    {"progress", no_argument, NULL, OPT_PROGRESS},
    {"json", no_argument, NULL, OPT_JSON},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"socket", required_argument, NULL, OPT_SOCKET},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static bool bad(int *code, const char *what, const char *about)
{
	fprintf(stderr, "longreach: copy: %s%s\nTry longreach copy --help.\n", what, about);
	*code = COPY_EXIT_USAGE;
	return false;
}

/* Slashes at the ends and double ones go. */
static void normalise(char *path)
{
	char *to = path;

	for (const char *from = path; *from; from++)
		if (*from != '/' || (to > path && to[-1] != '/'))
			*to++ = *from;
	while (to > path && to[-1] == '/')
		to--;
	*to = '\0';
}

static bool read_place(const char *text, struct copy_options *o, int *code)
{
	const char *colon = strchr(text, ':'), *slash = strchr(text, '/'), *name;
	size_t link = colon ? (size_t)(colon - text) : 0, export;

	if (!colon || link == 0 || link >= sizeof(o->link) || (slash && slash < colon))
		return bad(code, "expected LINK:EXPORT or LINK:EXPORT/PATH as the last argument, not ", text);
	name = colon + 1;
	export = strcspn(name, "/");
	if (export == 0 || export >= sizeof(o->export))
		return bad(code, "expected the name of an export after the colon, not ", text);
	if (strlen(name + export) > COPY_PATH_MAX)
		return bad(code, "the path is too long: ", text);
	memcpy(o->link, text, link);
	memcpy(o->export, name, export);
	memcpy(o->path, name + export, strlen(name + export));
	o->into = o->path[0] && o->path[strlen(o->path) - 1] == '/';
	normalise(o->path);
	if (!copy_path_is_sound(copy_text(o->path)))
		return bad(code, "expected a path without . and .., not ", text);
	return true;
}

static bool is_place(const char *text)
{
	const char *colon = strchr(text, ':'), *slash = strchr(text, '/');

	return colon && colon > text && (!slash || slash > colon);
}

/* Reads the source path after LINK:EXPORT; keeps a final slash. */
static bool read_source(char *text, struct copy_options *o, int *code)
{
	struct copy_options one = {0};
	size_t len;

	if (!read_place(text, &one, code))
		return false;
	if (o->link[0] && (strcmp(one.link, o->link) != 0 || strcmp(one.export, o->export) != 0))
		return bad(code, "expected all sources in one export, not also ", text);
	memcpy(o->link, one.link, sizeof(o->link));
	memcpy(o->export, one.export, sizeof(o->export));
	len = strlen(one.path);
	if (one.into && len > 0) {
		one.path[len++] = '/';
		one.path[len] = '\0';
	}
	memcpy(text, one.path, len + 1); /* it was longer */
	return true;
}

static bool read_pull(char **word, int n, struct copy_options *o, int *code)
{
	if (n - 1 > COPY_SOURCES_MAX || o->nexcludes > COPY_EXCLUDES_MAX)
		return bad(code, "too many sources or patterns for a copy to here", "");
	o->pull = true;
	o->place = word[n - 1];
	for (int i = 0; i < n - 1; i++)
		if (!read_source(word[i], o, code))
			return false;
	return true;
}

static bool take_option(int opt, struct copy_options *o, int *code)
{
	char *end;

	switch (opt) {
	case OPT_DELETE:
		o->remove = true;
		return true;
	case OPT_EXCLUDE:
		o->exclude[o->nexcludes++] = optarg;
		return true;
	case 'n':
		o->dry_run = true;
		return true;
	case 'v':
		o->verbose = true;
		return true;
	case OPT_JSON:
		o->json = true;
		return true;
	case OPT_PROGRESS:
		o->progress = true;
		return true;
	case OPT_TIMEOUT:
		o->timeout_s = (unsigned)strtoul(optarg, &end, 10);
		return (*optarg && !*end) || bad(code, "expected a number of seconds, not ", optarg);
	case OPT_SOCKET:
		o->socket = optarg;
		return true;
	case 'h':
		fputs(usage, stdout);
		*code = COPY_EXIT_DONE;
		return false;
	default:
		return bad(code, "unknown option", "");
	}
}

bool copy_options_parse(int argc, char **argv, struct copy_options *o, int *code)
{
	int opt;

	*o = (struct copy_options){.timeout_s = TIMEOUT_S, .progress = isatty(STDERR_FILENO)};
	o->exclude = calloc((size_t)argc, sizeof(*o->exclude));
	if (!o->exclude) {
		*code = COPY_EXIT_MEMORY;
		return false;
	}
	optind = 1;
	while ((opt = getopt_long(argc, argv, "nvh", long_options, NULL)) != -1)
		if (!take_option(opt, o, code))
			return false;
	if (argc - optind < 2)
		return bad(code, "expected SRC... LINK:EXPORT/PATH or LINK:EXPORT/SRC... DST", "");
	o->source = argv + optind;
	o->nsources = argc - optind - 1;
	if (!is_place(argv[argc - 1]) && is_place(argv[optind]))
		return read_pull(o->source, argc - optind, o, code);
	return read_place(argv[argc - 1], o, code);
}
