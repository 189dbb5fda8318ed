/* SPDX-License-Identifier: Apache-2.0 */
/* How the library finds a relay: a path that is given, the socket of this machine, an edge of the site. RDMA is played here. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/longreach.c"
#include "lib/lr_edges.c"

static char asked[128];
static int rdma_rc;

int lr_rdma_open(const char *address, const struct lr_verbs *verbs, struct lr_rdma **out)
{
	(void)verbs;
	snprintf(asked, sizeof(asked), "%s", address);
	*out = (struct lr_rdma *)&asked;
	return rdma_rc;
}

void lr_rdma_close(struct lr_rdma *c)
{
	(void)c;
}

int lr_rdma_fd(const struct lr_rdma *c)
{
	(void)c;
	return 7;
}

int lr_rdma_transfer(struct lr_rdma *c, uint32_t type, const struct lr_transfer *t, uint64_t *op)
{
	(void)c, (void)type, (void)t, (void)op;
	return 0;
}

int lr_rdma_export(struct lr_rdma *c, const char *name, int fd, void *memory, uint64_t offset, uint64_t size, unsigned access)
{
	(void)c, (void)name, (void)fd, (void)memory, (void)offset, (void)size, (void)access;
	return -EIO;
}

int lr_rdma_unexport(struct lr_rdma *c, const char *name)
{
	(void)c, (void)name;
	return -EIO;
}

int lr_rdma_reopen(struct lr_rdma *old, struct lr_rdma **out)
{
	(void)old, (void)out;
	return -EIO;
}

int lr_rdma_cancel(struct lr_rdma *c, uint64_t op)
{
	(void)c, (void)op;
	return 0;
}

int lr_rdma_wait(struct lr_rdma *c, struct lr_event *ev, int timeout_ms)
{
	(void)c, (void)ev, (void)timeout_ms;
	return 0;
}

static char file[] = "/tmp/lr_edges.XXXXXX";

static int setup(void **state)
{
	FILE *f;

	(void)state;
	strcpy(file + strlen(file) - 6, "XXXXXX");
	f = fdopen(mkstemp(file), "w");
	fputs("# edges\n\nother 10.0.0.9 # no\n  no-such-link\t10.1.0.1:4999  # yes\nno-such-link 10.2.2.2\nbare\nlong a b\n", f);
	fclose(f);
	unsetenv("LONGREACH_RELAY");
	unsetenv("LONGREACH_RDMA");
	setenv("LONGREACH_EDGES", file, 1);
	asked[0] = '\0';
	rdma_rc = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return remove(file);
}

static void open__takes_the_edge_that_the_file_names(void **state)
{
	struct lr *h = NULL;

	(void)state;
	assert_int_equal(lr_open("no-such-link", NULL, &h), 0);
	assert_string_equal(asked, "10.1.0.1:4999");
	assert_int_equal(lr_fd(h), 7);
	lr_close(h);
}

static void open__says_why_the_edge_is_not_reached(void **state)
{
	struct lr *h = NULL;

	(void)state;
	rdma_rc = -ENODEV;
	assert_int_equal(lr_open("no-such-link", NULL, &h), -ENODEV);
	assert_int_equal(lr_open("bare", NULL, &h), -EINVAL);
	assert_int_equal(lr_open("long", NULL, &h), -EINVAL);
	assert_null(h);
}

static void open__without_an_edge(void **state)
{
	struct lr *h = NULL;

	(void)state;
	assert_int_equal(lr_open("unnamed", NULL, &h), -ENOENT);
	setenv("LONGREACH_EDGES", "/no/such/file", 1);
	assert_int_equal(lr_open("no-such-link", NULL, &h), -ENOENT);
	assert_string_equal(asked, "");
}

static void open__is_kept_from_rdma(void **state)
{
	struct lr *h = NULL;

	(void)state;
	setenv("LONGREACH_RDMA", "no", 1);
	assert_int_equal(lr_open("no-such-link", NULL, &h), -ENOENT);
	assert_string_equal(asked, "");
}

/* Who names a relay gets that one, or its error. */
static void open__of_a_path_goes_nowhere_else(void **state)
{
	struct lr *h = NULL;

	(void)state;
	assert_int_equal(lr_open("no-such-link", "/no/such/socket", &h), -ENOENT);
	setenv("LONGREACH_RELAY", "/no/such/socket", 1);
	assert_int_equal(lr_open("no-such-link", NULL, &h), -ENOENT);
	assert_string_equal(asked, "");
	assert_int_equal(lr_open("no-such-link", "rdma:10.3.3.3", &h), 0);
	assert_string_equal(asked, "10.3.3.3");
	lr_close(h);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(open__takes_the_edge_that_the_file_names),
	    TEST(open__says_why_the_edge_is_not_reached),
	    TEST(open__without_an_edge),
	    TEST(open__is_kept_from_rdma),
	    TEST(open__of_a_path_goes_nowhere_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
