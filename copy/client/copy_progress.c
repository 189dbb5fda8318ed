/* SPDX-License-Identifier: Apache-2.0 */
#include "copy_progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "daemon/util/json.h"

#define EVERY_S 0.2 /* a line */
#define RATE_S  1.0 /* that the rate is of */

double progress_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

void progress_begin(struct progress *p, const struct copy_options *o)
{
	p->shown = false;
	p->began = p->line_s = progress_seconds();
	p->shown_at = o->progress ? 0 : -1;
}

void progress_hide(struct progress *p)
{
	if (p->shown)
		fputs("\r\033[K", stderr);
	p->shown = false;
}

static void bytes_text(char *out, size_t cap, double bytes)
{
	static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
	size_t i = 0;

	while (bytes >= 1000 && i + 1 < sizeof(unit) / sizeof(unit[0])) {
		bytes /= 1000;
		i++;
	}
	snprintf(out, cap, i ? "%.2f %s" : "%.0f %s", bytes, unit[i]);
}

static void work_out_rate(struct progress *p, double now)
{
	double past = now - p->line_s, rate;

	if (past < RATE_S)
		return;
	rate = p->bytes > p->line_bytes ? (double)(p->bytes - p->line_bytes) / past : 0;
	p->rate = p->rate > 0 ? 0.5 * p->rate + 0.5 * rate : rate;
	p->line_s = now;
	p->line_bytes = p->bytes;
}

void progress_show(struct progress *p, const char *waiting)
{
	double now = progress_seconds(), left;
	char done[24], rate[24];

	if (p->shown_at < 0 || now - p->shown_at < EVERY_S)
		return;
	p->shown_at = now;
	work_out_rate(p, now);
	bytes_text(done, sizeof(done), (double)p->bytes);
	bytes_text(rate, sizeof(rate), p->rate);
	fprintf(stderr, "\r\033[K%s", done);
	if (p->all_bytes > 0)
		fprintf(stderr, " %3.0f%%", 100.0 * (double)p->bytes / (double)p->all_bytes);
	fprintf(stderr, "  %s/s  %llu", rate, (unsigned long long)p->files);
	if (p->all_files > 0)
		fprintf(stderr, " of %llu", (unsigned long long)p->all_files);
	fputs(" files", stderr);
	left = p->rate > 0 && p->all_bytes > p->bytes ? (double)(p->all_bytes - p->bytes) / p->rate : 0;
	if (waiting)
		fprintf(stderr, "  waiting for %s", waiting);
	else if (left > 0)
		fprintf(stderr, "  %.0f:%02.0f:%02.0f left", (double)(int)(left / 3600),
		        (double)((int)(left / 60) % 60), (double)((int)left % 60));
	fflush(stderr);
	p->shown = true;
}

static void write_json(const struct progress *p, const struct copy_options *o, int code, double took)
{
	struct json j = {.stream = stdout};

	json_object(&j, NULL);
	json_uint(&j, "exit_code", (uint64_t)code);
	json_bool(&j, "dry_run", o->dry_run);
	json_uint(&j, "files", p->files);
	json_uint(&j, "bytes", p->bytes);
	json_uint(&j, "files_copied", p->copied);
	json_uint(&j, "files_unchanged", p->unchanged);
	json_uint(&j, "hard_links", p->links);
	json_uint(&j, "removed", p->removed);
	json_uint(&j, "skipped", p->skipped);
	json_uint(&j, "vanished", p->vanished);
	json_uint(&j, "errors", p->errors);
	json_uint(&j, "sent_bytes", p->sent);
	json_uint(&j, "present_bytes", p->present);
	json_uint(&j, "sent_again_bytes", p->again);
	json_uint(&j, "interruptions", p->interruptions);
	json_real(&j, "seconds", took);
	json_object_end(&j);
	putchar('\n');
}

void progress_end(struct progress *p, const struct copy_options *o, int code)
{
	double took = progress_seconds() - p->began;
	char sent[24], rate[24];

	progress_hide(p);
	if (o->json) {
		write_json(p, o, code, took);
		return;
	}
	bytes_text(sent, sizeof(sent), (double)p->sent);
	bytes_text(rate, sizeof(rate), took > 0 ? (double)p->sent / took : 0);
	printf("%llu files copied, %llu unchanged, %llu removed; %s sent in %.2f s, %s/s",
	       (unsigned long long)p->copied, (unsigned long long)p->unchanged, (unsigned long long)p->removed, sent,
	       took, rate);
	if (p->present > 0) {
		bytes_text(sent, sizeof(sent), (double)p->present);
		printf("; %s were there from an earlier try", sent);
	}
	if (p->again > 0) {
		bytes_text(sent, sizeof(sent), (double)p->again);
		printf("; %s sent twice", sent);
	}
	puts(o->dry_run ? " (dry run)" : "");
}

void progress_name(char *out, size_t cap, const char *name)
{
	size_t n = 0;

	for (const unsigned char *c = (const unsigned char *)name; *c && n + 5 < cap; c++) {
		if (*c < 0x20 || *c == 0x7f || *c == '\\')
			n += (size_t)snprintf(out + n, cap - n, "\\%03o", *c);
		else
			out[n++] = (char)*c;
	}
	out[n] = '\0';
}
