/* SPDX-License-Identifier: Apache-2.0 */
/* apply_netlink.c - the way to the kernel, by libmnl; and what drives an interface. */
#include <errno.h>
#include <glob.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "headroom/apply.h"
#include "headroom/audit.h"

#define ANSWER_WAIT_S 10 /* the kernel answers late if the link goes down and up */

/* An RTM_GETDCB is answered and, because it requests an ACK, ACKed too: skips older answers, which have another
 * number. */
static int ask(void *arg, const void *msg, size_t len, uint32_t seq, void *answer)
{
	struct mnl_socket *s = arg;

	if (mnl_socket_sendto(s, msg, len) < 0)
		return -errno;
	for (;;) {
		struct nlmsghdr h;
		ssize_t n = mnl_socket_recvfrom(s, answer, DCB_ANSWER_MAX);

		if (n < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if ((size_t)n < sizeof(h))
			return -EBADMSG;
		memcpy(&h, answer, sizeof(h));
		if (h.nlmsg_seq == seq)
			return (int)n;
	}
}

static struct mnl_socket *open_socket(void)
{
	struct timeval wait = {.tv_sec = ANSWER_WAIT_S};
	struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

	if (s == NULL)
		return NULL;
	if (mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) == 0 &&
	    setsockopt(mnl_socket_get_fd(s), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) == 0)
		return s;
	mnl_socket_close(s);
	return NULL;
}

enum apply_result apply_netlink(const struct report *rep, FILE *out, FILE *err)
{
	struct mnl_socket *s = open_socket();
	struct dcb_talk talk = {
	    .ask = ask, .arg = s, .pauses = apply_pauses(rep->o->dev), .trusts_dscp = apply_trusts_dscp(rep->o->dev)};
	enum apply_result r;

	if (s == NULL) {
		options_complain(err, "no netlink socket: %s", strerror(errno));
		return APPLY_REFUSED;
	}
	r = apply(rep, &talk, out, err);
	mnl_socket_close(s);
	return r;
}

bool apply_pauses(const char *dev)
{
	struct ethtool_pauseparam pause = {.cmd = ETHTOOL_GPAUSEPARAM};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {0};
	bool on;

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", dev);
	ifr.ifr_data = (char *)&pause;
	on = fd >= 0 && ioctl(fd, SIOCETHTOOL, &ifr) == 0 && (pause.rx_pause != 0 || pause.tx_pause != 0);
	if (fd >= 0)
		close(fd);
	return on;
}

bool apply_trusts_dscp(const char *dev)
{
	char path[OPTIONS_NAME_MAX + 64], trust[8] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/qos/trust", dev);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	if (fgets(trust, sizeof(trust), f) == NULL)
		trust[0] = '\0';
	fclose(f);
	return strncmp(trust, "dscp", 4) == 0;
}

/* True if an interface above the port is a VLAN: its frames have their priority in the tag. */
static bool has_vlans(const char *dev)
{
	char pattern[OPTIONS_NAME_MAX + 64], line[64];
	bool vlan = false;
	glob_t found;

	snprintf(pattern, sizeof(pattern), "/sys/class/net/%s/upper_*/uevent", dev);
	if (glob(pattern, 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc && !vlan; i++) {
		FILE *f = fopen(found.gl_pathv[i], "re");

		while (f != NULL && !vlan && fgets(line, sizeof(line), f) != NULL)
			vlan = strcmp(line, "DEVTYPE=vlan\n") == 0;
		if (f != NULL)
			fclose(f);
	}
	globfree(&found);
	return vlan;
}

int audit_read(struct audit_port *p)
{
	struct mnl_socket *s = open_socket();
	struct dcb_talk talk = {.ask = ask, .arg = s};
	char driver[OPTIONS_NAME_MAX];
	int r;

	if (s == NULL)
		return -errno;
	r = apply_read(&talk, p->dev, &p->is);
	mnl_socket_close(s);
	if (apply_trusts_dscp(p->dev))
		p->is.app_priorities = UINT8_MAX;
	p->has_vlans = has_vlans(p->dev);
	p->delay_is_length = strncmp(apply_driver(p->dev, driver, sizeof(driver)), "mlx5", 4) == 0;
	return r;
}

const char *apply_driver(const char *dev, char *name, size_t cap)
{
	char path[OPTIONS_NAME_MAX + 64], target[512];
	const char *base;
	ssize_t n;

	name[0] = '\0';
	snprintf(path, sizeof(path), "/sys/class/net/%s/device/driver", dev);
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return name;
	target[n] = '\0';
	base = strrchr(target, '/');
	snprintf(name, cap, "%.*s", (int)cap - 1, base != NULL ? base + 1 : target);
	return name;
}
