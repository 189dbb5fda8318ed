/* SPDX-License-Identifier: Apache-2.0 */
/* dumped - what a core dump of a running process would hold: counts what is looked for.
 *
 * Reads /proc/PID/smaps and /proc/PID/mem. Left out is what the kernel leaves out of a dump: mappings marked
 * MADV_DONTDUMP ("dd") or VM_IO ("io"), and those of files. Exit status: 0 nothing found, 1 something, 2 it could not
 * look. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/tools/rcperf/pattern.h"

#define PATTERN_WORDS 8 /* in a row that are taken for a message's bytes */
#define WANTED_MAX    16

struct wanted {
	const char *name;
	const uint8_t *bytes; /* NULL: rcperf's pattern */
	size_t len;
	uint64_t found;
};

struct search {
	struct wanted wanted[WANTED_MAX];
	unsigned n;
	uint64_t bytes, mappings;
	bool verbose;
};

static bool is_pattern(const uint8_t *at)
{
	uint64_t was, is;

	memcpy(&was, at, sizeof(was));
	for (unsigned i = 1; i < PATTERN_WORDS; i++) {
		memcpy(&is, at + i * sizeof(is), sizeof(is));
		if (is - was != PAT_WORD)
			return false;
		was = is;
	}
	return true;
}

static uint64_t count(const struct wanted *w, const uint8_t *at, size_t len)
{
	size_t need = w->bytes ? w->len : PATTERN_WORDS * sizeof(uint64_t);
	uint64_t n = 0;

	for (size_t i = 0; i + need <= len; i++)
		n += w->bytes ? at[i] == w->bytes[0] && memcmp(at + i, w->bytes, w->len) == 0 : is_pattern(at + i);
	return n;
}

static void look(struct search *s, int mem, uint64_t from, uint64_t to, const char *name)
{
	uint8_t *copy = malloc(to - from);
	ssize_t n = copy ? pread(mem, copy, to - from, (off_t)from) : -1;

	for (unsigned i = 0; n > 0 && i < s->n; i++) {
		uint64_t found = count(&s->wanted[i], copy, (size_t)n);

		if (found > 0 && s->verbose)
			fprintf(stderr, "dumped: %s: %" PRIu64 " in %" PRIx64 "-%" PRIx64 " %s\n", s->wanted[i].name,
			        found, from, to, name);
		s->wanted[i].found += found;
	}
	if (n > 0) {
		s->bytes += (uint64_t)n;
		s->mappings++;
	}
	free(copy);
}

/* "VmFlags: rd wr mr mw me dd" */
static bool is_left_out(const char *flags)
{
	return strstr(flags, " dd") || strstr(flags, " io") || !strstr(flags, " rd");
}

static int look_through(struct search *s, const char *pid)
{
	char path[64], line[512], name[256] = "";
	uint64_t from = 0, to = 0, a, b;
	bool of_file = false;
	FILE *maps;
	int mem;

	snprintf(path, sizeof(path), "/proc/%s/mem", pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%s/smaps", pid);
	maps = fopen(path, "re");
	if (mem < 0 || !maps)
		return -1;
	while (fgets(line, sizeof(line), maps)) {
		char perms[8];
		unsigned long inode;
		int at = 0;

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*x %*s %lu %n", &a, &b, perms, &inode, &at) == 4) {
			from = a;
			to = b;
			snprintf(name, sizeof(name), "%.*s", (int)strcspn(line + at, "\n"), line + at);
			of_file = inode != 0 && perms[1] != 'w'; /* a private copy of a file's page is dumped */
		} else if (strncmp(line, "VmFlags:", 8) == 0 && !is_left_out(line) && !of_file) {
			look(s, mem, from, to, name);
		}
	}
	fclose(maps);
	close(mem);
	return s->mappings > 0 ? 0 : -1;
}

/* In place. */
static size_t from_hex(char *hex)
{
	size_t n = 0;
	unsigned byte;

	for (; sscanf(hex + 2 * n, "%2x", &byte) == 1; n++)
		hex[n] = (char)byte;
	return n;
}

static bool want(struct search *s, char *arg)
{
	char *value = strchr(arg, '=');
	struct wanted *w = &s->wanted[s->n];

	if (s->n == WANTED_MAX)
		return false;
	if (strcmp(arg, "pattern") == 0) {
		*w = (struct wanted){.name = arg};
	} else if (value && strncmp(arg, "text=", 5) == 0 && value[1]) {
		*w = (struct wanted){.name = "text", .bytes = (uint8_t *)value + 1, .len = strlen(value + 1)};
	} else if (value && strncmp(arg, "hex=", 4) == 0 && strlen(value + 1) >= 16) {
		*w = (struct wanted){.name = "hex", .bytes = (uint8_t *)value + 1};
		w->len = from_hex(value + 1);
	} else {
		return false;
	}
	s->n++;
	return true;
}

int main(int argc, char **argv)
{
	struct search s = {.verbose = getenv("VERBOSE") != NULL};
	bool found = false;

	for (int i = 2; i < argc; i++)
		if (!want(&s, argv[i]))
			argc = 0;
	if (argc < 3) {
		fputs("usage: dumped PID {text=TEXT | hex=HEX | pattern}...\n"
		      "  counts, in what a core dump of the process would hold, a text, bytes, or rcperf's messages\n",
		      stderr);
		return 2;
	}
	if (look_through(&s, argv[1]) < 0) {
		fprintf(stderr, "dumped: %s: %s\n", argv[1], strerror(errno));
		return 2;
	}
	for (unsigned i = 0; i < s.n; i++) {
		printf("%s %" PRIu64 "\n", s.wanted[i].name, s.wanted[i].found);
		found |= s.wanted[i].found > 0;
	}
	printf("looked at %" PRIu64 " bytes of %" PRIu64 " mappings\n", s.bytes, s.mappings);
	return found;
}
