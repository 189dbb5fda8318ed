/* SPDX-License-Identifier: Apache-2.0 */
/* lsm.h - what SELinux or AppArmor refused a process and its parent or child, as the audit log says, or the kernel's log
 * where no auditd runs.
 *
 * Only logged refusals are told: not those that a permissive domain or a profile in complain mode would have caused. */
#ifndef DAEMON_LSM_H
#define DAEMON_LSM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LSM_DENIALS_MAX 8
#define LSM_TEXT_MAX    192

struct lsm_denial {
	bool selinux;            /* else AppArmor */
	char what[LSM_TEXT_MAX]; /* for people: "write to sock_file control" */
	char whose[96];          /* the context, or the profile, that it was refused */
	unsigned times;
	uint64_t last_unix_s;
};

struct lsm_report {
	bool selinux;     /* it is enforcing */
	bool apparmor;    /* it is enabled */
	char label[128];  /* of the process; empty: not known */
	struct lsm_denial denial[LSM_DENIALS_MAX];
	unsigned n;       /* distinct refusals */
	unsigned others;  /* refusals for which there was no room */
	char unread[256]; /* the log that could not be read, and why; empty: it was read, or is not needed */
};

/* root: what stands in front of /sys, /proc, /var/log and /dev ("" but in tests). pid: the process whose refusals since
 * its start count; 0: no process runs, and refusals of the last hour count whose process is named longreachd. */
void lsm_read(struct lsm_report *r, const char *root, pid_t pid, uint64_t now_unix_s);

#endif
