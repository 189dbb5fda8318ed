/* SPDX-License-Identifier: Apache-2.0 */
#include "steer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"

#define INGRESS_PRIORITY (-500)
#define FORWARD_PRIORITY (-300)
#define NFT_OUTPUT_MAX   256

extern char **environ;

static bool prefix_is4(const struct ip_prefix *p)
{
	return p->len >= 96 && ip_addr_is4(&p->addr);
}

/* An nft identifier from the link's name. */
static void put_table(FILE *f, const char *family, const struct link_config *c)
{
	fprintf(f, "table %s longreach_", family);
	for (const char *s = c->name; *s; s++) {
		bool plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
		             *s == '_' || *s == '-' || *s == '.';

		fputc(plain ? *s : '_', f);
	}
}

static uint32_t count_family(const struct ip_prefix *p, uint32_t n, bool v4)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < n; i++)
		count += prefix_is4(&p[i]) == v4;
	return count;
}

static void put_prefix(FILE *f, const struct ip_prefix *p)
{
	char text[INET6_ADDRSTRLEN];
	bool v4 = prefix_is4(p);

	inet_ntop(v4 ? AF_INET : AF_INET6, p->addr.b + (v4 ? 12 : 0), text, sizeof(text));
	fprintf(f, "%s/%d", text, v4 ? p->len - 96 : p->len);
}

static void put_match(FILE *f, const char *side, const struct ip_prefix *p, uint32_t n, bool v4)
{
	const char *comma = "";

	fprintf(f, "%s %s { ", v4 ? "ip" : "ip6", side);
	for (uint32_t i = 0; i < n; i++) {
		if (prefix_is4(&p[i]) != v4)
			continue;
		fputs(comma, f);
		put_prefix(f, &p[i]);
		comma = ", ";
	}
	fputs(" } ", f);
}

static void put_drop(FILE *f, const struct ip_prefix *from, uint32_t nfrom, const struct ip_prefix *to, uint32_t nto,
                     bool all_ip)
{
	for (int v4 = 0; v4 <= 1; v4++) {
		if (!count_family(from, nfrom, v4) || !count_family(to, nto, v4))
			continue;
		fputs("\t\t", f);
		put_match(f, "saddr", from, nfrom, v4);
		put_match(f, "daddr", to, nto, v4);
		if (!all_ip)
			fprintf(f, "udp dport %d ", ROCE_UDP_PORT);
		fputs("counter drop\n", f);
	}
}

static bool takes_all_ip(const struct link_config *c)
{
	return config_barrier(c) != BARRIER_OFF;
}

/* "add" first: so that "delete" cannot fail, whether a table of an earlier life is there or not. */
static void put_fresh_table(FILE *f, const char *family, const struct link_config *c)
{
	fputs("add ", f);
	put_table(f, family, c);
	fputs("\ndelete ", f);
	put_table(f, family, c);
	fputc('\n', f);
}

static void put_ingress(FILE *f, const struct link_config *c)
{
	put_table(f, "netdev", c);
	fputs(" {\n", f);
	for (uint32_t i = 0; i < c->nlan_ports; i++) {
		fprintf(f, "\tchain port%u {\n\t\ttype filter hook ingress device \"%s\" priority %d; policy accept;\n",
		        i, c->lan_ports[i], INGRESS_PRIORITY);
		put_drop(f, c->local, c->nlocal, c->remote, c->nremote, takes_all_ip(c));
		fputs("\t}\n", f);
	}
	fputs("}\n", f);
}

/* From the other site RoCEv2 only: an edge there whose barrier is off has its kernel forward all other IP, and one
 * whose barrier is on keeps its own kernel from it. */
static void put_forward(FILE *f, const struct link_config *c)
{
	put_table(f, "inet", c);
	fprintf(f, " {\n\tchain forward {\n\t\ttype filter hook forward priority %d; policy accept;\n",
	        FORWARD_PRIORITY);
	put_drop(f, c->local, c->nlocal, c->remote, c->nremote, takes_all_ip(c));
	put_drop(f, c->remote, c->nremote, c->local, c->nlocal, false);
	fputs("\t}\n}\n", f);
}

enum steer_extent { STEER_NOTHING, STEER_FORWARD, STEER_ALL };

static char *make_script(const struct link_config *c, enum steer_extent extent)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	put_fresh_table(f, "netdev", c);
	put_fresh_table(f, "inet", c);
	if (extent == STEER_ALL)
		put_ingress(f, c);
	if (extent != STEER_NOTHING)
		put_forward(f, c);
	if (fclose(f) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

char *steer_script(const struct link_config *c)
{
	return make_script(c, STEER_ALL);
}

char *steer_removal_script(const struct link_config *c)
{
	return make_script(c, STEER_NOTHING);
}

/* --- running nft --- */

/* An unlinked file with the script, to be nft's input: unlike a pipe it cannot block either side. */
static int script_fd(const char *script)
{
	FILE *f = tmpfile();
	int fd = -1;

	if (!f)
		return -1;
	if (fputs(script, f) >= 0 && fflush(f) == 0 && lseek(fileno(f), 0, SEEK_SET) == 0)
		fd = dup(fileno(f));
	fclose(f);
	return fd;
}

static pid_t spawn_nft(int in, int out)
{
	char *argv[] = {(char *)(uintptr_t) "nft", (char *)(uintptr_t) "-f", (char *)(uintptr_t) "-", NULL};
	posix_spawn_file_actions_t fa;
	pid_t pid;
	int r;

	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&fa, out, STDERR_FILENO);
	r = posix_spawnp(&pid, "nft", &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	errno = r;
	return r ? -1 : pid;
}

/* First line of what nft had to say. */
static void read_complaint(FILE *out, char text[NFT_OUTPUT_MAX])
{
	rewind(out);
	if (!fgets(text, NFT_OUTPUT_MAX, out))
		text[0] = 0;
	text[strcspn(text, "\n")] = 0;
}

/* 0 or negative errno; text says why. */
static int run_nft(const char *script, char text[NFT_OUTPUT_MAX])
{
	FILE *out = tmpfile();
	int in = script_fd(script), status = -1;
	pid_t pid = -1;

	text[0] = 0;
	if (out && in >= 0)
		pid = spawn_nft(in, fileno(out));
	if (pid < 0)
		snprintf(text, NFT_OUTPUT_MAX, "cannot run nft: %s", strerror(errno));
	else if (waitpid(pid, &status, 0) < 0 || status != 0)
		read_complaint(out, text);
	if (in >= 0)
		close(in);
	if (out)
		fclose(out);
	return status == 0 ? 0 : -EIO;
}

static bool has_all_ports(const struct link_config *c)
{
	for (uint32_t i = 0; i < c->nlan_ports; i++)
		if (!if_nametoindex(c->lan_ports[i]))
			return false;
	return true;
}

/* A chain at ingress needs its device, the one at forwarding needs none. */
int steer_install(const struct link_config *c, char *err, size_t errlen)
{
	char *script = make_script(c, has_all_ports(c) ? STEER_ALL : STEER_FORWARD);
	char text[NFT_OUTPUT_MAX];
	int r = script ? run_nft(script, text) : -ENOMEM;

	if (r == -ENOMEM)
		snprintf(err, errlen, "out of memory");
	else if (r < 0)
		snprintf(err, errlen, "cannot keep the kernel from forwarding what this link takes: %s", text);
	free(script);
	return r;
}

void steer_remove(const struct link_config *c)
{
	char *script = steer_removal_script(c);
	char text[NFT_OUTPUT_MAX];

	if (script && run_nft(script, text) < 0)
		log_warn("link %s: nft tables not removed: %s", c->name, text);
	free(script);
}
