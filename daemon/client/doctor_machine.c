/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_machine.c - the doctor's checks of files, memory and settings of the kernel. */
#include "doctor.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/x509.h>

#include "daemon/config/link_plan.h"
#include "daemon/machine/config_machine.h"
#include "daemon/machine/lsm.h"
#include "daemon/machine/machine.h"
#include "daemon/util/units.h"
#include "headroom/apply.h"
#include "headroom/audit.h"

#define CERT_DAYS     30             /* as in the daemon's own warning */
#define HUGE_RATE_BPS 10000000000ull /* from this rate on small pages cost a core noticeable time */
#define ROCE_HEADERS  80             /* IPv6, UDP, BTH, RETH and ICRC around a packet's payload */

/* --- the link file --- */

/* Reports every error that fn adds to the reading. */
static void tell_errors(struct doctor *d, const struct doctor_link *l,
                        void (*fn)(const struct link_config *c, struct config_reading *r), const char *todo)
{
	struct config_reading *r = l->reading;
	uint32_t from = r->nerrors;

	if (!l->has_config)
		return;
	fn(&l->config, r);
	for (uint32_t i = from; i < r->nerrors; i++)
		doctor_find(d, "%s\n%s", r->error[i], todo);
	r->nerrors = from; /* each check tells its own */
}

void doctor_link_file(struct doctor *d, const struct doctor_link *l)
{
	for (uint32_t i = 0; i < l->reading->nerrors; i++)
		doctor_find(d, "%s\ncorrect the link file and run `longreach reload`", l->reading->error[i]);
	tell_errors(d, l, config_check_more, "put the file right and run `longreach reload`");
}

void doctor_wan_port(struct doctor *d, const struct doctor_link *l)
{
	tell_errors(d, l, config_machine_paths, "put the interface or the file right");
}

void doctor_lan_port(struct doctor *d, const struct doctor_link *l)
{
	if (l->now != NULL && strcmp(j_text(l->now, "state"), "port") == 0)
		doctor_find(d, "%s\nbring the interface or the address back: the link then works again at once",
		            j_text(l->now, "error"));
	tell_errors(d, l, config_machine_lan_ports, "put the interface or the file right");
}

/* --- MTU --- */

void doctor_lan_mtu(struct doctor *d, const struct doctor_link *l)
{
	const struct json_object *flows = j_get(l->now, "flows"), *f;
	uint64_t pmtu = 0;

	for (size_t i = 0; (f = j_at(flows, i)) != NULL; i++)
		if (j_uint(f, "pmtu") > pmtu)
			pmtu = j_uint(f, "pmtu");
	for (uint32_t i = 0; l->has_config && i < l->config.nlan_ports && pmtu > 0; i++) {
		struct machine_port p;

		if (machine_port_read(l->config.lan_ports[i], &p) && p.mtu < pmtu + ROCE_HEADERS)
			doctor_find(d,
			            "LAN port %s has MTU %u, too small for queue pairs with a path MTU of %" PRIu64
			            "\nrun `ip link set dev %s mtu 9000`, and raise the MTU of the switch port",
			            l->config.lan_ports[i], p.mtu, pmtu, l->config.lan_ports[i]);
	}
}

/* --- memory --- */

static bool is_huge(const struct link_config *c)
{
	struct machine_fs fs;

	return machine_fs_read(c->arena_dir, &fs) == 0 && fs.kind == MACHINE_FS_HUGE;
}

void doctor_huge_pages(struct doctor *d, const struct doctor_link *l)
{
	const struct link_config *c = &l->config;
	char t[UNITS_TEXT_MAX];

	if (!l->has_config || !config_is_sound(l->reading, "Directory"))
		return;
	if (is_huge(c))
		tell_errors(d, l, config_machine_buffer,
		            "run `sysctl vm.nr_hugepages=N`, and write it into /etc/sysctl.d for the next boot");
	else if (config_rate_bps(c) >= HUGE_RATE_BPS)
		doctor_find(d,
		            "the buffer of a line of %s uses small pages, as %s is not on hugetlbfs\nmount hugetlbfs "
		            "and name the mount in Directory=, see longreachd(8)",
		            units_show_rate(t, (double)config_rate_bps(c)), c->arena_dir);
}

void doctor_buffer_memory(struct doctor *d, const struct doctor_link *l)
{
	if (l->has_config && !is_huge(&l->config))
		tell_errors(d, l, config_machine_buffer, "make room, or correct Directory= and Size=");
}

/* A line of a /proc file that begins with the word: the number behind it. */
static bool number_behind(const char *path, const char *word, uint64_t *value)
{
	FILE *f = fopen(path, "re");
	char line[256];
	bool found = false;

	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
		found = strncmp(line, word, strlen(word)) == 0 && sscanf(line + strlen(word), "%" SCNu64, value) == 1;
	if (f != NULL)
		fclose(f);
	return found;
}

static bool there_is_swap(void)
{
	FILE *f = fopen("/proc/swaps", "re");
	char line[256];
	int lines = 0;

	while (f != NULL && lines < 2 && fgets(line, sizeof(line), f) != NULL)
		lines++;
	if (f != NULL)
		fclose(f);
	return lines > 1;
}

/* Checks the memlock limit of the whole process, which its links share. Huge pages are never swapped. */
void doctor_memlock(struct doctor *d, const struct doctor_link *l)
{
	char path[64], t[2][UNITS_TEXT_MAX];
	uint64_t locked_kib, wanted;

	if (doctor_daemon(d) == 0 || !l->has_config || l->now == NULL || is_huge(&l->config) || !there_is_swap())
		return;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)doctor_daemon(d));
	wanted = config_machine_buffer_taken(
	    &l->config); /* a link that runs may have another buffer than its file asks for */
	if (number_behind(path, "VmLck:", &locked_kib) && locked_kib * 1024 < wanted)
		doctor_find(d,
		            "this machine has swap, and the buffer can be swapped out: only %s of %s are locked into "
		            "memory\nset LimitMEMLOCK=infinity in the unit (the shipped unit has it), or use hugetlbfs",
		            units_show_bytes(t[0], (double)locked_kib * 1024), units_show_bytes(t[1], (double)wanted));
}

/* --- NUMA --- */

/* True if a list such as 0-3,8 contains the number. */
static bool list_has(const char *list, int n)
{
	int from, to, len;

	while (sscanf(list, "%d%n", &from, &len) == 1) {
		list += len;
		to = from;
		if (*list == '-' && sscanf(list + 1, "%d%n", &to, &len) == 1)
			list += 1 + len;
		if (n >= from && n <= to)
			return true;
		if (*list++ != ',')
			break;
	}
	return false;
}

static int64_t node_of_port(const char *ifname)
{
	char path[96];
	int64_t node;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device/numa_node", ifname);
	return machine_number(path, &node) ? node : -1;
}

static bool cpus_of_node(int64_t node, char *list, size_t cap)
{
	char path[96];
	FILE *f;
	bool ok;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%" PRId64 "/cpulist", node);
	f = fopen(path, "re");
	ok = f != NULL && fgets(list, (int)cap, f) != NULL;
	if (f != NULL)
		fclose(f);
	if (ok)
		list[strcspn(list, "\n")] = '\0';
	return ok;
}

void doctor_numa(struct doctor *d, const struct doctor_link *l)
{
	const struct link_config *c = &l->config;
	char list[512];

	for (uint32_t i = 0; l->has_config && i < c->nlan_ports; i++) {
		int64_t node = node_of_port(c->lan_ports[i]);

		if (node < 0 || !cpus_of_node(node, list, sizeof(list)))
			continue;
		for (uint32_t w = 0; w < c->ncpus; w++) {
			if (list_has(list, c->cpus[w]))
				continue;
			doctor_find(d,
			            "CPUs=%d is on another NUMA node than LAN port %s, which is on node %" PRId64
			            ": every packet crosses between the nodes\nset CPUs= to CPUs of that node: %.100s",
			            c->cpus[w], c->lan_ports[i], node, list);
		}
	}
}

/* --- certificates and clocks --- */

static X509 *read_certificate(const char *path)
{
	FILE *f = path[0] != '\0' ? fopen(path, "re") : NULL;
	X509 *cert = f != NULL ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;

	if (f != NULL)
		fclose(f);
	return cert;
}

/* Seconds from now until then; negative: it is past. */
static int64_t seconds_until(const ASN1_TIME *then)
{
	int days, seconds;

	return ASN1_TIME_diff(&days, &seconds, NULL, then) == 1 ? (int64_t)days * 86400 + seconds : INT64_MAX;
}

static void look_at_end(struct doctor *d, const char *key, const char *path, const X509 *cert)
{
	int64_t left = seconds_until(X509_get0_notAfter(cert));

	if (left == INT64_MAX || left >= CERT_DAYS * 86400)
		return;
	if (left < 0)
		doctor_find(d,
		            "%s=%s expired %" PRId64 " days ago\nmake a new set with `longreach keygen --renew`, copy "
		                                     "it to both edges, and run `longreach reload` there",
		            key, path, -left / 86400);
	else
		doctor_find(d,
		            "%s=%s expires in %" PRId64 " days\nmake a new set with `longreach keygen --renew`, copy "
		                                        "it to both edges, and run `longreach reload` there",
		            key, path, left / 86400);
}

void doctor_certificate(struct doctor *d, const struct doctor_link *l)
{
	const struct {
		const char *key, *path;
	} files[] = {{"Certificate", l->config.certificate_file}, {"CA", l->config.ca_file}};

	for (int i = 0; i < 2 && l->has_config; i++) {
		X509 *cert = read_certificate(files[i].path);

		if (cert != NULL)
			look_at_end(d, files[i].key, files[i].path, cert);
		else if (files[i].path[0] != '\0' && access(files[i].path, R_OK) < 0 && errno == EACCES)
			doctor_cannot(d, "%s: %s: run it as root", files[i].path, strerror(EACCES));
		X509_free(cert);
	}
}

/* A certificate that is not valid yet shows that this machine's clock is behind: there is no other clock to compare
 * with. */
void doctor_clock(struct doctor *d, const struct doctor_link *l)
{
	X509 *cert = l->has_config ? read_certificate(l->config.certificate_file) : NULL;
	int64_t ahead = cert != NULL ? seconds_until(X509_get0_notBefore(cert)) : 0;
	char now[32];
	time_t t = time(NULL);
	struct tm utc;

	X509_free(cert);
	if (ahead <= 0 || ahead == INT64_MAX)
		return;
	gmtime_r(&t, &utc);
	strftime(now, sizeof(now), "%Y-%m-%d %H:%M:%S UTC", &utc);
	doctor_find(d,
	            "this machine's clock is at %s, %" PRId64
	            " s before Certificate=%s becomes valid\nset the clock (chrony, systemd-timesyncd) here, or that "
	            "of the machine that made the certificate",
	            now, ahead, l->config.certificate_file);
}

/* --- the kernel's settings --- */

static bool has_family(const struct link_config *c, bool ip4)
{
	for (uint32_t i = 0; i < c->nlocal; i++)
		if (ip_prefix_is4(&c->local[i]) == ip4)
			return true;
	return false;
}

void doctor_ip_forward(struct doctor *d, const struct doctor_link *l)
{
	static const struct {
		bool ip4;
		const char *path, *name;
	} settings[] = {{true, "/proc/sys/net/ipv4/ip_forward", "net.ipv4.ip_forward"},
	                {false, "/proc/sys/net/ipv6/conf/all/forwarding", "net.ipv6.conf.all.forwarding"}};
	int64_t value;

	for (int i = 0; i < 2 && l->has_config; i++)
		if (has_family(&l->config, settings[i].ip4) && machine_number(settings[i].path, &value) && value == 0)
			doctor_find(d,
			            "%s is 0: the link carries RoCE, and the kernel forwards no other IP of the hosts "
			            "(ping, TCP, NCCL's bootstrap)\nrun `sysctl -w %s=1`, and write it into "
			            "/etc/sysctl.d for the next boot",
			            settings[i].name, settings[i].name);
}

/* True if an offload with its own ethtool request is on. False: it is off, or cannot be read. */
static bool offload_is_on(int fd, const char *ifname, uint32_t request, uint32_t mask)
{
	struct ethtool_value v = {.cmd = request};
	struct ifreq ifr = {0};

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
	ifr.ifr_data = (char *)&v;
	return ioctl(fd, SIOCETHTOOL, &ifr) == 0 && (v.data & mask) != 0;
}

/* The daemon switches them off when it starts. */
void doctor_offloads(struct doctor *d, const struct doctor_link *l)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	for (uint32_t i = 0; fd >= 0 && l->has_config && j_get(l->now, "counters") != NULL && i < l->config.nlan_ports;
	     i++) {
		const char *name = l->config.lan_ports[i];
		bool gro = offload_is_on(fd, name, ETHTOOL_GGRO, UINT32_MAX);
		bool lro = offload_is_on(fd, name, ETHTOOL_GFLAGS, ETH_FLAG_LRO);

		if (gro || lro)
			doctor_find(
			    d,
			    "LAN port %s joins packets (%s%s%s): the edge drops joined packets, as no host sent "
			    "them\nrun `ethtool -K %s gro off lro off`, and find out which program switches it on",
			    name, gro ? "GRO" : "", gro && lro ? " and " : "", lro ? "LRO" : "", name);
	}
	if (fd >= 0)
		close(fd);
}

static void say_audit(void *arg, const char *text)
{
	doctor_find(arg, "LAN port %s", text);
}

/* Compares the configured PFC with the computed one. A port without DCB has no PFC. */
void doctor_pfc(struct doctor *d, const struct doctor_link *l)
{
	for (uint32_t i = 0; l->has_config && i < l->config.nlan_ports; i++) {
		const char *name = l->config.lan_ports[i];
		struct audit_port p = {.dev = name, .pfc_wanted = (int)l->config.pfc - 1, .pauses = apply_pauses(name)};
		struct machine_port port;
		char path[96];
		int64_t mbps;

		if (!machine_port_read(name, &port))
			continue;
		p.mtu = port.mtu;
		snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
		if (machine_number(path, &mbps) && mbps > 0)
			p.rate_bps = (uint64_t)mbps * 1000000u;
		if (audit_read(&p) < 0)
			p.is = (struct dcb_settings){0};
		audit(&p, say_audit, d);
	}
}

/* True if the port's RDMA device has a RoCE GID: then the NIC takes UDP 4791 before any program sees it. */
static bool roce_is_on(const char *ifname)
{
	char pattern[128], type[32] = "";
	glob_t found;
	bool on = false;

	snprintf(pattern, sizeof(pattern), "/sys/class/net/%s/device/infiniband/*/ports/*/gid_attrs/types/*", ifname);
	if (glob(pattern, 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc && !on; i++) {
		FILE *f = fopen(found.gl_pathv[i], "re");

		on = f != NULL && fgets(type, sizeof(type), f) != NULL && strstr(type, "RoCE") != NULL;
		if (f != NULL)
			fclose(f);
	}
	globfree(&found);
	return on;
}

void doctor_enable_roce(struct doctor *d, const struct doctor_link *l)
{
	for (uint32_t i = 0; l->has_config && i < l->config.nlan_ports; i++)
		if (roce_is_on(l->config.lan_ports[i]))
			doctor_find(d,
			            "RoCE is on in the NIC of LAN port %s, which takes UDP 4791 before the edge sees "
			            "it\nrun `devlink dev param set pci/... name enable_roce value false cmode "
			            "driverinit` and `devlink dev reload pci/...`",
			            l->config.lan_ports[i]);
}

/* --- SELinux and AppArmor --- */

static void tell_denial(struct doctor *d, const struct lsm_denial *n, const char *label)
{
	char last[32];
	time_t t = (time_t)n->last_unix_s;
	struct tm utc;

	gmtime_r(&t, &utc);
	strftime(last, sizeof(last), "%Y-%m-%d %H:%M:%S UTC", &utc);
	if (n->selinux)
		doctor_find(d,
		            "SELinux refused longreachd: %s, %u times, last at %s; it was %s%s%s\n`ausearch -m avc -c "
		            "longreachd | audit2allow -w` says which rule is missing: install a module with this rule, "
		            "or run `restorecon -v` on a file with a wrong label, and restart longreachd",
		            n->what, n->times, last, n->whose, label[0] != '\0' ? " and is " : "", label);
	else
		doctor_find(d,
		            "AppArmor refused longreachd: %s, %u times, last at %s; by profile %s%s%s\nallow it in the "
		            "profile in /etc/apparmor.d, run `apparmor_parser -r` on that file, and restart longreachd",
		            n->what, n->times, last, n->whose, label[0] != '\0' ? "; it runs as " : "", label);
}

void doctor_lsm(struct doctor *d, const struct doctor_link *l)
{
	static struct lsm_report r;

	(void)l;
	lsm_read(&r, "", doctor_daemon(d), (uint64_t)time(NULL));
	for (unsigned i = 0; i < r.n; i++)
		tell_denial(d, &r.denial[i], r.label);
	if (r.others > 0)
		doctor_find(
		    d, "and %u more refusals of %s to longreachd\nread `ausearch -m avc` or `journalctl -k -g denied`",
		    r.others, r.selinux ? "SELinux" : "AppArmor");
	if (r.unread[0] != '\0')
		doctor_cannot(d, "cannot read %s, which records refusals of %s to longreachd: run the doctor as root",
		              r.unread, r.selinux ? "SELinux" : "AppArmor");
}

/* --- the relay --- */

void doctor_relay(struct doctor *d, const struct doctor_link *l)
{
	char path[256], *slash;
	struct stat st;
	bool there;

	if (!l->has_config || !l->config.relay)
		return;
	link_plan_relay_socket(&l->config, path, sizeof(path));
	there = stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
	slash = strrchr(path, '/');
	if (slash != NULL && slash != path)
		*slash = '\0';
	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		doctor_find(d,
		            "the directory of the relay's socket does not exist: %s\nmake the directory, or name "
		            "another Socket= in [Relay]",
		            path);
	else if (!there && j_get(l->now, "counters") != NULL)
		doctor_find(d,
		            "the relay's socket is gone from %s: programs cannot reach the relay\nrestart longreachd, "
		            "and keep cleaners of that directory from removing sockets",
		            path);
}
