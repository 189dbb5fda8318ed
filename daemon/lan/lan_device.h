/* SPDX-License-Identifier: Apache-2.0 */
/* lan_device.h - checks what a device of LanDevice= or WanDevice= needs from this machine, without opening the
 * device. */
#ifndef DAEMON_LAN_DEVICE_H
#define DAEMON_LAN_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

/* True if the device is on the PCI bus: then its name is a PCI address. */
bool lan_device_is_pci(const char *device);

/* root: "", or a folder that stands for / (tests); key: which of the two keys names the device. 0; or -ENOENT with err a sentence that says what is missing: the
 * device, a driver that DPDK can use, an IOMMU, the library of DPDK's driver. */
int lan_device_check(const char *root, const char *key, const char *device, char *err, size_t errlen);

#endif
