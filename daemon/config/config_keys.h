/* SPDX-License-Identifier: Apache-2.0 */
/* config_keys.h - the table of all keys of a link file, and the kinds of values they take.
 *
 * Parsing, defaults, range checks, --print-config and the question "may this change while running?" all come from the
 * table: a key is described once. */
#ifndef DAEMON_CONFIG_KEYS_H
#define DAEMON_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define CONFIG_WHY_MAX  160 /* what is wrong with a value and what would be right */
#define CONFIG_ITEM_MAX 256 /* one value as text */

struct config_key;

/* A kind of value. One item of it is read into, and written from, a field of struct link_config. */
struct config_type {
	const char *expected; /* completes "expected ..." */
	/* 0, or -EINVAL; `why` may be left empty for "expected ..." otherwise `why` is a sentence of its own. */
	int (*read)(const struct config_key *k, void *field, const char *text, char why[CONFIG_WHY_MAX]);
	void (*write)(const struct config_key *k, const void *field, char *text, size_t cap);
	/* numbers only: text to base units and back */
	int (*read_number)(const char *text, uint64_t *value);
	void (*write_number)(char *text, size_t cap, uint64_t value);
	const char *zero_word; /* numbers only: the word that stands for 0; NULL if there is none */
	bool commas; /* an item may contain commas; then only blanks separate items */
};

extern const struct config_type type_port, type_prefix, type_ack_mode, type_pair_mode, type_barrier, type_skip,
    type_distance, type_count, type_cpu,
    type_address, type_rate, type_packet_size, type_path_mtu, type_directory, type_size, type_bytes, type_time,
    type_rnr_retry, type_yes, type_cipher, type_host_group, type_relay_allow, type_own_address, type_file, type_peer_name, type_pfc, type_fec,
    type_rate_control, type_group, type_engine, type_device, type_export_mode, type_user;

enum config_key_flags {
	KEY_REQUIRED = 1 << 0,
	KEY_RELOADABLE = 1 << 1, /* may change while the link runs */
	KEY_LIST = 1 << 2,       /* several items, in one line or in several */
	KEY_PATH = 1 << 3,       /* a key of each path: `offset` is that of the first path's field */
	KEY_EXPORT = 1 << 4,     /* the same for exports */
};

struct config_key {
	const char *section;
	const char *name;
	const struct config_type *type;
	size_t offset;       /* of the field in struct link_config */
	size_t item_size;    /* of the field, or of one item of a list */
	size_t count_offset; /* of the list's uint32_t count */
	uint32_t count_max;
	const char *fallback; /* default, as one would write it; NULL: none */
	uint64_t min, max;    /* numbers: in base units, without regard to zero_word */
	unsigned flags;       /* enum config_key_flags */
	const char *help;     /* sentences for people; lines end with \n */
};

extern const struct config_key config_keys[];
extern const uint32_t config_nkeys;

/* Exact match; NULL if there is none. section NULL: in any section. */
const struct config_key *config_key_find(const char *section, const char *name);
/* The key whose name is nearest to a misspelt one; NULL if none is near. */
const struct config_key *config_key_nearest(const char *name);
const char *config_section_nearest(const char *section);
bool config_section_known(const char *section);

uint32_t config_key_count(const struct config_key *k, const struct link_config *c); /* items given; 1 if no list */
/* True if the key's section may occur several times, each with a name: [Path NAME], [Export NAME]. */
static inline bool config_key_is_of_many(const struct config_key *k)
{
	return k->flags & (KEY_PATH | KEY_EXPORT);
}

/* i: index in a list, of a path, or of an export */
const void *config_key_item(const struct config_key *k, const struct link_config *c, uint32_t i);
/* Lists: forgets the default. */
void config_key_clear(const struct config_key *k, struct link_config *c);
/* Adds (lists) or sets one item, of that path for KEY_PATH, of that export for KEY_EXPORT. 0, or -EINVAL with `why` a sentence. */
int config_key_read(const struct config_key *k, struct link_config *c, uint32_t which, const char *text,
                    char why[CONFIG_WHY_MAX]);

/* Reports an error about a key, of that path (NULL: no key in particular), and why. */
typedef void config_blame_fn(void *arg, const struct config_key *k, uint32_t path, const char *why);

/* The rules between keys: each that is broken goes to fn. bad: keys, in the order of config_keys, without a valid
 * value; rules about them are skipped; missing keys are added to bad. */
void config_check(const struct link_config *c, bool bad[CONFIG_KEYS_MAX], config_blame_fn *fn, void *arg);

#endif
