/* SPDX-License-Identifier: Apache-2.0 */
/* What the doctor says of a GPU driver's device files: two folders play the machine's root and the daemon's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/client/doctor_gpu.c"

static char found[1024], cannot[256];
static char dir[] = "/tmp/test_doctor_gpu.XXXXXX", machine[64], daemons[64];

void doctor_find(struct doctor *d, const char *fmt, ...)
{
	size_t at = strlen(found);
	va_list ap;

	(void)d;
	va_start(ap, fmt);
	vsnprintf(found + at, sizeof(found) - at, fmt, ap);
	va_end(ap);
}

void doctor_cannot(struct doctor *d, const char *fmt, ...)
{
	va_list ap;

	(void)d;
	va_start(ap, fmt);
	vsnprintf(cannot, sizeof(cannot), fmt, ap);
	va_end(ap);
}

pid_t doctor_daemon(const struct doctor *d)
{
	(void)d;
	return 0;
}

static void shell(const char *command)
{
	char text[512];

	snprintf(text, sizeof(text), "cd %s && %s", dir, command);
	assert_int_equal(system(text), 0);
}

static const char *look(const char *sees)
{
	found[0] = cannot[0] = '\0';
	look_at_files(NULL, machine, sees);
	return found;
}

static int set_up(void **state)
{
	(void)state;
	strcpy(dir + sizeof(dir) - 7, "XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(machine, sizeof(machine), "%s/machine", dir);
	snprintf(daemons, sizeof(daemons), "%s/daemon", dir);
	shell("mkdir -p machine/dev daemon/dev && touch machine/dev/nvidiactl machine/dev/nvidia-uvm "
	      "daemon/dev/nvidiactl "
	      "daemon/dev/nvidia-uvm");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	shell("rm -rf machine daemon");
	return rmdir(dir);
}

static void gpu__all_files(void **state)
{
	(void)state;
	assert_string_equal(look(daemons), "");
	assert_string_equal(look(NULL), "");
	assert_string_equal(cannot, "");
}

/* nvidia-smi and nvidia-persistenced load nvidia.ko, not nvidia-uvm.ko. */
static void gpu__no_unified_memory(void **state)
{
	(void)state;
	shell("rm machine/dev/nvidia-uvm daemon/dev/nvidia-uvm");
	assert_non_null(strstr(look(daemons), "there is no /dev/nvidia-uvm"));
	assert_non_null(strstr(found, "nvidia-modprobe -c 0 -u"));
	assert_non_null(strstr(look(NULL), "there is no /dev/nvidia-uvm"));
}

static void gpu__no_driver_is_one_finding(void **state)
{
	(void)state;
	shell("rm machine/dev/* daemon/dev/*");
	assert_non_null(strstr(look(daemons), "there is no /dev/nvidiactl"));
	assert_null(strstr(found, "uvm:"));
}

/* PrivateDevices=yes */
static void gpu__files_that_the_unit_hides(void **state)
{
	(void)state;
	shell("rm daemon/dev/*");
	assert_non_null(strstr(look(daemons), "longreachd does not see /dev/nvidiactl"));
	assert_non_null(strstr(found, "drop-in"));
	assert_string_equal(look(NULL), "");
}

static void gpu__what_cannot_be_seen_is_no_finding(void **state)
{
	(void)state;
	shell("rm -r daemon/dev && touch daemon/dev"); /* ENOTDIR, as EACCES without rights */
	assert_string_equal(look(daemons), "");
	assert_non_null(strstr(cannot, "/dev/nvidiactl"));
}

static void gpu__links_without_gpus(void **state)
{
	static struct doctor_link l;

	(void)state;
	found[0] = '\0';
	l.has_config = l.config.relay = true;
	doctor_gpu(NULL, &l);
	assert_string_equal(found, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(gpu__all_files, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(gpu__no_unified_memory, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(gpu__no_driver_is_one_finding, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(gpu__files_that_the_unit_hides, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(gpu__what_cannot_be_seen_is_no_finding, set_up, tear_down),
	    cmocka_unit_test_setup_teardown(gpu__links_without_gpus, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
