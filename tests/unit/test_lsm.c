/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals of SELinux and AppArmor, in logs below a directory that stands for the machine's root. */
#define _GNU_SOURCE /* nftw */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <sys/stat.h>

#include "daemon/machine/lsm.c"

#define NOW   1700003000u
#define START 1700001000u /* of the daemon: btime and 10 s */

static char root[] = "/tmp/lr-lsm.XXXXXX";
static struct lsm_report r;

/* A file and the folders above it. */
static void plant(const char *path, const char *text)
{
	char name[256];
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (char *at = name + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		mkdir(name, 0700);
		*at = '/';
	}
	f = fopen(name, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void plant_process(pid_t pid, const char *name, pid_t parent, unsigned start_s)
{
	char path[64], text[256];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	snprintf(text, sizeof(text), "%d (%s) S %d 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 %lu 9\n", (int)pid, name, (int)parent,
	         start_s * (unsigned long)sysconf(_SC_CLK_TCK));
	plant(path, text);
}

static int setup(void **state)
{
	(void)state;
	strcpy(root, "/tmp/lr-lsm.XXXXXX");
	assert_non_null(mkdtemp(root));
	plant("/proc/stat", "cpu  1 2\nbtime 1700000990\n");
	plant_process(100, "longreachd", 99, 10);
	plant_process(99, "longreachd-priv", 1, 9);
	plant_process(1, "systemd", 0, 0);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)type, (void)at;
	return remove(path);
}

static int teardown(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void selinux_is(const char *enforce)
{
	plant("/sys/fs/selinux/enforce", enforce);
	plant("/proc/100/attr/current", "system_u:system_r:longreach_t:s0");
}

static void apparmor_is(const char *label)
{
	plant("/sys/module/apparmor/parameters/enabled", "Y\n");
	plant("/proc/100/attr/current", label);
}

static void look(void)
{
	lsm_read(&r, root, 100, NOW);
}

#define AVC(time, more) "type=AVC msg=audit(" time ".123:7): avc:  denied  " more "\n"
#define WRITE_SOCKET(pid)                                                                                                      \
	"{ write } for  pid=" pid " comm=\"longreachd\" name=\"control\" dev=\"tmpfs\" ino=3 "                              \
	"scontext=system_u:system_r:longreach_t:s0 tcontext=system_u:object_r:var_run_t:s0 tclass=sock_file permissive=0"

static void lsm_read__none_is_in_force(void **state)
{
	(void)state;
	plant("/var/log/audit/audit.log", AVC("1700002000", WRITE_SOCKET("100")));
	look();
	assert_false(r.selinux || r.apparmor);
	assert_int_equal(r.n, 0);
	assert_string_equal(r.unread, "");
}

static void lsm_read__selinux_refused(void **state)
{
	(void)state;
	selinux_is("1");
	plant("/var/log/audit/audit.log",
	      "type=SYSCALL msg=audit(1700002000.123:7): arch=c000003e syscall=42 pid=100 comm=\"longreachd\"\n" AVC("1700002000", WRITE_SOCKET("100")) AVC("1700002500", WRITE_SOCKET("100"))
	          AVC("1700002600", "{ net_admin } for  pid=99 comm=\"longreachd-priv\" capability=12 scontext=a:b:c:s0 tcontext=a:b:c:s0 "
	                                  "tclass=capability permissive=0"));
	look();
	assert_true(r.selinux);
	assert_string_equal(r.label, "system_u:system_r:longreach_t:s0");
	assert_int_equal(r.n, 2);
	assert_string_equal(r.denial[0].what, "write on sock_file control");
	assert_string_equal(r.denial[0].whose, "system_u:system_r:longreach_t:s0");
	assert_int_equal(r.denial[0].times, 2);
	assert_int_equal(r.denial[0].last_unix_s, 1700002500);
	assert_string_equal(r.denial[1].what, "net_admin on capability 12"); /* of its parent, which has the rights */
}

/* Of others, of a life before, and what was let through all the same. */
static void lsm_read__what_is_no_refusal_of_it(void **state)
{
	(void)state;
	selinux_is("1");
	plant("/var/log/audit/audit.log",
	      AVC("1700002000", WRITE_SOCKET("1")) AVC("1700002000", WRITE_SOCKET("1000"))
	          AVC("1700000500", WRITE_SOCKET("100"))
	              AVC("1700002000", "{ read } for  pid=100 comm=\"longreachd\" name=\"x\" tclass=file permissive=1")
	                  "type=AVC msg=audit(1700002000.1:8): avc:  granted  { read } for  pid=100 comm=\"longreachd\" tclass=file\n");
	look();
	assert_int_equal(r.n + r.others, 0);
}

static void lsm_read__permissive_refuses_nothing(void **state)
{
	(void)state;
	selinux_is("0");
	plant("/var/log/audit/audit.log", AVC("1700002000", WRITE_SOCKET("100")));
	look();
	assert_false(r.selinux);
	assert_int_equal(r.n, 0);
}

/* Without auditd, in the kernel's log, whose records begin with its own numbers. */
static void lsm_read__apparmor_refused(void **state)
{
	(void)state;
	apparmor_is("longreachd (enforce)\n");
	plant("/dev/kmsg",
	      "6,1,1,-;eth0: up\n SUBSYSTEM=net\n"
	      "5,2,9,-;audit: type=1400 audit(1700002000.5:9): apparmor=\"DENIED\" operation=\"open\" class=\"file\" profile=\"longreachd\" "
	      "name=\"/etc/longreach/a.key\" pid=100 comm=\"lr:a:0\" requested_mask=\"r\" denied_mask=\"r\" fsuid=0 ouid=0\n"
	      "5,3,9,-;audit: type=1400 audit(1700002001.5:9): apparmor=\"ALLOWED\" operation=\"open\" profile=\"longreachd\" name=\"/x\" "
	      "pid=100 comm=\"longreachd\" denied_mask=\"r\"\n"
	      "5,4,9,-;audit: type=1400 audit(1700002002.5:9): apparmor=\"DENIED\" operation=\"create\" profile=\"longreachd\" pid=100 "
	      "comm=\"longreachd\" family=\"packet\" sock_type=\"raw\"\n");
	look();
	assert_int_equal(r.n, 2);
	assert_string_equal(r.denial[0].what, "open of /etc/longreach/a.key (r)");
	assert_string_equal(r.denial[0].whose, "longreachd");
	assert_string_equal(r.denial[1].what, "create of packet");
	assert_string_equal(r.label, "longreachd (enforce)");
}

/* No profile: nothing can have been refused, and no log need be read. */
static void lsm_read__an_unconfined_process(void **state)
{
	(void)state;
	apparmor_is("unconfined\n");
	look();
	assert_true(r.apparmor);
	assert_int_equal(r.n, 0);
	assert_string_equal(r.unread, "");
}

static void lsm_read__a_log_that_cannot_be_read(void **state)
{
	(void)state;
	selinux_is("1");
	look();
	assert_non_null(strstr(r.unread, "/dev/kmsg: "));
	plant("/var/log/audit/audit.log/is/a/folder", "");
	look();
	assert_string_equal(r.unread, "/var/log/audit/audit.log: Is a directory");
	assert_int_equal(r.n, 0);
}

/* A daemon that does not come up: by name, and of the last hour. */
static void lsm_read__without_a_process(void **state)
{
	(void)state;
	selinux_is("1");
	plant("/var/log/audit/audit.log",
	      AVC("1700002000", WRITE_SOCKET("77")) AVC("1699990000", WRITE_SOCKET("78"))
	          AVC("1700002000", "{ read } for  pid=79 comm=\"sshd\" name=\"x\" tclass=file permissive=0"));
	lsm_read(&r, root, 0, NOW);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.denial[0].times, 1);
	assert_string_equal(r.label, "");
}

/* However many there are, and however long a line is. */
static void lsm_read__is_bounded(void **state)
{
	static char log[200000];
	size_t len = 0;

	(void)state;
	selinux_is("1");
	memset(log, 'x', 40000);
	len = 40000;
	len += (size_t)sprintf(log + len, "\n");
	for (unsigned i = 0; i < 400; i++)
		len += (size_t)sprintf(log + len, "type=AVC msg=audit(1700002000.1:8): avc:  denied  { read } for  pid=100 comm=\"longreachd\" "
		                                  "name=\"f%u\" scontext=a tclass=file permissive=0\n", i % 20);
	plant("/var/log/audit/audit.log", log);
	look();
	assert_int_equal(r.n, LSM_DENIALS_MAX);
	assert_int_equal(r.denial[0].times, 20);
	assert_int_equal(r.others, 400 - 20 * LSM_DENIALS_MAX);
	assert_string_equal(r.denial[7].what, "read on file f7");
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(lsm_read__none_is_in_force),
	    TEST(lsm_read__selinux_refused),
	    TEST(lsm_read__what_is_no_refusal_of_it),
	    TEST(lsm_read__permissive_refuses_nothing),
	    TEST(lsm_read__apparmor_refused),
	    TEST(lsm_read__an_unconfined_process),
	    TEST(lsm_read__a_log_that_cannot_be_read),
	    TEST(lsm_read__without_a_process),
	    TEST(lsm_read__is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
