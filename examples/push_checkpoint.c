/* SPDX-License-Identifier: Apache-2.0 */
/* push_checkpoint.c - an example: pushes a checkpoint to the other site, where a program learns that it is complete.
 *
 *     push_checkpoint receive LINK FILE MOST      first, at the other site: waits for one checkpoint of at most MOST bytes
 *     push_checkpoint send LINK FILE              then, at this site
 *
 * The notice of the put carries the number of bytes and their XXH3 checksum. The receiver verifies the checksum before
 * FILE appears, so FILE is never incomplete. "send" ends when the receiver has got the notice; the receiver prints the
 * result of the verification.
 *
 *     cc push_checkpoint.c -o push_checkpoint -llongreach -lxxhash
 *
 * Exit status: 0 done; 1 failed, with a reason on stderr; 2 usage. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <longreach.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define REGION "checkpoint"

static char part[4096]; /* name of the file with the bytes that the receiver has not verified yet */

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "push_checkpoint: %s: %s\n", what, why);
	if (*part)
		unlink(part);
	exit(1);
}

static void must(int64_t r, const char *what)
{
	if (r < 0)
		fail(what, r == -EPIPE ? "the daemon has gone" : strerror((int)-r));
}

static uint64_t checksum(int fd, uint64_t bytes)
{
	static char buf[1 << 20];
	XXH3_state_t *state = XXH3_createState();
	uint64_t at = 0, sum;

	if (!state || XXH3_64bits_reset(state) != XXH_OK)
		fail("checksum", strerror(ENOMEM));
	while (at < bytes) {
		ssize_t n = pread(fd, buf, bytes - at < sizeof(buf) ? (size_t)(bytes - at) : sizeof(buf), (off_t)at);

		if (n <= 0)
			fail("checksum", n < 0 ? strerror(errno) : "the file has become shorter");
		XXH3_64bits_update(state, buf, (size_t)n);
		at += (uint64_t)n;
	}
	sum = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return sum;
}

static void send_file(const char *link, const char *file)
{
	struct lr_transfer t = {.fd = open(file, O_RDONLY | O_CLOEXEC), .region = REGION, .promise = LR_DONE};
	char notice[64];
	struct lr_event ev;
	struct stat st;
	struct lr *h;
	uint64_t op;

	if (t.fd < 0 || fstat(t.fd, &st) < 0)
		fail(file, strerror(errno));
	t.length = (uint64_t)st.st_size;
	t.notice = notice;
	t.notice_len = (size_t)snprintf(notice, sizeof(notice), "%" PRIu64 " %016" PRIx64, t.length, checksum(t.fd, t.length));
	must(lr_open(link, NULL, &h), "lr_open");
	must(lr_put(h, &t, &op), "lr_put");
	do
		must(lr_wait(h, &ev, -1), "lr_wait");
	while (ev.type != LR_EV_DONE || ev.id != op);
	if (ev.status != LR_OK)
		fail(file, lr_strerror(ev.status));
	printf("%s\n", notice);
	lr_close(h);
}

/* Exports the file. tries: how often, 0.1 s apart. */
static struct lr *offer(const char *link, int fd, uint64_t most, int tries)
{
	struct lr *h = NULL;
	int r;

	for (;;) {
		r = lr_open(link, NULL, &h);
		if (r == 0)
			r = lr_export(h, REGION, fd, 0, most, LR_PEER_WRITE);
		if (r == 0)
			return h;
		lr_close(h);
		h = NULL;
		if (--tries <= 0)
			fail("cannot export " REGION, strerror(-r));
		usleep(100000);
	}
}

static void receive_file(const char *link, const char *file, uint64_t most)
{
	char notice[LR_NOTICE_MAX + 1];
	uint64_t bytes, sum;
	struct lr_event ev;
	struct lr *h;
	int fd, r;

	if (snprintf(part, sizeof(part), "%s.XXXXXX", file) >= (int)sizeof(part)) {
		*part = '\0';
		fail(file, strerror(ENAMETOOLONG));
	}
	fd = mkstemp(part);
	if (fd < 0) {
		*part = '\0';
		fail(file, strerror(errno));
	}
	if (ftruncate(fd, (off_t)most) < 0)
		fail(part, strerror(errno));
	h = offer(link, fd, most, 1);
	/* After a restart the daemon goes on with a put if the same bytes are exported again within five seconds. */
	while ((r = lr_wait(h, &ev, -1)) < 0 || ev.type != LR_EV_NOTICE)
		if (r < 0) {
			lr_close(h);
			h = offer(link, fd, most, 100);
		}
	snprintf(notice, sizeof(notice), "%.*s", (int)ev.len, (const char *)ev.data);
	/* After the unexport no put writes to the file, so the verified bytes cannot change. */
	must(lr_unexport(h, REGION), "lr_unexport");
	lr_close(h);
	if (sscanf(notice, "%" SCNu64 " %" SCNx64, &bytes, &sum) != 2 || bytes > most)
		fail("the notice has no size and checksum", notice);
	if (checksum(fd, bytes) != sum)
		fail(file, "the checksum differs: the file changed while it was sent, or two programs sent at once");
	if (ftruncate(fd, (off_t)bytes) < 0 || fsync(fd) < 0 || rename(part, file) < 0)
		fail(file, strerror(errno));
	printf("%s: %" PRIu64 " bytes, checksum %016" PRIx64 "\n", file, bytes, sum);
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "send") == 0) {
		send_file(argv[2], argv[3]);
	} else if (argc == 5 && strcmp(argv[1], "receive") == 0 && strtoull(argv[4], NULL, 0) > 0) {
		receive_file(argv[2], argv[3], strtoull(argv[4], NULL, 0));
	} else {
		fputs("usage: push_checkpoint send LINK FILE | push_checkpoint receive LINK FILE MOST\n", stderr);
		return 2;
	}
	return 0;
}
