/* SPDX-License-Identifier: Apache-2.0 */
/* vector.c - puts and gets a region of the other site in pieces, and looks at each byte.
 *
 *     vector LINK:REGION BYTES PIECES [SEED]
 *
 * Random bytes are put piece by piece, each into a place that another piece had here, and got back in another order. The relay's socket: $LONGREACH_RELAY, or that of LINK. Exit status: 0 done, 1 it failed and says why, 2 usage. */
#define _GNU_SOURCE /* memfd_create */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/longreach.h"

static struct lr_piece piece[LR_PIECES_MAX];

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "vector: %s: %s\n", what, why);
	return 1;
}

/* Pieces of random lengths, 1 byte and more, that follow one another at both ends. */
static void cut(size_t n, uint64_t bytes)
{
	uint64_t at = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t most = (bytes - at) - (n - 1 - i), len = i + 1 == n ? most : 1 + (uint64_t)random() % (2 * most / (n - i));

		piece[i] = (struct lr_piece){at, at, len < most ? len : most};
		at += piece[i].length;
	}
}

static void shuffle(size_t n)
{
	for (size_t i = n; i-- > 1;) {
		size_t j = (size_t)random() % (i + 1);
		struct lr_piece p = piece[i];

		piece[i] = piece[j];
		piece[j] = p;
	}
}

static int carry_out(struct lr *h, const struct lr_transfer *t, size_t n, int is_put)
{
	struct lr_event ev;
	uint64_t op;
	int rc = is_put ? lr_putv(h, t, piece, n, &op) : lr_getv(h, t, piece, n, &op);

	if (rc < 0)
		return complain(is_put ? "put" : "get", strerror(-rc));
	while ((rc = lr_wait(h, &ev, -1)) == 1 && (ev.type != LR_EV_DONE || ev.id != op))
		;
	if (rc != 1)
		return complain(t->region, "the daemon has gone");
	return ev.status == LR_OK ? 0 : complain(is_put ? "put" : "get", lr_strerror(ev.status));
}

static uint8_t *memory(uint64_t bytes, int *fd)
{
	void *at;

	*fd = memfd_create("vector", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, (off_t)bytes) < 0)
		return NULL;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	return at == MAP_FAILED ? NULL : at;
}

int main(int argc, char **argv)
{
	char *colon = argc > 3 ? strchr(argv[1], ':') : NULL;
	uint64_t bytes = colon ? strtoull(argv[2], NULL, 0) : 0, row = 0;
	size_t n = colon ? strtoul(argv[3], NULL, 0) : 0;
	struct lr_transfer t = {.promise = LR_DONE, .notice = "vector", .notice_len = 6};
	uint8_t *from, *back;
	int from_fd, back_fd, rc;
	struct lr *h;

	if (!colon || n == 0 || n > LR_PIECES_MAX || bytes < n) {
		fputs("usage: vector LINK:REGION BYTES PIECES [SEED]\n", stderr);
		return 2;
	}
	srandom(argc > 4 ? (unsigned)strtoul(argv[4], NULL, 0) : 1);
	*colon = '\0';
	t.region = colon + 1;
	from = memory(bytes, &from_fd);
	back = memory(bytes, &back_fd);
	if (!from || !back)
		return complain("memory", strerror(errno));
	for (uint64_t i = 0; i < bytes; i++)
		from[i] = (uint8_t)random();
	rc = lr_open(argv[1], NULL, &h);
	if (rc < 0)
		return complain(argv[1], strerror(-rc));
	cut(n, bytes);
	shuffle(n);
	for (size_t i = 0; i < n; i++) { /* behind one another there, in their new order */
		piece[i].region_offset = row;
		row += piece[i].length;
	}
	t.fd = from_fd;
	rc = carry_out(h, &t, n, 1);
	shuffle(n);
	t = (struct lr_transfer){.fd = back_fd, .region = t.region};
	if (rc == 0)
		rc = carry_out(h, &t, n, 0);
	if (rc == 0 && memcmp(from, back, bytes) != 0)
		rc = complain("get", "other bytes came back than were put");
	if (rc == 0)
		printf("%llu bytes in %zu pieces\n", (unsigned long long)bytes, n);
	lr_close(h);
	return rc;
}
