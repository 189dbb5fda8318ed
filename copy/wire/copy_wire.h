/* SPDX-License-Identifier: Apache-2.0 */
/* copy_wire.h - messages between `longreach copy` and the server of an export.
 *
 * Theory of operation
 *
 * The sender calls the service "copy:EXPORT" of the other site through the relay (longreach.h). A request opens a
 * session at a directory of the export, or is a batch of entries: each entry is one check or action, and the reply has
 * one result for each, in their order. Batches of one sender are carried out in any order, and after a restart perhaps
 * twice: so each entry is independent of others and can be repeated.
 *
 * A small file goes whole, in a COPY_FILE. A large one is opened (COPY_OPEN): the result names a region of the relay,
 * and says which ranges are there from an earlier try. The sender puts the pieces that are missing into the region. The
 * notice of each put carries the piece's XXH3, and the server enters the piece in the file's journal if the bytes that
 * it reads back have the same hash. COPY_COMMIT gives the file its name when all pieces are there and their hashes, in
 * order, have the digest that the sender found.
 *
 * A copy from the other site to this one is the same with the ends swapped. The program here serves "copy:pull.NUMBER",
 * at the directory that it wants filled, and calls "push:EXPORT" of the other site (COPY_PUSH): the process that serves
 * it is a sender whose sources are beneath the export, and replies with its exit code when it has finished. Its output
 * comes before as calls of COPY_SAY.
 *
 * Fields are big-endian. Text and bytes have their length in front. Paths are relative to the session's directory, and
 * have no component that is empty, "." or "..": copy_entry_get() refuses all others. */
#ifndef COPY_WIRE_H
#define COPY_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum copy_limits {
	COPY_VERSION = 1,
	COPY_MSG_MAX = 60 << 10, /* of a request or a reply: LR_CALL_MAX */
	COPY_PATH_MAX = 4095,
	COPY_NAME_MAX = 255,        /* of one component */
	COPY_ENTRIES_MAX = 1024,    /* of a batch */
	COPY_SMALL_MAX = 32 << 10,  /* bytes of a file that goes in a batch */
	COPY_XATTRS_MAX = 16 << 10, /* of a file: names and values */
	COPY_RANGES_MAX = 256,      /* that a result names */
	COPY_PIECE_MAX = 1 << 20,   /* bytes of a put */
	COPY_HOLE_MIN = 64 << 10,   /* shorter holes of a source are sent */
	COPY_REGION_MAX = 32,       /* LR_NAME_MAX */
	COPY_NOTICE_LEN = 12,       /* copy_notice_put() */
	COPY_EXPORT_MAX = 24,       /* with the NUL: "copy:" and it are a service's name */
	COPY_SOURCES_MAX = 64,      /* of a COPY_PUSH */
	COPY_EXCLUDES_MAX = 256,
	COPY_SAY_MAX = 32 << 10,    /* bytes of a COPY_SAY */
};

#define COPY_SERVICE_PREFIX "copy:" /* before the export's name */
#define COPY_PUSH_PREFIX    "push:"

enum copy_op {
	COPY_SESSION = 1, /* path, flags. Reply: struct copy_session */
	COPY_BATCH,       /* entries. Reply: results */
	COPY_PUSH,        /* struct copy_push. Reply: the exit code */
	COPY_SAY,         /* stream (1, 2), text. Reply: the head alone */
	COPY_OPS
};

/* Bytes that lie in the message. */
struct copy_bytes {
	const uint8_t *p;
	size_t len;
};

/* The head of a request or a reply. */
struct copy_head {
	uint8_t op;       /* enum copy_op */
	uint16_t window;  /* replies: batches that the session may have under way from now on */
	uint64_t session; /* chosen by the sender */
};

enum copy_session_flags {
	COPY_MAKE = 1,     /* request: the directory is made if it is not there */
	COPY_FRESH = 2,    /* reply: it was made just now */
	COPY_WRITABLE = 4, /* reply: Mode=write */
	COPY_PRIVATE = 8,  /* request: it is made with mode 0700, as its own mode comes last */
};

enum copy_kind { COPY_NOTHING, COPY_REGULAR, COPY_DIRECTORY, COPY_SYMLINK, COPY_OTHER, COPY_KINDS };

struct copy_session {
	uint16_t error; /* errno, 0: it is open */
	uint8_t kind;   /* what the path is: enum copy_kind */
	uint8_t flags;
};

enum copy_push_flags {
	COPY_PUSH_INTO = 1, /* the path is a directory */
	COPY_PUSH_REMOVE = 2,
	COPY_PUSH_DRY_RUN = 4,
	COPY_PUSH_JSON = 8,
	COPY_PUSH_VERBOSE = 16,
};

/* The request of a COPY_PUSH. The head's session tells one request that is repeated from another. */
struct copy_push {
	char export[COPY_EXPORT_MAX]; /* that it is to send to */
	struct copy_bytes path;       /* beneath that */
	uint8_t flags;                /* enum copy_push_flags */
	uint16_t timeout_s;
	uint16_t nsources, nexcludes;
	/* beneath the export that is asked; with a slash behind: what is in the directory; empty: what is in the export */
	struct copy_bytes source[COPY_SOURCES_MAX];
	struct copy_bytes exclude[COPY_EXCLUDES_MAX];
};

enum copy_type {
	COPY_CHECK = 1, /* path, kind, meta without xattrs, size, target: is it there already? */
	COPY_DIR,       /* path: made, or made usable; its meta comes last, with COPY_META */
	COPY_FILE,      /* path, meta, data, hash */
	COPY_OPEN,      /* path, anew, size, mtime. Result: OPENED with a region and ranges */
	COPY_COMMIT,    /* path, region, meta, size, digest. Result: DONE, or INCOMPLETE with ranges */
	COPY_LINK_SYM,  /* path, meta, target */
	COPY_LINK_HARD, /* path, target: a path of the session */
	COPY_META,      /* path, meta */
	COPY_EXTRAS,    /* path of a directory, after, upto, names: the other entries between them. Result: a list */
	COPY_REMOVE,    /* path */
	COPY_TYPES
};

struct copy_meta {
	uint32_t mode; /* permissions, 07777 */
	uint32_t uid, gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
	struct copy_bytes xattrs; /* copy_xattr_next() */
};

struct copy_entry {
	uint8_t type; /* enum copy_type */
	uint8_t kind; /* CHECK */
	bool anew;    /* OPEN: discard what is there from an earlier try */
	struct copy_bytes path, target, data;
	char region[COPY_REGION_MAX];
	struct copy_meta meta; /* OPEN: mtime alone */
	uint64_t size, hash, digest[2];
	struct copy_bytes after,
	    upto; /* EXTRAS: of the names in this order, those behind `after`, up to `upto`; empty: no bound */
};

enum copy_state {
	COPY_DONE,         /* carried out; CHECK: the same is there already */
	COPY_DIFFERENT,    /* CHECK: something else is there */
	COPY_META_DIFFERS, /* CHECK: the same is there, with another mode or owner */
	COPY_ABSENT,       /* CHECK: nothing is there */
	COPY_OPENED,       /* OPEN: region, ranges */
	COPY_INCOMPLETE,   /* COMMIT: the digest is another one; these ranges are there */
	COPY_CORRUPT,      /* FILE: the hash is another one: to be sent anew */
	COPY_MORE,         /* EXTRAS: the list goes on behind its last name */
	COPY_STATES
};

struct copy_range {
	uint64_t offset, length;
};

struct copy_result {
	uint8_t type;   /* of the entry */
	uint8_t state;  /* enum copy_state, if error is 0 */
	uint16_t error; /* errno of Linux. OPEN, COMMIT: EAGAIN: not through yet, to be asked once more */
	char region[COPY_REGION_MAX];
	uint32_t nranges;
	struct copy_range range[COPY_RANGES_MAX];
	struct copy_bytes list; /* EXTRAS: copy_name_next() */
};

/* --- writing: what has no room sets `full`, and is not written in part --- */

struct copy_out {
	uint8_t *buf;
	size_t len, cap;
	bool full;
};

void copy_head_put(struct copy_out *o, const struct copy_head *h);
void copy_session_ask_put(struct copy_out *o, struct copy_bytes path, uint8_t flags);
void copy_session_put(struct copy_out *o, const struct copy_session *s);
void copy_push_put(struct copy_out *o, const struct copy_push *p);
void copy_pushed_put(struct copy_out *o, uint8_t code);
void copy_say_put(struct copy_out *o, uint8_t stream, struct copy_bytes text);
/* False: it does not fit, and nothing was written. */
bool copy_entry_put(struct copy_out *o, const struct copy_entry *e);
bool copy_result_put(struct copy_out *o, const struct copy_result *r);
/* Elements of a list (EXTRAS), and of xattrs. False: no room. */
bool copy_name_put(struct copy_out *o, uint8_t kind, const char *name);
bool copy_xattr_put(struct copy_out *o, const char *name, const void *value, size_t len);
/* The most bytes that a result of that type takes, without its list. */
size_t copy_result_max(uint8_t type);
void copy_notice_put(uint8_t out[COPY_NOTICE_LEN], uint64_t hash);

/* --- reading: false if no sane peer says this --- */

struct copy_in {
	const uint8_t *p;
	size_t left;
};

bool copy_head_get(struct copy_in *in, struct copy_head *h);
bool copy_session_ask_get(struct copy_in *in, struct copy_bytes *path, uint8_t *flags);
bool copy_session_get(struct copy_in *in, struct copy_session *s);
bool copy_push_get(struct copy_in *in, struct copy_push *p);
bool copy_pushed_get(struct copy_in *in, uint8_t *code);
bool copy_say_get(struct copy_in *in, uint8_t *stream, struct copy_bytes *text);
bool copy_entry_get(struct copy_in *in, struct copy_entry *e);
bool copy_result_get(struct copy_in *in, struct copy_result *r);
/* True while there is another element; a malformed one ends the list and sets in->p to NULL. name: a component. */
bool copy_name_next(struct copy_in *in, uint8_t *kind, char name[COPY_NAME_MAX + 1]);
bool copy_xattr_next(struct copy_in *in, char name[COPY_NAME_MAX + 1], struct copy_bytes *value);
bool copy_notice_get(const void *data, size_t len, uint64_t *hash);

/* The same with a slash behind it, or none. */
bool copy_source_is_sound(struct copy_bytes source);
/* True for a relative path without components that are empty, "." or "..". The empty path is the session's
 * directory. */
bool copy_path_is_sound(struct copy_bytes path);

static inline struct copy_bytes copy_text(const char *s)
{
	return (struct copy_bytes){(const uint8_t *)s, __builtin_strlen(s)};
}

#endif
