/* SPDX-License-Identifier: Apache-2.0 */
/* mutate.c - small changes to C code, for tests/mutants.sh: what a slip of the hand would leave.
 *
 *     mutate list SEED FILE...              every change, in an order that SEED decides:
 *                                           FILE <tab> LINE <tab> COLUMN <tab> LENGTH <tab> NEW TEXT
 *     mutate apply FILE LINE COLUMN LENGTH NEW    the file with that change, on standard output
 *
 * Columns count bytes from 0. Code is read token by token: comments, strings, character constants and preprocessor
 * lines are left alone. The form is that of clang-format, so a binary operator has a space on either side. A statement
 * is taken out only where it fills a line: a call or an assignment, not a declaration. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/rng.h"

#define LINE_MAX_BYTES 4096

struct change {
	const char *file;
	unsigned line, column, length;
	char text[24];
};

static struct change *changes;
static size_t nchanges, room;

static const struct {
	const char *from, *to;
} SWAPS[] = {
    {" < ", " <= "},    {" <= ", " < "},    {" > ", " >= "},    {" >= ", " > "},    {" == ", " != "},
    {" != ", " == "},   {" && ", " || "},   {" || ", " && "},   {" + ", " - "},     {" - ", " + "},
    {" += ", " -= "},   {" -= ", " += "},   {" |= ", " &= "},   {"min_u64", "max_u64"}, {"max_u64", "min_u64"},
    {"true", "false"},  {"false", "true"},  {"++", "--"},
};

static void add(const char *file, unsigned line, size_t column, size_t length, const char *text)
{
	struct change *c;

	if (nchanges == room) {
		room = room ? 2 * room : 4096;
		changes = reallocarray(changes, room, sizeof(*changes));
		if (!changes)
			abort();
	}
	c = &changes[nchanges++];
	*c = (struct change){.file = file, .line = line, .column = (unsigned)column, .length = (unsigned)length};
	snprintf(c->text, sizeof(c->text), "%s", text);
}

static bool of_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Blanks whatever is no code, and keeps every column. in_comment lasts from line to line. */
static void blank(char *s, bool *in_comment)
{
	char quote = 0;

	for (size_t i = 0; s[i]; i++) {
		if (*in_comment) {
			*in_comment = !(s[i] == '*' && s[i + 1] == '/');
			s[i] = '\1';
			if (!*in_comment)
				s[++i] = '\1';
		} else if (quote) {
			if (s[i] == '\\' && s[i + 1])
				s[i++] = '\1';
			else if (s[i] == quote)
				quote = 0;
			s[i] = '\1';
		} else if (s[i] == '/' && s[i + 1] == '*') {
			*in_comment = true;
			s[i] = s[i + 1] = '\1';
			i++;
		} else if (s[i] == '/' && s[i + 1] == '/') {
			memset(s + i, '\1', strlen(s + i));
		} else if (s[i] == '"' || s[i] == '\'') {
			quote = s[i];
			s[i] = '\1';
		}
	}
}

static void swaps_at(const char *file, unsigned line, const char *s, size_t i)
{
	for (size_t k = 0; k < sizeof(SWAPS) / sizeof(SWAPS[0]); k++) {
		size_t n = strlen(SWAPS[k].from);

		if (SWAPS[k].from[n - 1] == ' ' && s[i] && strlen(s + i) == n - 1)
			n--; /* the line ends behind an operator */
		if (strncmp(s + i, SWAPS[k].from, n) != 0)
			continue;
		if (of_word(SWAPS[k].from[0]) && ((i && of_word(s[i - 1])) || of_word(s[i + n])))
			continue;
		add(file, line, i, n, SWAPS[k].to);
	}
}

/* A decimal number becomes the next one. */
static void number_at(const char *file, unsigned line, const char *s, size_t i)
{
	char text[24];
	size_t n = strspn(s + i, "0123456789");

	if (!n || n > 9 || (i && (of_word(s[i - 1]) || s[i - 1] == '.')) || of_word(s[i + n]) || s[i + n] == '.')
		return;
	snprintf(text, sizeof(text), "%lu", strtoul(s + i, NULL, 10) + 1);
	add(file, line, i, n, text);
}

/* A condition that is not negated any more. */
static void negation_at(const char *file, unsigned line, const char *s, size_t i)
{
	if (s[i] == '!' && (of_word(s[i + 1]) || s[i + 1] == '(') && !(i && of_word(s[i - 1])))
		add(file, line, i, 1, "");
}

/* A line that is one call or one assignment. A declaration has two words in front of its '=' or ';'. */
static void statement(const char *file, unsigned line, const char *s)
{
	size_t begin = strspn(s, "\t"), end = strlen(s), i = begin;
	int depth = 0;

	if (!begin || end < begin + 3 || s[end - 1] != ';' || !(of_word(s[begin]) || s[begin] == '*') ||
	    strncmp(s + begin, "return", 6) == 0 || strncmp(s + begin, "goto", 4) == 0 ||
	    strncmp(s + begin, "case", 4) == 0)
		return;
	while (of_word(s[i]) || s[i] == '*' || s[i] == '-' || s[i] == '>' || s[i] == '.' || s[i] == '[' || s[i] == ']')
		i++;
	if (s[i] != '(' && strncmp(s + i, " = ", 3) != 0)
		return;
	for (; i < end; i++)
		depth += (s[i] == '(') - (s[i] == ')');
	if (depth == 0)
		add(file, line, begin, end - 1 - begin, "");
}

static int read_file(const char *file)
{
	FILE *f = fopen(file, "r");
	char s[LINE_MAX_BYTES];
	bool in_comment = false, in_macro = false;

	if (!f) {
		perror(file);
		return 1;
	}
	for (unsigned line = 1; fgets(s, sizeof(s), f); line++) {
		bool macro = in_macro || s[0] == '#';

		s[strcspn(s, "\n")] = 0;
		in_macro = macro && s[0] && s[strlen(s) - 1] == '\\';
		blank(s, &in_comment);
		if (macro || s[0] != '\t')
			continue;
		for (size_t i = 0; s[i]; i++) {
			swaps_at(file, line, s, i);
			number_at(file, line, s, i);
			negation_at(file, line, s, i);
		}
		statement(file, line, s);
	}
	fclose(f);
	return 0;
}

/* Every order is as likely as any other. */
static void shuffle(uint64_t seed)
{
	struct rng r;

	rng_init(&r, seed);
	for (size_t i = nchanges; i > 1; i--) {
		size_t k = (size_t)rng_below(&r, i);
		struct change c = changes[k];

		changes[k] = changes[i - 1];
		changes[i - 1] = c;
	}
}

static int apply(const char *file, const struct change *c)
{
	FILE *f = fopen(file, "r");
	char s[LINE_MAX_BYTES];

	if (!f) {
		perror(file);
		return 1;
	}
	for (unsigned line = 1; fgets(s, sizeof(s), f); line++) {
		if (line != c->line) {
			fputs(s, stdout);
			continue;
		}
		if (c->column + c->length > strlen(s)) {
			fprintf(stderr, "mutate: %s:%u has no column %u\n", file, line, c->column + c->length);
			return 1;
		}
		printf("%.*s%s%s", (int)c->column, s, c->text, s + c->column + c->length);
	}
	fclose(f);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 3 && strcmp(argv[1], "list") == 0) {
		for (int i = 3; i < argc; i++)
			if (read_file(argv[i]))
				return 1;
		shuffle(strtoull(argv[2], NULL, 10));
		for (size_t i = 0; i < nchanges; i++)
			printf("%s\t%u\t%u\t%u\t%s\n", changes[i].file, changes[i].line, changes[i].column,
			       changes[i].length, changes[i].text);
		return 0;
	}
	if (argc == 7 && strcmp(argv[1], "apply") == 0) {
		struct change c = {.line = (unsigned)strtoul(argv[3], NULL, 10),
		                   .column = (unsigned)strtoul(argv[4], NULL, 10),
		                   .length = (unsigned)strtoul(argv[5], NULL, 10)};

		snprintf(c.text, sizeof(c.text), "%s", argv[6]);
		return apply(argv[2], &c);
	}
	fprintf(stderr, "usage: mutate list SEED FILE... | mutate apply FILE LINE COLUMN LENGTH NEW\n");
	return 2;
}
