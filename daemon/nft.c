/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/nft.h"

#include <errno.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGS_MAX = 8, ANSWER_MAX = 1 << 20 };

extern char **environ;

/* An unlinked file with the script, to be nft's input: unlike a pipe it cannot block either side. */
static int script_fd(const char *script)
{
	FILE *f = tmpfile();
	int fd = -1;

	if (!f)
		return -1;
	if (fputs(script, f) >= 0 && fflush(f) == 0 && lseek(fileno(f), 0, SEEK_SET) == 0)
		fd = dup(fileno(f));
	fclose(f);
	return fd;
}

/* in -1: none. */
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

/* The first line of what nft had to say. */
static void read_complaint(FILE *out, char why[NFT_OUTPUT_MAX])
{
	rewind(out);
	if (!fgets(why, NFT_OUTPUT_MAX, out))
		snprintf(why, NFT_OUTPUT_MAX, "nft failed and says nothing");
	why[strcspn(why, "\n")] = 0;
}

/* 0 or -EIO with why. Output and complaints are in out. */
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
	FILE *out = tmpfile();
	int in = script_fd(script), r = -EIO;

	if (out && in >= 0)
		r = run(args, in, out, why);
	else
		snprintf(why, NFT_OUTPUT_MAX, "no temporary file for nft: %s", strerror(errno));
	if (in >= 0)
		close(in);
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
	FILE *out = tmpfile();
	char *text = NULL;

	if (!out)
		snprintf(why, NFT_OUTPUT_MAX, "no temporary file for nft: %s", strerror(errno));
	else if (run(args, -1, out, why) == 0)
		text = read_all(out);
	if (out)
		fclose(out);
	return text;
}
