/* SPDX-License-Identifier: Apache-2.0 */
/* nic_engine.h - the table of functions that a plugin for network cards without the kernel gives longreachd.
 *
 * A plugin is a shared object with one symbol, nic_engine_table() (NIC_ENGINE_SYMBOL). It knows devices and frames. It
 * knows nothing of RoCE, links or next hops: lan_engine.c makes a LAN port of it. So a plugin is small, and both sides
 * of the table can be tested alone.
 *
 * Call order: start() once; open() for each device, all of them while the process has its rights; then, of any number
 * of devices and each by one thread at a time, rx(), tx(), tx_pending(), tx_retry(), stats(); stop() last.
 *
 * Between lend() and take_back() a device receives into places of a link's buffer, and sends parts of frames out of it
 * without copying them. Without lend() all frames are copied, in and out.
 *
 * A WAN port (wan_engine.h) copies nothing on this side of the table: it reads and builds frames in memory of the
 * device's own, by rx_own(), own(), tx_own(). */
#ifndef DAEMON_NIC_ENGINE_H
#define DAEMON_NIC_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Raised with every change of this file: longreachd refuses a plugin with another number. */
#define NIC_ENGINE_ABI    3
#define NIC_ENGINE_SYMBOL "nic_engine_table"

#define NIC_TX_BATCH 64 /* most frames of one tx() */
#define NIC_TX_PARTS 4

/* Bytes of a place: free room in front of a frame, and the whole. A frame is at most as long as the difference. */
#define NIC_PLACE_HEADROOM 128
#define NIC_PLACE_BYTES    4352

struct nic_device;

/* A place of the buffer, lent to a device. The device writes into it whenever it likes. */
struct nic_place {
	uint8_t *at; /* NIC_PLACE_BYTES from here on */
	uint32_t tag; /* the lender's name for it */
};

/* A link's buffer. The plugin calls these functions from rx(), tx(), tx_retry(), lend() and take_back() only. */
struct nic_lender {
	void *arg;
	/* Lends another place. False: there is none now. */
	bool (*place)(void *arg, struct nic_place *out);
	/* Takes a place back: the device never writes into it again. */
	void (*place_back)(void *arg, uint32_t tag);
	/* The device does not read a lent part of a frame any more. Called once for each lent part that tx() took. */
	void (*part_back)(void *arg, uint32_t tag);
};

#define NIC_NO_PART NIC_TX_PARTS

/* A whole Ethernet frame in parts, without FCS. */
struct nic_frame {
	struct iovec part[NIC_TX_PARTS];
	unsigned nparts;
	unsigned lent; /* which part stays readable until part_back(); NIC_NO_PART: none. Only between lend() and take_back() */
	uint32_t tag;  /* for part_back() */
};

/* A frame in memory of the device's own, or room for one. Writable until own_back() or tx_own(). */
struct nic_own {
	uint8_t *at;
	size_t len;   /* bytes from `at` on: of the frame; of room from own(), all writable bytes */
	void *handle; /* the plugin's */
};

struct nic_wanted {
	const char *devargs;
	unsigned mtu; /* largest IP packet that the device takes and sends, bytes */
	bool lends;   /* lend() may be called */
};

struct nic_stats {
	uint64_t rx_missed; /* no room in the device's ring or no buffer: frames that the device itself dropped */
	uint64_t rx_split;  /* frames in several buffers: longer than any that could be ours */
	uint64_t tx_errors; /* frames longer than a buffer, without a buffer, or for a device whose link is down */
	uint64_t tx_lost;   /* frames that the driver took and says that it did not send */
};

/* frame: from the Ethernet header on, readable until return. stripped_tci: the VLAN tag that the device took out, 0: none.
 * place: where the frame lies, NULL: in the device's own memory. fn may keep the place and put another one of the same
 * lender into *place, which the device fills next. */
typedef void (*nic_rx_fn)(void *arg, const uint8_t *frame, size_t len, uint16_t stripped_tci, struct nic_place *place);

struct nic_engine {
	uint32_t abi; /* NIC_ENGINE_ABI */
	/* "DPDK 22.11.11" */
	const char *(*name)(void);
	/* arguments: of the library, words with blanks between them; npci: how many of the devices are on the PCI bus. 0 or
	 * negative errno with err (of errlen bytes) a sentence. */
	int (*start)(const char *arguments, unsigned npci, char *err, size_t errlen);
	/* Finds, configures and starts a device. Likewise. */
	int (*open)(struct nic_device **dev, const struct nic_wanted *w, char *err, size_t errlen);
	/* Hands at most `budget` frames to fn. Returns how many came. */
	unsigned (*rx)(struct nic_device *dev, unsigned budget, nic_rx_fn fn, void *arg);
	/* Sends n frames (at most NIC_TX_BATCH) in order; not while tx_pending(). All are taken: their bytes are copied, but
	 * those of lent parts. */
	void (*tx)(struct nic_device *dev, const struct nic_frame *frames, unsigned n);
	/* True if frames that the device had no room for wait for tx_retry(). */
	bool (*tx_pending)(const struct nic_device *dev);
	void (*tx_retry)(struct nic_device *dev);
	/* Drops the frames that wait for tx_retry(); counts them in tx_errors. */
	void (*tx_drop)(struct nic_device *dev);
	/* Takes at most n (at most NIC_TX_BATCH) frames, which are the caller's until own_back(). Returns how many came. */
	unsigned (*rx_own)(struct nic_device *dev, struct nic_own *frames, unsigned n);
	/* Gives room for a frame of the device's mtu, plus 128 bytes. False: there is none now. */
	bool (*own)(struct nic_device *dev, struct nic_own *room);
	void (*own_back)(struct nic_device *dev, const struct nic_own *frames, unsigned n);
	/* As tx(), for frames in room that own() of this or another device gave: [at, at + len) lies within the
	 * room. */
	void (*tx_own)(struct nic_device *dev, const struct nic_own *frames, unsigned n);
	void (*stats)(struct nic_device *dev, struct nic_stats *s);
	/* Call while no thread uses the device. *l is copied. 0; or negative errno with err a sentence that says why
	 * the device copies all frames as before. */
	int (*lend)(struct nic_device *dev, const struct nic_lender *l, char *err, size_t errlen);
	/* The reverse of lend(). Call while no thread uses the device: afterwards it neither writes nor reads in the
	 * buffer, and all places and parts were given back. 0; or negative errno with err a sentence: the device had to
	 * be closed, and cannot be used any more. */
	int (*take_back)(struct nic_device *dev, char *err, size_t errlen);
	void (*stop)(void); /* all devices */
};

/* Of the plugin. */
const struct nic_engine *nic_engine_table(void);

#endif
