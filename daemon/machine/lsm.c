/* SPDX-License-Identifier: Apache-2.0 */
/* Theory of operation
 *
 * Both modules write an audit record of type AVC for each refusal. auditd writes it to its log; without auditd the
 * kernel writes it to its own. The record has the PID and the time, which tell records of other processes, and of an
 * earlier process with the same PID, apart. A thread's record has the PID of its process. */
#include "lsm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAIL_BYTES (4 << 20) /* bytes read from the end of the audit log, whose files have 8 MiB */
#define READ_MAX   (16 << 20) /* of the kernel's log, which grows while it is read */
#define RECENT_S   3600
#define NAME_CAP   512

#define START_ERROR_S 2 /* error of a process's start time, which is computed from whole seconds */

struct process {
	pid_t parent;
	uint64_t start_unix_s;
	bool ours; /* by its name */
};

struct search {
	struct lsm_report *r;
	const char *root;
	pid_t pid, parent;
	uint64_t from_unix_s;
};

/* --- files --- */

/* The first line, without its end. False: there is none. */
static bool read_line(const char *root, const char *path, char *line, size_t cap)
{
	char name[NAME_CAP];
	ssize_t n = -1;
	int fd;

	snprintf(name, sizeof(name), "%s%s", root, path);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, line, cap - 1);
		close(fd);
	}
	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return n > 0;
}

static uint64_t boot_unix_s(const char *root)
{
	char name[NAME_CAP], line[256];
	uint64_t s = 0;
	FILE *f;

	snprintf(name, sizeof(name), "%s/proc/stat", root);
	f = fopen(name, "re");
	while (f != NULL && s == 0 && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "btime %" SCNu64, &s) != 1)
			s = 0;
	if (f != NULL)
		fclose(f);
	return s;
}

/* proc_pid_stat(5). Its second field may have any character in it, so that the last parenthesis ends it. */
static bool read_process(const char *root, pid_t pid, struct process *p)
{
	char path[64], line[1024], *name, *rest;
	unsigned long long ticks;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (!read_line(root, path, line, sizeof(line)))
		return false;
	name = strchr(line, '(');
	rest = strrchr(line, ')');
	if (name == NULL || rest == NULL ||
	    sscanf(rest + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &parent,
	           &ticks) != 2)
		return false;
	*p = (struct process){.parent = (pid_t)parent,
	                      .start_unix_s = boot_unix_s(root) + ticks / (unsigned long long)sysconf(_SC_CLK_TCK),
	                      .ours = strncmp(name + 1, "longreach", strlen("longreach")) == 0};
	return true;
}

/* --- a record --- */

/* The value behind " KEY=", without quotes. False: the record has no such field. */
static bool field(const char *line, const char *key, char *value, size_t cap)
{
	char wanted[32];
	const char *at;
	size_t len;

	snprintf(wanted, sizeof(wanted), " %s=", key);
	at = strstr(line, wanted);
	value[0] = '\0';
	if (at == NULL)
		return false;
	at += strlen(wanted);
	len = *at == '"' ? strcspn(++at, "\"") : strcspn(at, " ");
	snprintf(value, cap, "%.*s", (int)(len < cap ? len : cap - 1), at);
	return true;
}

/* The object of a refusal: a path, or a name in a directory, or an address family, or a capability. */
static void object_of(const char *line, char *text, size_t cap)
{
	static const char *const keys[] = {"path", "name", "capname", "family", "capability", "src", "dest"};

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (field(line, keys[i], text, cap))
			return;
}

/* avc:  denied  { read open } for ... tclass=file */
static bool read_selinux(const char *line, struct lsm_denial *d)
{
	const char *from = strstr(line, "avc:  denied  { "), *end = from != NULL ? strstr(from, " }") : NULL;
	char permissive[8], class[48], object[96];

	if (end == NULL || (field(line, "permissive", permissive, sizeof(permissive)) && permissive[0] == '1'))
		return false;
	from += strlen("avc:  denied  { ");
	field(line, "tclass", class, sizeof(class));
	object_of(line, object, sizeof(object));
	field(line, "scontext", d->whose, sizeof(d->whose));
	snprintf(d->what, sizeof(d->what), "%.*s on %s%s%s", (int)(end - from < 64 ? end - from : 64), from, class,
	         object[0] != '\0' ? " " : "", object);
	d->selinux = true;
	return true;
}

/* apparmor="DENIED" operation="open" profile="..." name="..." ... denied_mask="r" */
static bool read_apparmor(const char *line, struct lsm_denial *d)
{
	char operation[48], object[96], mask[32];

	if (strstr(line, "apparmor=\"DENIED\"") == NULL)
		return false;
	field(line, "operation", operation, sizeof(operation));
	object_of(line, object, sizeof(object));
	field(line, "denied_mask", mask, sizeof(mask));
	field(line, "profile", d->whose, sizeof(d->whose));
	snprintf(d->what, sizeof(d->what), "%s%s%s%s%s%s", operation, object[0] != '\0' ? " of " : "", object,
	         mask[0] != '\0' ? " (" : "", mask, mask[0] != '\0' ? ")" : "");
	d->selinux = false;
	return true;
}

/* True for a record of the process, or of its parent or child: both are longreachd. */
static bool is_of(const struct search *s, const char *line)
{
	char pid[16], name[32];
	struct process p;
	pid_t who;

	if (s->pid == 0)
		return field(line, "comm", name, sizeof(name)) && strncmp(name, "longreach", strlen("longreach")) == 0;
	if (!field(line, "pid", pid, sizeof(pid)))
		return false;
	who = (pid_t)strtol(pid, NULL, 10);
	if (who == s->pid || (s->parent != 0 && who == s->parent))
		return true;
	return read_process(s->root, who, &p) && p.parent == s->pid;
}

static void add(struct lsm_report *r, const struct lsm_denial *d)
{
	for (unsigned i = 0; i < r->n; i++) {
		struct lsm_denial *same = &r->denial[i];

		if (same->selinux != d->selinux || strcmp(same->what, d->what) != 0 || strcmp(same->whose, d->whose) != 0)
			continue;
		same->times++;
		same->last_unix_s = d->last_unix_s > same->last_unix_s ? d->last_unix_s : same->last_unix_s;
		return;
	}
	if (r->n < LSM_DENIALS_MAX)
		r->denial[r->n++] = *d;
	else
		r->others++;
}

static void look_at_record(const struct search *s, const char *line)
{
	struct lsm_denial d = {.times = 1};
	const char *at = strstr(line, "audit(");

	if (at == NULL || sscanf(at, "audit(%" SCNu64, &d.last_unix_s) != 1 || d.last_unix_s < s->from_unix_s)
		return;
	if (((s->r->selinux && read_selinux(line, &d)) || (s->r->apparmor && read_apparmor(line, &d))) && is_of(s, line))
		add(s->r, &d);
}

/* --- the logs --- */

/* Searches a log. Skips lines longer than any record. A read of /dev/kmsg gives one record, or EPIPE if some were
 * overwritten. False: errno says why the log cannot be read. */
static bool look_at_log(const struct search *s, int fd)
{
	static char text[16384]; /* one look at a time */
	size_t have = 0, all = 0;
	ssize_t n = 0;

	while (all < READ_MAX && ((n = read(fd, text + have, sizeof(text) - 1 - have)) > 0 || (n < 0 && errno == EPIPE))) {
		char *line = text, *end;

		have += n > 0 ? (size_t)n : 0;
		all += n > 0 ? (size_t)n : 1;
		text[have] = '\0';
		for (; (end = memchr(line, '\n', have - (size_t)(line - text))) != NULL; line = end + 1) {
			*end = '\0';
			look_at_record(s, line);
		}
		have -= (size_t)(line - text);
		memmove(text, line, have);
		if (have == sizeof(text) - 1)
			have = 0;
	}
	return n >= 0 || errno == EAGAIN;
}

static int open_log(const struct search *s, const char *path)
{
	char name[NAME_CAP];

	snprintf(name, sizeof(name), "%s%s", s->root, path);
	return open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static void look_at_logs(const struct search *s)
{
	const char *path = "/var/log/audit/audit.log";
	int fd = open_log(s, path);

	if (fd < 0 && errno == ENOENT) {
		path = "/dev/kmsg";
		fd = open_log(s, path);
	} else if (fd >= 0 && lseek(fd, 0, SEEK_END) > TAIL_BYTES) {
		lseek(fd, -TAIL_BYTES, SEEK_END);
	} else if (fd >= 0) {
		lseek(fd, 0, SEEK_SET);
	}
	if (fd < 0 || !look_at_log(s, fd))
		snprintf(s->r->unread, sizeof(s->r->unread), "%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Reads the process's label. If several modules have labels, AppArmor's is in a directory of its own. */
static void read_label(struct lsm_report *r, const char *root, pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/attr/apparmor/current", (int)pid);
	if (!r->selinux && read_line(root, path, r->label, sizeof(r->label)))
		return;
	snprintf(path, sizeof(path), "/proc/%d/attr/current", (int)pid);
	read_line(root, path, r->label, sizeof(r->label));
}

void lsm_read(struct lsm_report *r, const char *root, pid_t pid, uint64_t now_unix_s)
{
	struct search s = {.r = r, .root = root, .pid = pid, .from_unix_s = now_unix_s - RECENT_S};
	char text[16];
	struct process p, parent;

	*r = (struct lsm_report){0};
	r->selinux = read_line(root, "/sys/fs/selinux/enforce", text, sizeof(text)) && text[0] == '1';
	r->apparmor = read_line(root, "/sys/module/apparmor/parameters/enabled", text, sizeof(text)) && text[0] == 'Y';
	if (pid != 0)
		read_label(r, root, pid);
	/* AppArmor refuses nothing to a process without a profile */
	if (!r->selinux && (!r->apparmor || strcmp(r->label, "unconfined") == 0))
		return;
	if (pid != 0 && read_process(root, pid, &p)) {
		s.from_unix_s = p.start_unix_s - START_ERROR_S;
		if (read_process(root, p.parent, &parent) && parent.ours)
			s.parent = p.parent;
	}
	look_at_logs(&s);
}
