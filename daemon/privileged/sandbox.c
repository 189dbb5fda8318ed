/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.c - user, capabilities, system calls.
 *
 * The list below has the child's system calls: found with strace over the tests with real daemons, and checked against
 * the sources for calls that the tests do not reach. A call that is missing fails with EPERM, which is logged where it
 * matters, and ends nothing; calls that the C library tries before older ones fail with ENOSYS, so that it goes on to
 * those. Not in it: starting programs (execve), other processes (fork, ptrace, kill), mounts, namespaces, modules, bpf,
 * keys, time, and sockets of any family but these four: packet sockets come from the parent. */
#define _GNU_SOURCE /* setresuid, CLONE_THREAD */
#include "sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <seccomp.h>

#include "daemon/util/log.h"

/* The kernel's ceiling as it comes (fs.nr_open). */
#define OPEN_FILES_MAX (1u << 20)
#define WORKER_NICE    (-10) /* worker.c, route.c */
#define GIVE_AWAY_TRIES   1000 /* a second: a sleeping thread handles a signal at once */
#define GIVE_AWAY_WAIT_US 1000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

void sandbox_raise_limits(void)
{
	static const struct rlimit locked = {RLIM_INFINITY, RLIM_INFINITY}, realtime = {1, 1},
	                           nice = {20 - WORKER_NICE, 20 - WORKER_NICE};
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < OPEN_FILES_MAX) {
		files.rlim_max = OPEN_FILES_MAX;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	setrlimit(RLIMIT_MEMLOCK, &locked);
	setrlimit(RLIMIT_RTPRIO, &realtime);
	setrlimit(RLIMIT_NICE, &nice);
	/* a thread may return to the nice value that it was started with; and setting rules must not wait for other
	 * processes */
	setpriority(PRIO_PROCESS, 0, WORKER_NICE);
}

/* --- capabilities --- */

static uint64_t bit(unsigned cap)
{
	return 1ull << cap;
}

int sandbox_check_rights(enum sandbox_need need, char *err, size_t errlen)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	bool admin, raw;

	if (syscall(SYS_capget, &header, data) < 0)
		return 0; /* an operation that lacks rights will report that itself */
	admin = (data[0].effective & bit(CAP_NET_ADMIN)) != 0;
	raw = need == SANDBOX_NEEDS_TO_CLOSE || (data[0].effective & bit(CAP_NET_RAW)) != 0;
	if (admin && raw)
		return 0;
	snprintf(err, errlen,
	         "user %u lacks %s%s%s, for %s%s%s: run it as root, or by `systemctl start longreachd`, which gives "
	         "the service's user these capabilities",
	         (unsigned)geteuid(), admin ? "" : "CAP_NET_ADMIN", admin || raw ? "" : " and ",
	         raw ? "" : "CAP_NET_RAW", admin ? "" : "nft and ip rule", admin || raw ? "" : ", and ",
	         raw ? "" : "packet sockets");
	return -EPERM;
}

/* Limits the capabilities that programs could get by execve(2), if that is permitted. */
static void limit_bounding_set(uint64_t keep)
{
	for (unsigned cap = 0; prctl(PR_CAPBSET_READ, cap) >= 0; cap++)
		if (!(keep & bit(cap)))
			prctl(PR_CAPBSET_DROP, cap);
}

/* Keeps only these of the process's capabilities. */
static int keep_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t mask = (uint32_t)(keep >> 32 * i);

		data[i].permitted &= mask;
		data[i].effective &= mask;
		data[i].inheritable &= mask;
	}
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/* Each thread has its own capabilities. There are threads already if a library was started with rights (lan_engine.h):
 * each drops its capabilities in a handler of this signal, which nothing else uses. */
#define GIVE_AWAY SIGUSR2

static void on_give_away(int sig)
{
	int before = errno;

	(void)sig;
	keep_capabilities(0);
	errno = before;
}

/* /proc/self/task/TID/status has a line of that name with 16 hexadecimal digits. */
static bool thread_has_rights(const char *tid)
{
	unsigned long long permitted = 1;
	char path[64], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/status", tid);
	f = fopen(path, "re");
	if (f == NULL)
		return false; /* it has ended */
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "CapPrm: %llx", &permitted) == 1)
			break;
	fclose(f);
	return permitted != 0;
}

/* Signals each thread that still has capabilities. Returns how many there are. */
static int tell_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = 0;

	if (dir == NULL)
		return -errno;
	for (struct dirent *e; (e = readdir(dir)) != NULL;) {
		long tid = strtol(e->d_name, NULL, 10);

		if (tid <= 0 || !thread_has_rights(e->d_name))
			continue;
		n++;
		if (tid != gettid())
			syscall(SYS_tgkill, getpid(), (pid_t)tid, GIVE_AWAY);
	}
	closedir(dir);
	return n;
}

/* Makes all other threads drop their capabilities; the calling thread has dropped its own. */
static int give_away_in_threads(void)
{
	struct sigaction handler = {.sa_handler = on_give_away, .sa_flags = SA_RESTART}, before;
	int n = -EINVAL;

	sigaction(GIVE_AWAY, &handler, &before);
	for (unsigned tries = 0; tries < GIVE_AWAY_TRIES; tries++) {
		n = tell_threads();
		if (n <= 0)
			break;
		usleep(GIVE_AWAY_WAIT_US);
	}
	sigaction(GIVE_AWAY, &before, NULL);
	return n > 0 ? -EPERM : n;
}

int sandbox_keep_network_rights(const struct sandbox_user *user)
{
	uint64_t keep = bit(CAP_NET_ADMIN) | bit(CAP_NET_BIND_SERVICE) | bit(CAP_NET_RAW) |
	                bit(CAP_SYS_NICE);

	if (user != NULL)
		keep |= bit(CAP_KILL) | bit(CAP_SETUID) | bit(CAP_SETGID);
	limit_bounding_set(keep);
	return keep_capabilities(keep);
}

static int become(const struct sandbox_user *user)
{
	if (setgroups(0, NULL) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
	    setresuid(user->uid, user->uid, user->uid) < 0)
		return -errno;
	/* allows core dumps: secrets and buffers are excluded from them (secret_mem.h, arena_file.c) */
	return prctl(PR_SET_DUMPABLE, 1) < 0 ? -errno : 0;
}

/* --- system calls --- */

static const int calls[] = {
    /* memory */
    SCMP_SYS(brk),
    SCMP_SYS(madvise),
    SCMP_SYS(mbind),
    SCMP_SYS(get_mempolicy),
    SCMP_SYS(mlock),
    SCMP_SYS(mmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(msync),
    SCMP_SYS(munlock),
    SCMP_SYS(munmap),
    /* threads, time, processors */
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(futex),
    SCMP_SYS(getcpu),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(membarrier),
    SCMP_SYS(nanosleep),
    SCMP_SYS(rseq),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_yield),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(time),
    SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime),
    /* who and how much */
    SCMP_SYS(getegid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(getrandom),
    SCMP_SYS(getrlimit),
    SCMP_SYS(getrusage),
    SCMP_SYS(gettid),
    SCMP_SYS(getuid),
    SCMP_SYS(pidfd_open),
    SCMP_SYS(setrlimit),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    /* signals: its own */
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(sigaltstack),
    /* files: link files, keys, buffers, captures, sysfs and procfs */
    SCMP_SYS(access),
    SCMP_SYS(chmod),
    SCMP_SYS(close),
    SCMP_SYS(dup),
    SCMP_SYS(faccessat),
    SCMP_SYS(fallocate),
    SCMP_SYS(fchmod),
    SCMP_SYS(fchmodat),
    SCMP_SYS(fdatasync),
    SCMP_SYS(flock),
    SCMP_SYS(fstat),
    SCMP_SYS(fstatfs),
    SCMP_SYS(fsync),
    SCMP_SYS(ftruncate),
    SCMP_SYS(getdents64),
    SCMP_SYS(lseek),
    SCMP_SYS(lstat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(open),
    SCMP_SYS(openat),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(read),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(readv),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(stat),
    SCMP_SYS(statfs),
    SCMP_SYS(statx),
    SCMP_SYS(umask),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    /* waiting */
    SCMP_SYS(epoll_create),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(epoll_pwait2),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(eventfd2),
    SCMP_SYS(pipe2),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(pselect6),
    SCMP_SYS(select),
    SCMP_SYS(socketpair),
    /* sockets; socket(2) itself is below */
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    SCMP_SYS(bind),
    SCMP_SYS(connect),
    SCMP_SYS(getpeername),
    SCMP_SYS(getsockname),
    SCMP_SYS(getsockopt),
    SCMP_SYS(listen),
    SCMP_SYS(recvfrom),
    SCMP_SYS(recvmmsg),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendfile),
    SCMP_SYS(sendmmsg),
    SCMP_SYS(sendmsg),
    SCMP_SYS(sendto),
    SCMP_SYS(setsockopt),
    SCMP_SYS(shutdown),
};

/* CUDA's driver library needs these as well: found with strace over tests/netns/test_gpu.sh, driver 580 and an H100. Refused
 * are folders and links below /tmp, which it makes for debuggers, and it goes on without. */
static const int calls_gpu[] = {SCMP_SYS(sched_get_priority_max), SCMP_SYS(sched_get_priority_min)};

/* Newer than what this program needs: the C library has another way. */
static const int calls_unknown[] = {SCMP_SYS(clone3), SCMP_SYS(faccessat2), SCMP_SYS(openat2)};

static const int families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

/* SIOCETHTOOL reads the speed of a port; changes by it need a capability. libibverbs uses RDMA_VERBS_IOCTL on
 * /dev/infiniband/uverbs*, which all users may open by mode: raw packet queue pairs need a capability. */
static const unsigned long requests[] = {FIONBIO,      FIONREAD,      TCGETS,     SIOCGIFINDEX, SIOCGIFNAME,
                                         SIOCGIFFLAGS, SIOCGIFHWADDR, SIOCGIFMTU, SIOCETHTOOL,  RDMA_VERBS_IOCTL};

/* prctl(2): its names and timers, and whose death is its own. */
static const scmp_datum_t settings[] = {PR_SET_NAME, PR_SET_PDEATHSIG, PR_SET_TIMERSLACK, PR_SET_VMA};

/* fcntl(2): not who is sent a signal about a descriptor (F_SETOWN), which needs no right to send one. Seals tell the relay
 * what is memory, and so always answers. */
static const int commands[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GET_SEALS};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int allow_if(scmp_filter_ctx f, int call, const struct scmp_arg_cmp *condition)
{
	return seccomp_rule_add_array(f, SCMP_ACT_ALLOW, call, 1, condition);
}

static struct scmp_arg_cmp first_is(scmp_datum_t value)
{
	return (struct scmp_arg_cmp){.arg = 0, .op = SCMP_CMP_EQ, .datum_a = value};
}

static struct scmp_arg_cmp has_bits(unsigned arg, scmp_datum_t mask, scmp_datum_t value)
{
	return (struct scmp_arg_cmp){.arg = arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};
}

static int allow_with_arguments(scmp_filter_ctx f)
{
	struct scmp_arg_cmp threads = has_bits(0, CLONE_THREAD, CLONE_THREAD); /* no processes */
	struct scmp_arg_cmp itself = first_is((scmp_datum_t)getpid());         /* abort(3) */
	struct scmp_arg_cmp caller = first_is(0);                              /* getrlimit(3), the calling thread */
	struct scmp_arg_cmp priority[] = {first_is(PRIO_PROCESS), {.arg = 1, .op = SCMP_CMP_EQ, .datum_a = 0}};
	int r = allow_if(f, SCMP_SYS(clone), &threads);

	if (r == 0)
		r = allow_if(f, SCMP_SYS(tgkill), &itself);
	if (r == 0)
		r = allow_if(f, SCMP_SYS(prlimit64), &caller);
	if (r == 0)
		r = allow_if(f, SCMP_SYS(sched_setaffinity), &caller);
	if (r == 0)
		r = allow_if(f, SCMP_SYS(sched_setattr), &caller);
	if (r == 0)
		r = seccomp_rule_add_array(f, SCMP_ACT_ALLOW, SCMP_SYS(setpriority), COUNT(priority), priority);
	for (unsigned i = 0; i < COUNT(commands) && r == 0; i++) {
		struct scmp_arg_cmp command = has_bits(1, UINT32_MAX, (scmp_datum_t)commands[i]);

		r = allow_if(f, SCMP_SYS(fcntl), &command);
	}
	for (unsigned i = 0; i < COUNT(families) && r == 0; i++) {
		struct scmp_arg_cmp family = first_is((scmp_datum_t)families[i]);

		r = allow_if(f, SCMP_SYS(socket), &family);
	}
	for (unsigned i = 0; i < COUNT(requests) && r == 0; i++) {
		struct scmp_arg_cmp request = has_bits(1, UINT32_MAX, requests[i]);

		r = allow_if(f, SCMP_SYS(ioctl), &request);
	}
	for (unsigned i = 0; i < COUNT(settings) && r == 0; i++) {
		struct scmp_arg_cmp setting = first_is(settings[i]);

		r = allow_if(f, SCMP_SYS(prctl), &setting);
	}
	return r;
}

/* Requests to /dev/nvidia*: those of a GPU are of type 'F' and read and write (nv-ioctl-numbers.h), those of unified memory
 * are small numbers without type or size, but for two (uvm_ioctl.h, uvm_linux_ioctl.h). All have 32 bits.
 *
 * A filter sees no device, so the same numbers pass for others: FBIO_CURSOR of framebuffers (_IOWR('F', 8)),
 * SCSI_IOCTL_SEND_COMMAND to SCSI_IOCTL_STOP_UNIT of disks (1 to 6), FIBMAP and FIGETBSZ of files (1 and 2). The daemon makes
 * none of them. A child that has been taken over could, if it had such a device open: the unit and its drop-in for GPUs
 * (DevicePolicy=closed) let it open no framebuffer and no disk, and FIBMAP needs a capability that the child has not. */
static int allow_gpu(scmp_filter_ctx f)
{
	const struct scmp_arg_cmp requests_gpu[] = {
	    has_bits(1, 0xc000ff00, (scmp_datum_t)_IOC(_IOC_READ | _IOC_WRITE, 'F', 0, 0)),
	    has_bits(1, 0xffffff80, 0),
	    has_bits(1, 0xfffffffc, 0x30000000),
	};
	int r = 0;

	for (unsigned i = 0; i < COUNT(calls_gpu) && r == 0; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls_gpu[i], 0);
	for (unsigned i = 0; i < COUNT(requests_gpu) && r == 0; i++)
		r = allow_if(f, SCMP_SYS(ioctl), &requests_gpu[i]);
	return r;
}

/* A call that this architecture does not have needs no rule. */
static int allow_all(scmp_filter_ctx f, unsigned more)
{
	int r = 0;

	for (unsigned i = 0; i < COUNT(calls) && r == 0; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ALLOW, calls[i], 0);
	for (unsigned i = 0; i < COUNT(calls_unknown) && r == 0; i++)
		r = seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), calls_unknown[i], 0);
	if (r == 0)
		r = allow_with_arguments(f);
	return r == 0 && (more & SANDBOX_GPU) ? allow_gpu(f) : r;
}

static int limit_calls(unsigned more)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = f != NULL ? 0 : -ENOMEM;

	if (r == 0)
		r = seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree: a packet costs system calls */
	if (r == 0)
		r = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1); /* of all threads */
	if (r == 0)
		r = allow_all(f, more);
	if (r == 0)
		r = seccomp_load(f);
	if (f != NULL)
		seccomp_release(f);
	return r;
}

static unsigned allowed = SANDBOX_GPU; /* enum sandbox_more */

bool sandbox_allows(enum sandbox_more what)
{
	return (allowed & what) != 0;
}

int sandbox_enter(const struct sandbox_user *user, unsigned more, char *err, size_t errlen)
{
	int r;

	limit_bounding_set(0);
	r = user != NULL ? become(user) : 0;
	if (r < 0) {
		snprintf(err, errlen, "cannot become the user with number %u: %s", (unsigned)user->uid, strerror(-r));
		return r;
	}
	r = keep_capabilities(0);
	if (r == 0 && !SANITIZED) /* whose own thread hears no signal */
		r = give_away_in_threads();
	if (r < 0) {
		snprintf(err, errlen, "cannot give away capabilities: %s", strerror(-r));
		return r;
	}
	if (SANITIZED) {
		log_warn("built with a sanitizer, which needs system calls of its own: the seccomp filter is off");
		return 0;
	}
	allowed = more;
	r = limit_calls(more);
	if (r < 0)
		snprintf(err, errlen, "cannot limit system calls (seccomp): %s", strerror(-r));
	return r;
}
