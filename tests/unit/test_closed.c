/* SPDX-License-Identifier: Apache-2.0 */
/* test_closed.c - whose kernel rules stand when the link files, what runs, and what buffers hold disagree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/closed/closed.c"
#include "no_log_limit.h"

/* What the directory holds, and what was asked of the kernel. */
static struct site_paths files;
static char installed[SITES_MAX][LINK_NAME_MAX];
static uint32_t ninstalled;
static enum barrier_mode barrier; /* of the last of them */
static bool owes_early;
static bool may_be_others; /* files that nobody has named */
static bool bad_is_whole; /* bad.conf can be understood */
static uint32_t distance; /* in the files */
static enum arena_debt debt;
static char removed[128]; /* what was done when a link was removed: its name, and those that kept their rules */
static bool all_is_closed, rule_is_missing; /* the nft table of no link; a rule in front of the routing tables */
static int install_result; /* of each */
static char logged[1024];  /* the last line */
static bool forgotten;
static char swept[512]; /* the links whose tables stay, in blanks; empty: nothing was swept */
static uint32_t rules_kept;

void log_at(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	(void)level;
	va_start(ap, fmt);
	vsnprintf(logged, sizeof(logged), fmt, ap);
	va_end(ap);
}

void site_report(char *report, const char *fmt, ...)
{
	size_t n = strlen(report);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(report + n, SITES_REPORT_MAX - n, fmt, ap);
	va_end(ap);
}

void steer_forget(void)
{
	forgotten = true;
}

int site_paths_read(const struct site_sources *src, struct site_paths *out, char *report)
{
	(void)src;
	(void)report;
	*out = files;
	return may_be_others ? -EINVAL : 0;
}

int config_load(const char *path, struct link_config *c, char err[CONFIG_ERR_MAX])
{
	const char *name = strrchr(path, '/') + 1;

	*c = (struct link_config){0};
	if (strcmp(name, "bad.conf") == 0 && !bad_is_whole) {
		snprintf(err, CONFIG_ERR_MAX, "what is this?");
		return -EINVAL;
	}
	snprintf(c->name, sizeof(c->name), "%.*s", (int)(strlen(name) - strlen(".conf")), name);
	c->distance_m = distance;
	return 0;
}

enum arena_debt arena_file_debt(const char *dir, const char *link)
{
	(void)dir;
	(void)link;
	return debt;
}

bool arena_file_owes_early(const char *dir, const char *link)
{
	(void)dir;
	(void)link;
	return owes_early;
}

static bool all_strays_seen;

enum arena_debt arena_file_debt_of(const char *path)
{
	(void)path;
	return ARENA_CLEAR;
}

void arena_file_name(char *path, size_t size, const char *dir, const char *link, uint32_t shard)
{
	snprintf(path, size, "%s/%s.%u.arena", dir, link, shard);
}

uint32_t arena_scan(const struct arena_claim *claims, uint32_t nclaims, struct arena_stray *out, uint32_t max, bool *all)
{
	*all = all_strays_seen;
	(void)claims;
	(void)nclaims;
	(void)out;
	(void)max;
	return 0;
}

int privileged_steer_install(const struct link_config *c, enum steer_extent extent, char *err, size_t errlen)
{
	(void)extent;
	barrier = config_barrier(c);
	snprintf(installed[ninstalled++], LINK_NAME_MAX, "%s", c->name);
	if (install_result != 0)
		snprintf(err, errlen, "the nft table inet longreach_%s", c->name);
	return install_result;
}

int privileged_steer_all(bool closed, char *err, size_t errlen)
{
	bool changes = all_is_closed != closed || rule_is_missing;

	(void)err;
	(void)errlen;
	all_is_closed = closed;
	rule_is_missing = false;
	return changes;
}

bool privileged_steer_all_stands(void)
{
	return all_is_closed;
}

void privileged_steer_remove(const struct link_config *c, const struct link_config *kept, uint32_t n)
{
	snprintf(removed + strlen(removed), sizeof(removed) - strlen(removed), "%s behind %u installed, kept:", c->name,
	         ninstalled);
	for (uint32_t i = 0; i < n; i++)
		snprintf(removed + strlen(removed), sizeof(removed) - strlen(removed), " %s", kept[i].name);
}

void privileged_steer_sweep(const char *const *links, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		snprintf(swept + strlen(swept), sizeof(swept) - strlen(swept), " %s", links[i]);
	strcat(swept, " ");
}

void privileged_hold_only(const struct link_config *links, uint32_t n)
{
	(void)links;
	(void)n;
}

int privileged_fib_rule_sweep(const struct link_config *links, uint32_t n)
{
	(void)links;
	rules_kept = n;
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	files.n = ninstalled = rules_kept = 0;
	owes_early = all_is_closed = all_closed = rule_is_missing = false;
	all_strays_seen = true;
	swept[0] = logged[0] = removed[0] = '\0';
	bad_is_whole = may_be_others = false;
	distance = 0;
	debt = ARENA_LOCKED;
	memset(&unread_before, 0, sizeof(unread_before));
	install_result = 0;
	forgotten = false;
	return 0;
}

static void add_file(const char *path)
{
	snprintf(files.path[files.n++], SITE_PATH_MAX, "%s", path);
}

static int apply(const struct closed_links *links)
{
	static const struct site_sources directory = {.dir = "/etc/longreach"};
	static char report[SITES_REPORT_MAX];

	return closed_apply(&directory, links, report);
}

static void closed_apply__tables_of_links_without_a_file_go(void **state)
{
	(void)state;
	add_file("/etc/longreach/osaka.conf");
	assert_int_equal(apply(NULL), 0);
	assert_string_equal(swept, " osaka ");
	assert_int_equal(rules_kept, 1);
}

/* Buffers that are too many to be seen, or in a directory that cannot be read, may hold what is owed: what closed that stays. */
static void closed_apply__nothing_goes_while_buffers_were_not_seen(void **state)
{
	(void)state;
	add_file("/etc/longreach/osaka.conf");
	all_strays_seen = false;
	assert_int_equal(apply(NULL), 0);
	assert_string_equal(swept, "");
	assert_int_equal(rules_kept, 0);
	assert_int_equal(ninstalled, 1);
}

/* As when an option is not understood: the files of another directory keep their rules. */
static void closed_apply__all_is_closed_while_other_files_may_be_meant(void **state)
{
	(void)state;
	may_be_others = true;
	add_file("/etc/longreach/osaka.conf");
	assert_int_equal(apply(NULL), -EINVAL);
	assert_true(closed_all() && all_is_closed);
	assert_int_equal(ninstalled, 1);
	assert_string_equal(swept, "");
}

/* The file of one link is removed, or on its way from one name to the other; then another link is started. */
static void closed_apply__a_link_that_runs_keeps_its_rules_without_a_file(void **state)
{
	static struct link_config tokyo = {.name = "tokyo"}, osaka = {.name = "osaka"};
	const struct closed_links running = {.list = {&tokyo, &osaka}, .runs = {true, true}, .n = 2};

	(void)state;
	add_file("/etc/longreach/osaka.conf");
	assert_int_equal(apply(&running), 0);
	assert_non_null(strstr(swept, " tokyo "));
	assert_non_null(strstr(swept, " osaka "));
	assert_int_equal(rules_kept, 2);
	assert_int_equal(ninstalled, 2);
}

static int apply_to(const char *file, const struct closed_links *links)
{
	const struct site_sources one = {.files = {file}, .nfiles = 1};
	static char report[SITES_REPORT_MAX];

	return closed_apply(&one, links, report);
}

/* tokyo.conf has become wakkanai.conf: what both ask for stays, and all the rest goes last. */
static void closed_apply__rules_of_a_renamed_link_go_when_all_are_closed(void **state)
{
	static struct link_config tokyo = {.name = "tokyo"}, wakkanai = {.name = "wakkanai"};
	const struct closed_links links = {.list = {&wakkanai}, .runs = {true}, .n = 1, .gone = &tokyo, .ngone = 1};

	(void)state;
	debt = ARENA_CLEAR;
	add_file("/etc/longreach/osaka.conf");
	add_file("/etc/longreach/wakkanai.conf");
	assert_int_equal(apply(&links), 0);
	assert_string_equal(removed, "tokyo behind 2 installed, kept: osaka wakkanai");
	assert_string_equal(swept, " osaka wakkanai ");
	/* named files, where nothing is swept */
	removed[0] = swept[0] = '\0';
	files.n = ninstalled = 0;
	add_file("/etc/longreach/wakkanai.conf");
	assert_int_equal(apply_to("/etc/longreach/wakkanai.conf", &links), 0);
	assert_string_equal(removed, "tokyo behind 1 installed, kept: wakkanai");
	assert_string_equal(swept, "");
}

static void closed_apply__rules_of_a_removed_link_stay_while_it_owes_or_a_file_is_not_understood(void **state)
{
	static struct link_config tokyo = {.name = "tokyo"};
	const struct closed_links links = {.gone = &tokyo, .ngone = 1};

	(void)state;
	debt = ARENA_OWES;
	assert_int_equal(apply(&links), 0);
	debt = ARENA_CLEAR;
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(apply(&links), -EINVAL);
	files.n = 0;
	add_file("/etc/longreach/tokyo.conf"); /* it is back */
	assert_int_equal(apply(&links), 0);
	assert_string_equal(removed, "");
}

/* Its buffer has drained since: the barrier goes off with the next start. */
static void closed_apply__a_link_that_runs_keeps_the_barrier_of_its_start(void **state)
{
	static struct link_config tokyo = {.name = "tokyo", .ack_mode = ACK_MODE_HOST, .barrier_owed = true};
	const struct closed_links running = {.list = {&tokyo}, .runs = {true}, .n = 1};

	(void)state;
	add_file("/etc/longreach/tokyo.conf");
	assert_int_equal(apply(&running), 0);
	assert_int_equal(barrier, BARRIER_PAIR);
}

/* site_look_at_rules() sets the rules of the link as the daemon has it: the two must not replace each other's for ever. */
static void closed_apply__a_link_that_does_not_start_keeps_its_rules_when_its_file_changes(void **state)
{
	static struct link_config tokyo = {.name = "tokyo", .barrier = BARRIER_SAYS_PAIR};
	const struct closed_links at_rest = {.list = {&tokyo}, .n = 1};

	(void)state;
	add_file("/etc/longreach/tokyo.conf");
	assert_int_equal(apply(NULL), 0);
	assert_int_equal(barrier, BARRIER_OFF); /* the file's */
	assert_int_equal(apply(&at_rest), 0);
	assert_int_equal(barrier, BARRIER_PAIR);
}

/* A link that was stopped keeps its own rules as well. */
static void closed_apply__the_file_of_a_link_at_rest_closes_all(void **state)
{
	static struct link_config bad = {.name = "bad"};
	const struct closed_links at_rest = {.list = {&bad}, .n = 1};

	(void)state;
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(apply(&at_rest), -EINVAL);
	assert_true(closed_all() && all_is_closed);
	assert_int_equal(ninstalled, 1);
}

/* A link file of a life without early ACKs, and a buffer that owes those of the life before. */
static void closed_rest__closes_ip_for_early_acks_of_a_life_before(void **state)
{
	struct link_config tokyo = {.name = "tokyo", .ack_mode = ACK_MODE_HOST};
	char err[CONFIG_ERR_MAX];

	(void)state;
	assert_int_equal(closed_rest(&tokyo, err, sizeof(err)), 0);
	assert_int_equal(barrier, BARRIER_OFF);
	owes_early = true;
	assert_int_equal(closed_rest(&tokyo, err, sizeof(err)), 0);
	assert_int_equal(barrier, BARRIER_PAIR);
	tokyo.barrier = BARRIER_SAYS_OFF;
	assert_int_equal(closed_rest(&tokyo, err, sizeof(err)), 0);
	assert_int_equal(barrier, BARRIER_OFF);
}

/* A removal of the package asks it, and deletes the keys next. */
static void closed_list_owed__names_what_it_does_not_understand(void **state)
{
	static const struct site_sources directory = {.dir = "/etc/longreach"};
	char text[256] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");

	(void)state;
	assert_non_null(out);
	add_file("/etc/longreach/osaka.conf");
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(closed_list_owed(&directory, out), -EINVAL);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "/etc/longreach/bad.conf\n");
}

static int keep_all(void)
{
	static const struct site_sources directory = {.dir = "/etc/longreach"};
	char err[CONFIG_ERR_MAX] = "";

	return closed_keep_all(&directory, err);
}

/* A flush right behind the reload that has found the file, and a removal of the rules alone. */
static void closed_keep_all__puts_back_what_a_reload_has_closed(void **state)
{
	(void)state;
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(apply(NULL), -EINVAL);
	assert_true(closed_all());
	all_is_closed = false;
	assert_int_equal(keep_all(), 1);
	assert_true(all_is_closed);
	assert_int_equal(keep_all(), 0);
	rule_is_missing = true;
	assert_int_equal(keep_all(), 1);
	assert_false(rule_is_missing);
	files.n = 0;
	assert_int_equal(apply(NULL), 0);
	assert_false(closed_all() || all_is_closed);
	assert_int_equal(keep_all(), 0);
	assert_false(all_is_closed);
}

/* `longreachd --close` beside a daemon sets the table before the rules, and removes both when the file is mended. */
static void closed_keep_all__follows_another_process(void **state)
{
	(void)state;
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(keep_all(), 0);
	assert_false(all_is_closed);
	all_is_closed = rule_is_missing = true;
	assert_int_equal(keep_all(), 0); /* nobody has removed anything */
	assert_true(closed_all());
	all_is_closed = false;
	assert_int_equal(keep_all(), 1);
	files.n = 0;
	all_is_closed = false;
	assert_int_equal(keep_all(), 0);
	assert_false(closed_all() || all_is_closed);
}

/* The link runs with the file that it was started with: its own rules are in force. */
static void closed_apply__the_file_of_a_running_link_closes_nothing_and_opens_nothing(void **state)
{
	static struct link_config bad = {.name = "bad"};
	const struct closed_links running = {.list = {&bad}, .runs = {true}, .n = 1};

	(void)state;
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(apply(&running), 0);
	assert_false(closed_all() || all_is_closed);
	all_is_closed = true; /* `longreachd --close` does not see what runs */
	assert_int_equal(apply(&running), 0);
	assert_true(closed_all() && all_is_closed);
}

static int restore(void)
{
	static const struct site_sources directory = {.dir = "/etc/longreach"};
	static char report[SITES_REPORT_MAX];

	return closed_restore(&directory, report);
}

/* An editor renames a file while another program flushes the rules. */
static void closed_restore__removes_nothing(void **state)
{
	(void)state;
	assert_int_equal(restore(), 0);
	assert_string_equal(swept, "");
	assert_int_equal(rules_kept, 0);
	add_file("/etc/longreach/osaka.conf");
	assert_int_equal(restore(), 0);
	assert_int_equal(ninstalled, 1);
	assert_string_equal(swept, "");
	assert_int_equal(apply(NULL), 0);
	assert_string_equal(swept, " osaka ");
}

/* What closes all RoCE goes when somebody asks for it. */
static void closed_restore__opens_nothing_and_puts_back(void **state)
{
	(void)state;
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(apply(NULL), -EINVAL);
	assert_string_equal(logged, "");
	all_is_closed = false;
	assert_int_equal(restore(), -EINVAL);
	assert_true(all_is_closed);
	assert_non_null(strstr(logged, "table inet longreach"));
	files.n = 0; /* on its way from one name to another */
	assert_int_equal(restore(), 0);
	assert_true(all_is_closed);
	all_is_closed = false; /* `longreachd --close` by hand */
	assert_int_equal(restore(), 0);
	assert_false(all_is_closed || closed_all());
}

static void closed_restore__names_what_was_removed(void **state)
{
	(void)state;
	add_file("/etc/longreach/osaka.conf");
	assert_int_equal(restore(), 0);
	assert_string_equal(logged, "");
	install_result = 1;
	assert_int_equal(restore(), 0);
	assert_non_null(strstr(logged, "link osaka: another program removed or changed the nft table inet longreach_osaka:"));
	install_result = -EIO;
	assert_int_equal(restore(), -EIO);
}

static void seconds_pass(uint64_t s)
{
	unread_before.since_ns -= unread_before.since_ns != 0 ? s * NS_PER_S : 0;
}

/* A symbolic link whose target comes with a mount: it is believed when it has not changed for some seconds. */
static void closed_restore__opens_when_all_files_have_come(void **state)
{
	(void)state;
	add_file("/etc/longreach/osaka.conf");
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(apply(NULL), -EINVAL);
	swept[0] = '\0';
	bad_is_whole = true;
	assert_int_equal(restore(), 0);
	seconds_pass(2);
	assert_int_equal(restore(), 0);
	assert_true(closed_all() && all_is_closed);
	distance = 1000; /* more of the file was written */
	seconds_pass(2);
	assert_int_equal(restore(), 0);
	assert_true(closed_all() && all_is_closed);
	bad_is_whole = false;
	seconds_pass(9);
	assert_int_equal(restore(), -EINVAL);
	bad_is_whole = true;
	assert_int_equal(restore(), 0);
	assert_true(closed_all() && all_is_closed);
	seconds_pass(3);
	assert_int_equal(restore(), 0);
	assert_false(closed_all() || all_is_closed);
	assert_string_equal(swept, "");
}

/* Not if one of them is gone, perhaps on its way to another name. */
static void closed_restore__opens_nothing_while_a_file_is_away(void **state)
{
	(void)state;
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(apply(NULL), -EINVAL);
	files.n = 0;
	add_file("/etc/longreach/osaka.conf");
	assert_int_equal(restore(), 0);
	seconds_pass(100);
	assert_int_equal(restore(), 0);
	assert_true(closed_all() && all_is_closed);
}

/* Another process has set other rules since: none of them was removed. */
static void closed_forget__all_that_was_set(void **state)
{
	(void)state;
	add_file("/etc/longreach/bad.conf");
	assert_int_equal(apply(NULL), -EINVAL);
	closed_forget();
	assert_true(forgotten && !closed_all());
	all_is_closed = false; /* the daemon's link runs with the file that it was started with */
	assert_int_equal(restore(), -EINVAL);
	assert_true(all_is_closed);
	assert_string_equal(logged, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(closed_apply__tables_of_links_without_a_file_go, set_up),
	    cmocka_unit_test_setup(closed_apply__nothing_goes_while_buffers_were_not_seen, set_up),
	    cmocka_unit_test_setup(closed_apply__all_is_closed_while_other_files_may_be_meant, set_up),
	    cmocka_unit_test_setup(closed_apply__a_link_that_runs_keeps_its_rules_without_a_file, set_up),
	    cmocka_unit_test_setup(closed_apply__a_link_that_runs_keeps_the_barrier_of_its_start, set_up),
	    cmocka_unit_test_setup(closed_apply__a_link_that_does_not_start_keeps_its_rules_when_its_file_changes,
	                           set_up),
	    cmocka_unit_test_setup(closed_apply__the_file_of_a_link_at_rest_closes_all, set_up),
	    cmocka_unit_test_setup(closed_rest__closes_ip_for_early_acks_of_a_life_before, set_up),
	    cmocka_unit_test_setup(closed_keep_all__puts_back_what_a_reload_has_closed, set_up),
	    cmocka_unit_test_setup(closed_keep_all__follows_another_process, set_up),
	    cmocka_unit_test_setup(closed_apply__the_file_of_a_running_link_closes_nothing_and_opens_nothing, set_up),
	    cmocka_unit_test_setup(closed_restore__removes_nothing, set_up),
	    cmocka_unit_test_setup(closed_restore__opens_nothing_and_puts_back, set_up),
	    cmocka_unit_test_setup(closed_apply__rules_of_a_renamed_link_go_when_all_are_closed, set_up),
	    cmocka_unit_test_setup(closed_apply__rules_of_a_removed_link_stay_while_it_owes_or_a_file_is_not_understood,
	                           set_up),
	    cmocka_unit_test_setup(closed_restore__opens_when_all_files_have_come, set_up),
	    cmocka_unit_test_setup(closed_restore__opens_nothing_while_a_file_is_away, set_up),
	    cmocka_unit_test_setup(closed_restore__names_what_was_removed, set_up),
	    cmocka_unit_test_setup(closed_forget__all_that_was_set, set_up),
	    cmocka_unit_test_setup(closed_list_owed__names_what_it_does_not_understand, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
