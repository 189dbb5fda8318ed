/* SPDX-License-Identifier: Apache-2.0 */
#include "lan_device.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_LEN 512

bool lan_device_is_pci(const char *device)
{
	const char *colon = strchr(device, ':'), *comma = strchr(device, ',');

	return colon && (!comma || colon < comma);
}

/* True for kernel drivers that leave the device to DPDK, or that DPDK's drivers work with. */
static bool leaves_device_to_dpdk(const char *driver)
{
	static const char *const names[] = {"vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core", "mlx4_core"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(driver, names[i]) == 0)
			return true;
	return false;
}

/* The last part of what the link points to; "" if there is none. */
static void read_link(const char *path, char *name, size_t size)
{
	char to[PATH_LEN];
	ssize_t n = readlink(path, to, sizeof(to) - 1);
	const char *slash;

	to[n > 0 ? n : 0] = '\0';
	slash = strrchr(to, '/');
	snprintf(name, size, "%.*s", (int)size - 1, slash ? slash + 1 : to);
}

static int check_pci(const char *root, const char *key, const char *address, char *err, size_t errlen)
{
	char path[PATH_LEN], link[PATH_LEN + 16], driver[64], group[64];

	snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s", root, address);
	if (access(path, F_OK) < 0) {
		snprintf(err, errlen, "%s=%s: no PCI device has this address: `lspci -D` lists them", key, address);
		return -ENOENT;
	}
	snprintf(link, sizeof(link), "%s/driver", path);
	read_link(link, driver, sizeof(driver));
	if (!leaves_device_to_dpdk(driver)) {
		snprintf(err, errlen,
		         "%s=%s: %s%s is bound to it: expected vfio-pci (`dpdk-devbind.py --bind=vfio-pci %s`; its "
		         "interface then leaves the kernel), or mlx5_core",
		         key, address, driver[0] ? "the kernel's driver " : "no driver", driver, address);
		return -ENOENT;
	}
	snprintf(link, sizeof(link), "%s/iommu_group", path);
	read_link(link, group, sizeof(group));
	if (strcmp(driver, "vfio-pci") != 0 || group[0])
		return 0;
	snprintf(err, errlen,
	         "%s=%s: it has no IOMMU group: expected an IOMMU that is on, in the firmware and on the "
	         "kernel's command "
	         "line (intel_iommu=on; AMD: nothing more)",
	         key, address);
	return -ENOENT;
}

/* Debian has each driver in a library of its own. If there is no driver library at all, DPDK was built in another
 * way. */
static int check_driver(const char *root, const char *key, const char *device, char *err, size_t errlen)
{
	size_t len = strcspn(device, "0123456789,");
	char all[PATH_LEN], one[PATH_LEN];
	glob_t found;
	int r = 0;

	snprintf(all, sizeof(all), "%s/usr/lib/*/dpdk/pmds-*/librte_net_*.so", root);
	snprintf(one, sizeof(one), "%s/usr/lib/*/dpdk/pmds-*/librte_%.*s.so", root, (int)len, device);
	if (glob(all, 0, NULL, &found) == 0) {
		globfree(&found);
		r = glob(one, 0, NULL, &found) == 0 ? 0 : -ENOENT;
		globfree(&found);
	}
	if (r < 0)
		snprintf(err, errlen,
		         "%s=%s: DPDK's driver %.*s is not installed: `apt-cache search librte-net` lists the "
		         "packages; longreach.conf(5), ENGINE=DPDK, lists other devices",
		         key, device, (int)len, device);
	return r;
}

int lan_device_check(const char *root, const char *key, const char *device, char *err, size_t errlen)
{
	char address[64];

	if (!lan_device_is_pci(device))
		return check_driver(root, key, device, err, errlen);
	snprintf(address, sizeof(address), "%.*s", (int)strcspn(device, ","), device);
	return check_pci(root, key, address, err, errlen);
}
