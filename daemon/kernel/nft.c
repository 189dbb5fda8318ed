/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memfd_create */
#endif
#include "nft.h"

#include <errno.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 8, ANSWER_MAX = 1 << 20 };

extern char **environ;

/* A file in memory: unlike a pipe it cannot block either side, and unlike a file in /tmp no user can prevent writing it
 * by filling the disk. */
static FILE *memory_file(void)
{
	int fd = memfd_create("nft", MFD_CLOEXEC);
	FILE *f = fd >= 0 ? fdopen(fd, "w+") : NULL;

	if (fd >= 0 && !f)
		close(fd);
	return f;
}

/* The script as nft's input. */
static FILE *script_file(const char *script)
{
	FILE *f = memory_file();

	if (f && fputs(script, f) >= 0 && fflush(f) == 0 && lseek(fileno(f), 0, SEEK_SET) == 0)
		return f;
	if (f)
		fclose(f);
	return NULL;
}

/* in -1: no input. */
static pid_t spawn_nft(const char *const *args, int in, int out)
{
	char *argv[ARGS_MAX + 2] = {(char *)(uintptr_t) "nft"};
	posix_spawn_file_actions_t fa;
	pid_t pid;
	int r;

	for (unsigned i = 0; i < ARGS_MAX && args[i]; i++)
		argv[i + 1] = (char *)(uintptr_t)args[i];
	posix_spawn_file_actions_init(&fa);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&fa, out, STDERR_FILENO);
	r = posix_spawnp(&pid, "nft", &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	errno = r;
	return r ? -1 : pid;
}

/* Reads the first line of nft's output. */
static void read_complaint(FILE *out, char why[NFT_OUTPUT_MAX])
{
	rewind(out);
	if (!fgets(why, NFT_OUTPUT_MAX, out))
		snprintf(why, NFT_OUTPUT_MAX, "nft failed without a message");
	why[strcspn(why, "\n")] = 0;
}

/* 0 or -EIO with why. nft's output and error messages are in out. */
static int run(const char *const *args, int in, FILE *out, char why[NFT_OUTPUT_MAX])
{
	pid_t pid = spawn_nft(args, in, fileno(out)), r;
	int status = -1;

	why[0] = 0;
	if (pid < 0) {
		snprintf(why, NFT_OUTPUT_MAX, "cannot run nft: %s", strerror(errno));
		return -EIO;
	}
	do
		r = waitpid(pid, &status, 0);
	while (r < 0 && errno == EINTR);
	if (r == pid && status == 0)
		return 0;
	read_complaint(out, why);
	return -EIO;
}

int nft_run(const char *script, char why[NFT_OUTPUT_MAX])
{
	static const char *const args[] = {"-f", "-", NULL};
	FILE *out = memory_file(), *in = script_file(script);
	int r = -EIO;

	if (out && in)
		r = run(args, fileno(in), out, why);
	else
		snprintf(why, NFT_OUTPUT_MAX, "no memory for nft's input and output: %s", strerror(errno));
	if (in)
		fclose(in);
	if (out)
		fclose(out);
	return r;
}

static char *read_all(FILE *out)
{
	char *text = malloc(ANSWER_MAX);
	size_t n;

	if (!text)
		return NULL;
	rewind(out);
	n = fread(text, 1, ANSWER_MAX - 1, out);
	text[n] = 0;
	return text;
}

char *nft_ask(const char *const *args, char why[NFT_OUTPUT_MAX])
{
	FILE *out = memory_file();
	char *text = NULL;

	if (!out)
		snprintf(why, NFT_OUTPUT_MAX, "no memory for nft's output: %s", strerror(errno));
	else if (run(args, -1, out, why) == 0)
		text = read_all(out);
	if (out)
		fclose(out);
	return text;
}
