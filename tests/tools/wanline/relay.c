// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "ctl.h"
#include "daemon/util/attention.h"
#include "relay.h"
#include "spy.h"
#include "units.h"

#define READ_BUDGET        256u              /* frames taken in before the other direction gets its turn */
#define SHORT_LINE_NS      (300 * NS_PER_US) /* below this a frame that comes in must wake the thread */
#define OVERSLEEP_START_NS (25 * NS_PER_US)
#define OVERSLEEP_MAX_NS   (50 * NS_PER_US)
#define NICE               (-15)

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t relay_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

void relay_options_default(struct relay_options *o)
{
	memset(o, 0, sizeof(*o));
	params_default(o->params);
	o->max_delay_ns = 25 * NS_PER_MS;
	o->grain_ns = 40 * NS_PER_US;
	o->seed = 1;
	o->ring_frames = 4096;
}

static uint64_t memory_for(const struct line_params *p, uint64_t max_delay_ns)
{
	struct line_params most = *p;

	if (most.delay_ns < max_delay_ns)
		most.delay_ns = max_delay_ns;
	return line_mem_needed(&most);
}

int relay_open(struct relay *r, const struct relay_options *o, char *err, size_t err_cap)
{
	memset(r, 0, sizeof(*r));
	memcpy(r->params, o->params, sizeof(r->params));
	r->grain_ns = o->grain_ns;
	r->spy_text = o->spy_text;
	r->oversleep_ns = OVERSLEEP_START_NS;
	r->ctl_fd = r->signal_fd = r->port[0].fd = r->port[1].fd = -1;
	for (int i = 0; i < DIR_COUNT; i++) {
		int rc = port_open(&r->port[i], o->ifname[i], o->ring_frames, err, err_cap);

		if (rc < 0)
			return rc;
		rc = line_init(&r->line[i], &o->params[i], memory_for(&o->params[i], o->max_delay_ns),
		               o->seed * DIR_COUNT + (uint64_t)i);
		if (rc < 0) {
			snprintf(err, err_cap, "no memory for the line");
			return rc;
		}
	}
	if (o->ctl_path != NULL && (r->ctl_fd = ctl_listen(o->ctl_path, err, err_cap)) < 0)
		return r->ctl_fd;
	return 0;
}

void relay_close(struct relay *r)
{
	for (int i = 0; i < DIR_COUNT; i++) {
		port_close(&r->port[i]);
		line_destroy(&r->line[i]);
	}
	if (r->ctl_fd >= 0)
		close(r->ctl_fd);
	if (r->signal_fd >= 0)
		close(r->signal_fd);
}

/* --- moving frames --- */

/* Kernel stamps are wall clock; the line lives on the monotonic one. `real_minus_mono` is fresh from this round. */
static bool take_in(struct relay *r, int dir, uint64_t now_ns, uint64_t real_minus_mono)
{
	struct port *p = &r->port[dir];
	struct line *l = &r->line[dir];
	struct line_frame f;
	uint64_t at_ns;
	bool cut_short;
	uint32_t n;

	for (n = 0; n < READ_BUDGET && port_next(p, &f, &at_ns, &cut_short); n++) {
		at_ns -= real_minus_mono;
		/* Frames come in while we read; only a stepped wall clock explains more than that. */
		if (at_ns > now_ns + NS_PER_S || at_ns + NS_PER_S < now_ns)
			at_ns = now_ns;
		if (cut_short) {
			l->n.in_frames++;
			l->n.in_bytes += f.len;
			l->n.emu_oversize++;
		} else {
			l->n.seen_roce += spy_is_roce(&f);
			l->n.seen_text += spy_holds(&f, r->spy_text);
			line_push(l, at_ns, &f);
		}
		port_done(p);
	}
	return n == READ_BUDGET;
}

static bool send_due(struct relay *r, int dir, uint64_t now_ns)
{
	struct line *l = &r->line[dir];
	struct line_out out[PORT_BATCH];
	uint32_t n = line_pop(l, now_ns, out, PORT_BATCH), sent;
	uint64_t end_ns;

	if (n == 0) {
		line_release(l);
		return false;
	}
	sent = port_send(&r->port[1 - dir], out, n);
	end_ns = relay_now_ns();
	for (uint32_t i = 0; i < sent; i++)
		hist_add(&r->late[dir], end_ns - out[i].due_ns);
	for (uint32_t i = sent; i < n; i++) {
		l->n.emu_send_errors++;
		l->n.out_frames--;
		l->n.out_bytes -= out[i].len;
	}
	line_release(l);
	return n == PORT_BATCH;
}

/* Wall clock minus monotonic. Read until nothing came between the two clocks, and with the monotonic one last: an
 * interruption then makes a stamp too late, never too early. */
static uint64_t clock_offset(uint64_t *now_ns)
{
	uint64_t before_ns, real_ns;

	for (int tries = 0; tries < 4; tries++) {
		before_ns = relay_now_ns();
		real_ns = clock_ns(CLOCK_REALTIME);
		*now_ns = relay_now_ns();
		if (*now_ns - before_ns < NS_PER_US)
			break;
	}
	return real_ns - *now_ns;
}

/* True if there is more to do at once. */
static bool round_trip(struct relay *r)
{
	uint64_t now_ns, offset = clock_offset(&now_ns);
	bool more = false;

	for (int i = 0; i < DIR_COUNT; i++)
		more |= take_in(r, i, now_ns, offset);
	for (int i = 0; i < DIR_COUNT; i++)
		more |= send_due(r, i, relay_now_ns());
	return more;
}

/* --- sleeping --- */

static uint64_t next_due(const struct relay *r)
{
	uint64_t a = line_next_due(&r->line[DIR_AB]), b = line_next_due(&r->line[DIR_BA]);

	return a < b ? a : b;
}

static bool is_short(const struct relay *r)
{
	return r->line[DIR_AB].p.delay_ns < SHORT_LINE_NS || r->line[DIR_BA].p.delay_ns < SHORT_LINE_NS;
}

/* An interface that went down may come up again; one that is gone ends the line. */
static void handle_port_error(struct relay *r, struct port *p)
{
	if (port_gone(p)) {
		fprintf(stderr, "wanline: %s is gone\n", p->name);
		r->stop = true;
	}
}

static void handle_fds(struct relay *r, const struct pollfd *pfd)
{
	struct signalfd_siginfo si;

	if (pfd[0].revents & POLLIN)
		ctl_answer(r, r->ctl_fd);
	if ((pfd[1].revents & POLLIN) && read(r->signal_fd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGUSR1)
			relay_json(r, stderr);
		else
			r->stop = true;
	}
	for (int i = 0; i < DIR_COUNT; i++)
		if (pfd[2 + i].revents & (POLLERR | POLLHUP | POLLNVAL))
			handle_port_error(r, &r->port[i]);
}

/* Sleeps until wake_ns (LINE_NEVER: for ever) or until something comes in. */
static void sleep_until(struct relay *r, uint64_t wake_ns, bool with_ports)
{
	struct pollfd pfd[4] = {
	    {r->ctl_fd, POLLIN, 0}, {r->signal_fd, POLLIN, 0}, {r->port[0].fd, POLLIN, 0}, {r->port[1].fd, POLLIN, 0}};
	uint64_t now_ns = relay_now_ns(), for_ns = 0, over_ns;
	struct timespec ts;
	int rc;

	if (wake_ns > now_ns + r->oversleep_ns)
		for_ns = wake_ns - now_ns - r->oversleep_ns;
	if (for_ns > NS_PER_S / 5)
		for_ns = NS_PER_S / 5; /* to look at the stop flag */
	ts.tv_sec = 0;
	ts.tv_nsec = (long)for_ns;
	rc = ppoll(pfd, with_ports ? 4 : 2, &ts, NULL);
	if (rc > 0)
		handle_fds(r, pfd);
	if (rc != 0 || for_ns == 0)
		return;
	over_ns = relay_now_ns() - now_ns - for_ns;
	if (over_ns < OVERSLEEP_MAX_NS)
		r->oversleep_ns = (r->oversleep_ns * 15 + over_ns) / 16;
}

static void rest(struct relay *r)
{
	uint64_t now_ns = relay_now_ns(), due_ns = next_due(r), wake_ns = due_ns;
	bool with_ports = is_short(r);

	if (due_ns == LINE_NEVER || due_ns > now_ns + SHORT_LINE_NS)
		with_ports = true;
	else if (!with_ports && wake_ns < now_ns + r->grain_ns)
		wake_ns = now_ns + r->grain_ns;
	sleep_until(r, wake_ns, with_ports);
	/* Woken by the clock, a few microseconds early on purpose. */
	while (!with_ports && relay_now_ns() < wake_ns)
		;
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void relay_run(struct relay *r, uint64_t run_ns)
{
	if (r->stop_flag == NULL)
		r->signal_fd = open_signals();
	attention_ask(NICE);
	r->start_ns = relay_now_ns();
	while (!r->stop && (r->stop_flag == NULL || !*r->stop_flag)) {
		if (!round_trip(r))
			rest(r);
		if (run_ns != 0 && relay_now_ns() - r->start_ns > run_ns)
			break;
	}
}

/* --- changes while running --- */

bool relay_set(struct relay *r, const char *key, const char *value, char err[PARAMS_ERR_MAX])
{
	struct line_params p[DIR_COUNT];

	memcpy(p, r->params, sizeof(p));
	if (!params_set(p, key, value, err))
		return false;
	for (int i = 0; i < DIR_COUNT; i++) {
		if (line_mem_needed(&p[i]) <= r->line[i].mem_size)
			continue;
		snprintf(err, PARAMS_ERR_MAX,
		         "%s: this line would hold %llu MiB, it was started with %llu; see --max-delay", key,
		         (unsigned long long)(line_mem_needed(&p[i]) >> 20),
		         (unsigned long long)(r->line[i].mem_size >> 20));
		return false;
	}
	memcpy(r->params, p, sizeof(p));
	for (int i = 0; i < DIR_COUNT; i++)
		r->line[i].p = p[i];
	return true;
}

void relay_cut(struct relay *r, int dir, bool cut)
{
	r->line[dir].cut = cut;
}

/* --- reports --- */

static void gather_drops(struct relay *r)
{
	for (int i = 0; i < DIR_COUNT; i++)
		r->line[i].n.emu_ring_drops += port_drops(&r->port[i]);
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static void direction_json(const struct relay *r, int dir, FILE *f)
{
	const struct line *l = &r->line[dir];
	const struct hist *h = &r->late[dir];

	fprintf(f, "\"%s\":{", dir == DIR_AB ? "ab" : "ba");
#define X(name, help) fprintf(f, "\"" #name "\":%llu,", (unsigned long long)l->n.name);
	LINE_COUNTERS(X)
#undef X
	fprintf(f, "\"held\":%llu,\"cut\":%s,\"delay_us\":%.1f,\"queue_peak_us\":%.1f,", (unsigned long long)l->held,
	        l->cut ? "true" : "false", us(l->p.delay_ns), us(l->queue_peak_ns));
	fprintf(f, "\"late_us\":{\"p50\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}}", us(hist_quantile(h, 0.5)),
	        us(hist_quantile(h, 0.99)), us(hist_quantile(h, 0.999)), us(h->max_ns));
}

void relay_json(struct relay *r, FILE *f)
{
	gather_drops(r);
	fprintf(f, "{\"seconds\":%.3f,", (double)(relay_now_ns() - r->start_ns) / 1e9);
	direction_json(r, DIR_AB, f);
	fprintf(f, ",");
	direction_json(r, DIR_BA, f);
	fprintf(f, "}\n");
	fflush(f);
}

static uint64_t own_losses(const struct line *l)
{
	return l->n.emu_no_room + l->n.emu_oversize + l->n.emu_send_errors + l->n.emu_ring_drops;
}

void relay_report(struct relay *r, FILE *f)
{
	static const char *const arrow[DIR_COUNT] = {"a>b", "b>a"};

	gather_drops(r);
	for (int i = 0; i < DIR_COUNT; i++) {
		const struct line *l = &r->line[i];
		const struct hist *h = &r->late[i];

		fprintf(f,
		        "wanline %s: %llu frames in, %llu out; lost %llu at random, %llu in the queue, %llu to a cut; "
		        "sent late by %.0f us (median), %.0f (99 %%), %.0f (worst)\n",
		        arrow[i], (unsigned long long)l->n.in_frames, (unsigned long long)l->n.out_frames,
		        (unsigned long long)l->n.lost_random, (unsigned long long)l->n.lost_queue,
		        (unsigned long long)l->n.lost_cut, us(hist_quantile(h, 0.5)), us(hist_quantile(h, 0.99)),
		        us(h->max_ns));
		if (own_losses(l) > 0)
			fprintf(
			    f,
			    "wanline %s: LOST BY THE EMULATOR ITSELF: %llu no memory, %llu too long (offloads on?), "
			    "%llu refused by the kernel, %llu not read in time\n",
			    arrow[i], (unsigned long long)l->n.emu_no_room, (unsigned long long)l->n.emu_oversize,
			    (unsigned long long)l->n.emu_send_errors, (unsigned long long)l->n.emu_ring_drops);
		if (r->port[i].csum_seen)
			fprintf(f,
			        "wanline %s: %s: checksums came unfinished and were finished here (ethtool -K ... tx "
			        "off)\n",
			        arrow[i], r->port[i].name);
	}
	fflush(f);
}
