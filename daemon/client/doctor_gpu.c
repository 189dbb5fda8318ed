/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_gpu.c - the doctor's check of a GPU driver's device files, of the machine and as longreachd sees them. */
#include "doctor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Without these cuInit() fails. nvidia-smi makes the first one only. */
static const char *const devices[] = {"nvidiactl", "nvidia-uvm"};

/* 0 or negative errno. */
static int look_for(const char *root, const char *device)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/dev/%s", root, device);
	return access(path, F_OK) == 0 ? 0 : -errno;
}

/* machine: the root that the doctor sees; daemons: the one that longreachd sees, NULL: it does not run. */
static void look_at_files(struct doctor *d, const char *machine, const char *daemons)
{
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		int r = look_for(machine, devices[i]);

		if (r == -ENOENT) {
			doctor_find(
			    d,
			    "GPU=yes, and there is no /dev/%s: no GPU memory can be exported\nlet `nvidia-smi -L` and "
			    "`nvidia-modprobe -c 0 -u` run before longreachd starts (longreach.conf(5), GPU=), and "
			    "restart "
			    "longreachd",
			    devices[i]);
			return;
		}
		r = r == 0 && daemons != NULL ? look_for(daemons, devices[i]) : r;
		if (r == -ENOENT) {
			doctor_find(
			    d,
			    "GPU=yes, and longreachd does not see /dev/%s: its unit hides the file\nadd the drop-in of "
			    "longreach.conf(5), GPU=, to the unit, and `systemctl restart longreachd`",
			    devices[i]);
			return;
		}
		if (r < 0) {
			doctor_cannot(d, "cannot look for /dev/%s: %s", devices[i], strerror(-r));
			return;
		}
	}
}

void doctor_gpu(struct doctor *d, const struct doctor_link *l)
{
	char root[64];

	if (!l->has_config || !l->config.relay || !l->config.relay_gpu)
		return;
	snprintf(root, sizeof(root), "/proc/%d/root", (int)doctor_daemon(d));
	look_at_files(d, "", doctor_daemon(d) > 0 ? root : NULL);
}
