/* SPDX-License-Identifier: Apache-2.0 */
/* client_relay.c - the relay from a shell. */
#define _GNU_SOURCE /* memfd_create */
#include "client_relay.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client_gpu.h"
#include "daemon/util/json.h"
#include "daemon/util/units.h"
#include "lib/longreach.h"

/* As longreach(1) promises. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_USAGE = 2, EXIT_NO_RELAY = 3 };

static const char usage[] =
    "usage: longreach put FILE LINK:REGION[+OFFSET] [--notice TEXT] [--promise near|far|done] [--json]\n"
    "       longreach get LINK:REGION[+OFFSET] FILE [--length BYTES] [--json]\n"
    "       longreach export LINK:REGION --file FILE | --shm SIZE | --gpu DEVICE --size SIZE [--access r|w|rw]\n"
    "       longreach regions LINK [--json]\n"
    "       longreach rate LINK [--bytes BYTES] [--json]\n"
    "\n"
    "  put       writes FILE into a region that a program of the other site exports\n"
    "  get       reads a region of the other site, from OFFSET on, into FILE\n"
    "  export    exports a file, or memory of this host or of a GPU, to the other site until interrupted; prints puts' notices\n"
    "  regions   lists the regions that programs of this site export\n"
    "  rate      prints the rate that the link has free now, and the time that BYTES need\n"
    "\n"
    "  --socket PATH    the relay's socket, or rdma:ADDRESS[:PORT] of an edge. Default: /run/longreach/LINK.relay\n";

static const struct option long_options[] = {
    {"notice", required_argument, NULL, 'n'}, {"promise", required_argument, NULL, 'p'},
    {"length", required_argument, NULL, 'l'}, {"file", required_argument, NULL, 'f'},
    {"shm", required_argument, NULL, 'm'},    {"access", required_argument, NULL, 'a'},
    {"gpu", required_argument, NULL, 'g'},    {"size", required_argument, NULL, 'z'},
    {"bytes", required_argument, NULL, 'b'},  {"socket", required_argument, NULL, 's'},
    {"json", no_argument, NULL, 'j'},         {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct request {
	const char *command, *first, *second; /* words */
	const char *notice, *file, *socket;
	enum lr_promise promise;
	uint64_t length, shm, bytes, size, gpu;
	bool has_gpu;
	unsigned access;
	bool json;
};

/* LINK:REGION+OFFSET, taken apart. */
struct place {
	char link[64], region[LR_NAME_MAX];
	uint64_t offset;
};

/* --- what others have named --- */

#define TEXT_BYTE_MAX sizeof("\\x00")
#define NAME_TEXT_MAX (LR_NAME_MAX * TEXT_BYTE_MAX)

/* A byte that a terminal shows as it is, or its number. */
static size_t text_byte(char out[TEXT_BYTE_MAX], unsigned char c)
{
	return (size_t)snprintf(out, TEXT_BYTE_MAX, c < 0x20 || c >= 0x7f || c == '\\' ? "\\x%02x" : "%c", c);
}

/* The name of a region: any program, or RDMA host, may have chosen it. */
static const char *name_text(char out[NAME_TEXT_MAX], const char *name)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < LR_NAME_MAX && name[i]; i++)
		n += text_byte(out + n, (unsigned char)name[i]);
	return out;
}

/* --- the command line --- */

static int bad_usage(const char *what, const char *value)
{
	fprintf(stderr, "longreach: %s%s%s\nTry longreach put --help.\n", what, value ? ": " : "", value ? value : "");
	return EXIT_BAD_USAGE;
}

static bool read_size(const char *text, uint64_t *bytes)
{
	return units_read_count(text, bytes) == 0 || units_read_bytes(text, bytes) == 0;
}

static bool read_promise(const char *text, enum lr_promise *promise)
{
	*promise = strcmp(text, "near") == 0 ? LR_NEAR
	           : strcmp(text, "far") == 0 ? LR_FAR
	           : strcmp(text, "done") == 0 ? LR_DONE
	                                       : LR_LINK;
	return *promise != LR_LINK;
}

static bool read_access(const char *text, unsigned *access)
{
	*access = (strchr(text, 'r') ? LR_PEER_READ : 0) | (strchr(text, 'w') ? LR_PEER_WRITE : 0);
	return *access && strspn(text, "rw") == strlen(text);
}

static bool read_place(const char *text, struct place *p)
{
	const char *colon = strchr(text, ':'), *plus = colon ? strrchr(colon, '+') : NULL;
	size_t link = colon ? (size_t)(colon - text) : 0, region;

	*p = (struct place){0};
	if (!colon || link == 0 || link >= sizeof(p->link))
		return false;
	region = plus ? (size_t)(plus - colon) - 1 : strlen(colon + 1);
	if (region == 0 || region >= sizeof(p->region) || (plus && !read_size(plus + 1, &p->offset)))
		return false;
	memcpy(p->link, text, link);
	memcpy(p->region, colon + 1, region);
	return true;
}

/* -1, or the exit code. */
static int read_options(int argc, char **argv, struct request *r)
{
	int c;
	bool ok = true;

	*r = (struct request){.command = argv[0], .access = LR_PEER_READ | LR_PEER_WRITE};
	optind = 1;
	while (ok && (c = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		switch (c) {
		case 'n':
			r->notice = optarg;
			ok = strlen(optarg) <= LR_NOTICE_MAX;
			break;
		case 'p':
			ok = read_promise(optarg, &r->promise);
			break;
		case 'l':
			ok = read_size(optarg, &r->length);
			break;
		case 'f':
			r->file = optarg;
			break;
		case 'm':
			ok = read_size(optarg, &r->shm) && r->shm > 0;
			break;
		case 'g':
			ok = r->has_gpu = units_read_count(optarg, &r->gpu) == 0 && r->gpu < INT32_MAX;
			break;
		case 'z':
			ok = read_size(optarg, &r->size) && r->size > 0;
			break;
		case 'a':
			ok = read_access(optarg, &r->access);
			break;
		case 'b':
			ok = read_size(optarg, &r->bytes);
			break;
		case 's':
			r->socket = optarg;
			break;
		case 'j':
			r->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_DONE;
		default:
			return bad_usage("unknown option", NULL);
		}
	}
	if (!ok)
		return bad_usage("not a valid value", optarg);
	r->first = optind < argc ? argv[optind] : NULL;
	r->second = optind + 1 < argc ? argv[optind + 1] : NULL;
	if (!r->first || optind + 2 < argc)
		return bad_usage(r->first ? "too many arguments" : "an argument is missing", NULL);
	return -1;
}

/* --- the relay --- */

static struct lr *dial(const struct request *r, const char *link)
{
	struct lr *h = NULL;
	int rc = lr_open(link, r->socket, &h);

	if (rc == 0)
		return h;
	if (rc == -ENOENT || rc == -ECONNREFUSED)
		fprintf(stderr,
		        "longreach: link %s has no relay here: check that longreachd runs and the link file says "
		        "[Relay] Enable=yes\n",
		        link);
	else if (rc == -EACCES)
		fprintf(stderr,
		        "longreach: link %s: not allowed: root and members of [Relay] Group= may use the relay, and by "
		        "RDMA the hosts of RelayAllow=\n",
		        link);
	else
		fprintf(stderr, "longreach: link %s: %s\n", link, strerror(-rc));
	return NULL;
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Shows a progress line on the terminal for operations that take longer. */
static void progress(struct lr *h, double since)
{
	struct lr_rate rate;

	if (!isatty(STDERR_FILENO) || seconds() - since < 2 || lr_rate(h, &rate) < 0)
		return;
	fprintf(stderr, "\r%.0f s, %.1f MiB waiting in this edge, %.2f Gbit/s free  ", seconds() - since,
	        (double)rate.queued_bytes / (1 << 20), (double)rate.free_bps / 1e9);
}

static void report_json(const struct lr_event *ev, const char *promise, double took)
{
	struct json j = {.stream = stdout};

	json_object(&j, NULL);
	json_uint(&j, "status", (uint64_t)ev->status);
	json_string(&j, "text", lr_strerror(ev->status));
	json_string(&j, "promise", promise);
	json_uint(&j, "bytes", ev->bytes);
	json_real(&j, "seconds", took);
	json_object_end(&j);
}

static int report(const struct request *r, const struct lr_event *ev, double took)
{
	static const char *const promise[] = {"", "near", "far", "done"};
	double bps = took > 0 ? (double)ev->bytes * 8 / took : 0;

	if (isatty(STDERR_FILENO) && took >= 2)
		fputc('\n', stderr);
	if (r->json)
		report_json(ev, promise[ev->promise & 3], took);
	else if (ev->status == LR_OK)
		printf("%llu bytes in %.3f s, %.3f Gbit/s (%s)\n", (unsigned long long)ev->bytes, took, bps / 1e9,
		       promise[ev->promise & 3]);
	else
		fprintf(stderr, "longreach: %s\n", lr_strerror(ev->status));
	return ev->status == LR_OK ? EXIT_DONE : EXIT_FAILED;
}

/* Waits until the operation has ended. *bytes: of an operation that ended well. */
static int await(const struct request *r, struct lr *h, int rc, const uint64_t *op, uint64_t *bytes)
{
	double since = seconds();
	struct lr_event ev;

	if (rc < 0) {
		fprintf(stderr, "longreach: %s\n", strerror(-rc));
		return EXIT_FAILED;
	}
	while ((rc = lr_wait(h, &ev, 500)) >= 0) {
		if (rc == 1 && ev.type == LR_EV_DONE && ev.id == *op) {
			*bytes = ev.bytes;
			return report(r, &ev, seconds() - since);
		}
		progress(h, since);
	}
	fprintf(stderr, "longreach: the daemon has ended before the promise: the bytes may or may not have arrived\n");
	return EXIT_NO_RELAY;
}

/* True if the file's size says how many bytes it has: that of a device, a pipe or a file of /proc is 0. */
static bool has_size(int fd, const struct stat *st)
{
	char byte;

	return S_ISREG(st->st_mode) && (st->st_size > 0 || pread(fd, &byte, 1, 0) <= 0);
}

static int put(const struct request *r)
{
	struct lr_transfer t = {.promise = r->promise, .notice = r->notice, .notice_len = r->notice ? strlen(r->notice) : 0};
	struct place to;
	struct stat st;
	uint64_t op = 0, bytes;
	struct lr *h;
	int code;

	if (!r->second || !read_place(r->second, &to))
		return bad_usage("expected LINK:REGION or LINK:REGION+OFFSET", r->second);
	t.fd = open(r->first, O_RDONLY | O_CLOEXEC);
	if (t.fd < 0 || fstat(t.fd, &st) < 0) {
		fprintf(stderr, "longreach: %s: %s\n", r->first, strerror(errno));
		return EXIT_FAILED;
	}
	if (!has_size(t.fd, &st)) {
		fprintf(stderr, "longreach: %s: expected a regular file, as the size of others is not known\n", r->first);
		close(t.fd);
		return EXIT_FAILED;
	}
	t.length = (uint64_t)st.st_size;
	t.region = to.region;
	t.region_offset = to.offset;
	h = dial(r, to.link);
	code = h ? await(r, h, lr_put(h, &t, &op), &op, &bytes) : EXIT_NO_RELAY;
	lr_close(h);
	close(t.fd);
	return code;
}

static int get(const struct request *r)
{
	struct lr_transfer t = {.length = r->length};
	struct place from;
	struct stat st;
	uint64_t op = 0, bytes = 0;
	struct lr *h;
	int code;

	if (!read_place(r->first, &from) || !r->second)
		return bad_usage("expected LINK:REGION or LINK:REGION+OFFSET, and a file", r->first);
	h = dial(r, from.link);
	if (!h)
		return EXIT_NO_RELAY;
	t.fd = open(r->second, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (t.fd < 0) {
		fprintf(stderr, "longreach: %s: %s\n", r->second, strerror(errno));
		lr_close(h);
		return EXIT_FAILED;
	}
	t.region = from.region;
	t.region_offset = from.offset;
	code = await(r, h, lr_get(h, &t, &op), &op, &bytes);
	lr_close(h);
	/* what was there before stays if no region has that name */
	if (code == EXIT_DONE && fstat(t.fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(t.fd, (off_t)bytes) < 0) {
		fprintf(stderr, "longreach: %s: %s\n", r->second, strerror(errno));
		code = EXIT_FAILED;
	}
	close(t.fd);
	return code;
}

/* --- export --- */

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	(void)sig;
	interrupted = 1;
}

static void print_text(const void *data, size_t len)
{
	const unsigned char *p = data;
	char out[TEXT_BYTE_MAX];

	for (size_t i = 0; i < len; i++) {
		text_byte(out, p[i]);
		fputs(out, stdout);
	}
}

static void watch_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

/* Connects again after the daemon was restarted, to export the same memory anew. False: interrupted. */
static bool dial_again(struct lr *h)
{
	static const struct timespec pause = {.tv_nsec = 100000000};

	while (!interrupted) {
		if (lr_reopen(h) == 0)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static int serve_until_signal(struct lr *h)
{
	struct lr_event ev;
	int rc = 0;

	while (!interrupted && (rc = lr_wait(h, &ev, 200)) >= 0) {
		if (rc == 1 && ev.type == LR_EV_LOST) {
			fprintf(stderr, "longreach: %s: %s\n", ev.name, lr_strerror(ev.status));
			if (ev.status == LR_CLIENT_GONE || ev.status == LR_RDMA_FAILED)
				continue; /* of the connection: lr_wait() says that it is over, and the next one may last */
			return EXIT_FAILED;
		}
		if (rc == 0 || ev.type != LR_EV_NOTICE)
			continue;
		printf("%s+%llu %llu ", ev.name, (unsigned long long)ev.offset, (unsigned long long)ev.bytes);
		print_text(ev.data, ev.len);
		putchar('\n');
		fflush(stdout);
	}
	if (rc < 0)
		fprintf(stderr, "longreach: the daemon has ended: waiting until it runs again\n");
	return rc < 0 ? EXIT_NO_RELAY : EXIT_DONE;
}

static int open_region(const struct request *r, uint64_t *size)
{
	int how = r->access == LR_PEER_READ ? O_RDONLY : r->access == LR_PEER_WRITE ? O_WRONLY : O_RDWR, fd;
	struct stat st;

	if (r->shm > 0) {
		fd = memfd_create("longreach", MFD_CLOEXEC);
		*size = r->shm;
		return fd >= 0 && ftruncate(fd, (off_t)r->shm) == 0 ? fd : -1;
	}
	fd = open(r->file, O_RDWR | O_CLOEXEC); /* by RDMA it is mapped */
	if (fd < 0)
		fd = open(r->file, how | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	*size = (uint64_t)st.st_size;
	return fd;
}

/* The exported object: a descriptor, or a GPU's memory. */
struct exported {
	int fd;
	uint64_t size;
	struct client_gpu gpu;
	struct lr_gpu memory;
};

static bool open_exported(const struct request *r, struct exported *x)
{
	char err[160];

	*x = (struct exported){.fd = -1, .size = r->size};
	if (!r->has_gpu) {
		x->fd = open_region(r, &x->size);
		if (x->fd < 0)
			fprintf(stderr, "longreach: %s: %s\n", r->file ? r->file : "memory", strerror(errno));
		return x->fd >= 0;
	}
	if (client_gpu_alloc(&x->gpu, (int)r->gpu, r->size, &x->memory, err, sizeof(err)) == 0)
		return true;
	fprintf(stderr, "longreach: GPU %llu: %s\n", (unsigned long long)r->gpu, err);
	return false;
}

static const char *export_error(const struct request *r, int rc)
{
	if (r->has_gpu && rc == -EOPNOTSUPP)
		return "the link has no [Relay] GPU=yes, or its relay is reached by RDMA";
	if (rc == -EACCES)
		return "not allowed: by RDMA, RelayAllow= of the edge must have export: with this name, and the file must be "
		       "readable and writable; at the socket, the file must be open for the access";
	return r->has_gpu && rc == -ENODEV ? "the daemon finds no such GPU: longreachd's log says why" : strerror(-rc);
}

static int export(const struct request *r)
{
	struct exported x;
	struct place at;
	struct lr *h;
	int rc;

	if (!read_place(r->first, &at) || at.offset)
		return bad_usage("expected LINK:REGION", r->first);
	if ((r->file != NULL) + (r->shm > 0) + r->has_gpu != 1)
		return bad_usage("expected exactly one of --file, --shm and --gpu", NULL);
	if (r->has_gpu != (r->size > 0))
		return bad_usage("--gpu needs --size, and --size needs --gpu", NULL);
	if (!open_exported(r, &x))
		return EXIT_FAILED;
	h = dial(r, at.link);
	if (!h)
		return EXIT_NO_RELAY;
	watch_signals();
	for (;;) {
		rc = r->has_gpu ? lr_export_gpu(h, at.region, &x.memory, r->access)
		                : lr_export(h, at.region, x.fd, 0, x.size, r->access);
		if (rc < 0)
			fprintf(stderr, "longreach: %s: %s\n", at.region, export_error(r, rc));
		else
			fprintf(stderr, "%s: exporting %llu bytes until interrupted\n", at.region,
			        (unsigned long long)x.size);
		rc = rc < 0 ? EXIT_FAILED : serve_until_signal(h);
		if (r->has_gpu && rc != EXIT_NO_RELAY)
			lr_unexport(h, at.region); /* the memory must not be freed before the daemon has released it */
		if (rc != EXIT_NO_RELAY || !dial_again(h))
			break;
	}
	lr_close(h);
	if (x.fd >= 0)
		close(x.fd);
	else
		client_gpu_free(&x.gpu);
	return rc == EXIT_NO_RELAY ? EXIT_DONE : rc;
}

/* --- regions, rate --- */

enum { REGIONS_MAX = 512 };

static const char *access_name(unsigned access)
{
	return access == LR_PEER_READ ? "r" : access == LR_PEER_WRITE ? "w" : "rw";
}

static void regions_json(const struct lr_region *list, int n)
{
	struct json j = {.stream = stdout};

	json_array(&j, NULL);
	for (int i = 0; i < n; i++) {
		json_object(&j, NULL);
		json_string(&j, "name", list[i].name);
		json_string(&j, "access", access_name(list[i].access));
		json_uint(&j, "size", list[i].size);
		json_uint(&j, "written", list[i].bytes_in);
		json_uint(&j, "read", list[i].bytes_out);
		json_object_end(&j);
	}
	json_array_end(&j);
}

static void regions_table(const struct lr_region *list, int n)
{
	char name[NAME_TEXT_MAX];

	printf("%-32s %6s %15s %15s %15s\n", "REGION", "ACCESS", "SIZE", "WRITTEN", "READ");
	for (int i = 0; i < n; i++)
		printf("%-32s %6s %15llu %15llu %15llu\n", name_text(name, list[i].name), access_name(list[i].access),
		       (unsigned long long)list[i].size, (unsigned long long)list[i].bytes_in,
		       (unsigned long long)list[i].bytes_out);
}

static int regions(const struct request *r)
{
	static struct lr_region list[REGIONS_MAX];
	struct lr *h = dial(r, r->first);
	int n = h ? lr_regions(h, list, REGIONS_MAX) : -1;

	lr_close(h);
	if (n < 0)
		return EXIT_NO_RELAY;
	n = n < REGIONS_MAX ? n : REGIONS_MAX;
	if (r->json)
		regions_json(list, n);
	else
		regions_table(list, n);
	return EXIT_DONE;
}

/* Expected duration: half a round trip, plus the waiting bytes and these bytes at the free rate; at least a tenth of
 * the line, because other users make room. */
static double expected_s(const struct lr_rate *rate, uint64_t bytes)
{
	double bps = (double)rate->free_bps > (double)rate->line_bps / 10 ? (double)rate->free_bps : (double)rate->line_bps / 10;

	return (double)rate->rtt_ns / 2e9 + (bps > 0 ? (double)(rate->queued_bytes + bytes) * 8 / bps : 0);
}

static void rate_json(const struct lr_rate *rate, uint64_t bytes)
{
	struct json j = {.stream = stdout};

	json_object(&j, NULL);
	json_uint(&j, "line_bps", rate->line_bps);
	json_uint(&j, "free_bps", rate->free_bps);
	json_uint(&j, "queued_bytes", rate->queued_bytes);
	json_uint(&j, "rtt_ns", rate->rtt_ns);
	json_uint(&j, "bytes", bytes);
	json_real(&j, "expected_s", expected_s(rate, bytes));
	json_string(&j, "computed", "rtt/2 + (queued + bytes) * 8 / max(free, line / 10)");
	json_object_end(&j);
}

static int rate(const struct request *r)
{
	struct lr *h = dial(r, r->first);
	struct lr_rate rate;
	int rc = h ? lr_rate(h, &rate) : -1;

	lr_close(h);
	if (rc < 0)
		return EXIT_NO_RELAY;
	if (r->json)
		rate_json(&rate, r->bytes);
	else
		printf("%.3f Gbit/s of %.3f free, %llu bytes waiting, round trip %.3f ms; %llu bytes need about %.3f s\n",
		       (double)rate.free_bps / 1e9, (double)rate.line_bps / 1e9, (unsigned long long)rate.queued_bytes,
		       (double)rate.rtt_ns / 1e6, (unsigned long long)r->bytes, expected_s(&rate, r->bytes));
	return EXIT_DONE;
}

static const struct {
	const char *name;
	int (*run)(const struct request *r);
} commands[] = {{"put", put}, {"get", get}, {"export", export}, {"regions", regions}, {"rate", rate}};

#define NCOMMANDS (sizeof(commands) / sizeof(commands[0]))

int client_relay_knows(const char *command)
{
	for (size_t i = 0; i < NCOMMANDS; i++)
		if (strcmp(commands[i].name, command) == 0)
			return 1;
	return 0;
}

int client_relay(int argc, char **argv)
{
	struct request r;
	int code = read_options(argc, argv, &r);

	for (size_t i = 0; code < 0 && i < NCOMMANDS; i++)
		if (strcmp(commands[i].name, r.command) == 0)
			code = commands[i].run(&r);
	return code;
}
