/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c - what is to go wrong in fakecuda, and how long its copies take. */
#include "fault.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FAULTS  32
#define LOOK_NS 1000000 /* the control file is looked at so often */

static struct fault {
	char function[48];
	int error;
	unsigned calls; /* until it happens; 0: nothing here */
} fault[FAULTS];

static uint32_t copy_us;

static void read_word(const char *word)
{
	struct fault f = {.calls = 1};

	if (sscanf(word, "copy_us=%u", &copy_us) == 1)
		return;
	if (sscanf(word, "%47[A-Za-z]:%d@%u", f.function, &f.error, &f.calls) < 2 || f.error == 0 || f.calls == 0) {
		fprintf(stderr, "fakecuda: no fault of that form: %s\n", word);
		return;
	}
	for (unsigned i = 0; i < FAULTS; i++)
		if (fault[i].calls == 0) {
			fault[i] = f;
			return;
		}
}

static void read_words(char *text)
{
	char *rest = text;

	for (char *word = strtok_r(text, " ,\n\t", &rest); word; word = strtok_r(NULL, " ,\n\t", &rest))
		read_word(word);
}

static void read_environment(void)
{
	static bool done;
	const char *given = getenv("FAKECUDA_FAIL");
	char text[1024];

	if (done)
		return;
	done = true;
	if (!given)
		return;
	snprintf(text, sizeof(text), "%s", given);
	read_words(text);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* What stands there is said once: what was to come by an earlier version of the file no longer is. */
static void read_control(void)
{
	static uint64_t looked_ns;
	static struct stat before;
	const char *path = getenv("FAKECUDA_CTL");
	char text[1024];
	struct stat st;
	ssize_t n;
	int fd;

	if (!path || now_ns() - looked_ns < LOOK_NS)
		return;
	looked_ns = now_ns();
	if (stat(path, &st) < 0 || (st.st_ino == before.st_ino && st.st_mtim.tv_sec == before.st_mtim.tv_sec &&
	                            st.st_mtim.tv_nsec == before.st_mtim.tv_nsec))
		return;
	before = st;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return;
	text[n] = '\0';
	memset(fault, 0, sizeof(fault));
	read_words(text);
}

int fault_now(const char *function)
{
	read_environment();
	read_control();
	for (unsigned i = 0; i < FAULTS; i++)
		if (fault[i].calls > 0 && strcmp(fault[i].function, function) == 0 && --fault[i].calls == 0)
			return fault[i].error;
	return 0;
}

uint32_t fault_copy_us(void)
{
	return copy_us;
}
