/* SPDX-License-Identifier: Apache-2.0 */
/* copy_send_priv.h - what the files of the sender share. */
#ifndef COPY_SEND_PRIV_H
#define COPY_SEND_PRIV_H

#include <sys/stat.h>

#include "copy_options.h"
#include "copy_progress.h"
#include "copy_source.h"
#include "copy_walk.h"
#include "lib/longreach.h"
#include "proxy/util/dlist.h"

enum send_limits {
	OPEN_MAX = 64,        /* large files at a time */
	OPENS_WAITING = 1024, /* before no more is taken from the trees */
	PUTS_MAX = 960,       /* of the relay's 1,024 for a program */
	BATCHES_MAX = 62,
	TRIES_MAX = 12,
	ROUNDS_MAX = 4,       /* of a file that changes, or arrives wrong */
	TURN_PIECES = 8,      /* between looks at what has come */
	NAMES_MAX = 40 << 10, /* bytes of names in an EXTRAS */
};

#define WINDOW_LEAST (8u << 20) /* bytes of puts under way */
#define WINDOW_MOST  (512u << 20)

#define SIGN_OF_LIFE_S 0.3
#define STALL_PAUSE_S  1.0 /* between two tries of a file that cannot be read or written now */

enum stage {
	STAGE_CHECK,
	STAGE_DIR,
	STAGE_FILE,
	STAGE_OPEN,
	STAGE_SENDING,
	STAGE_COMMIT,
	STAGE_SYMLINK,
	STAGE_LINK,
	STAGE_META,
	STAGE_EXTRAS,
	STAGE_REMOVE,
};

enum phase { PHASE_TREES, PHASE_LINKS, PHASE_LIST, PHASE_UNLINK, PHASE_RMDIR, PHASE_DIRS, PHASE_END };

/* A large file that is open at both ends. */
struct large {
	int fd;
	char region[COPY_REGION_MAX];
	struct source_piece *piece;
	uint32_t n, next, under_way;
	uint64_t counted; /* of it in progress.bytes */
};

/* The first name of a file with several links. */
struct name_of_inode {
	dev_t dev;
	ino_t ino;
	char *dst;
	bool failed; /* it was not copied: what has that name there may be an older file */
};

struct item {
	struct dnode node; /* in todo, opens or sending */
	enum stage stage;
	uint8_t tries, rounds;
	bool anew;
	uint8_t kind; /* REMOVE */
	struct stat st;
	char *src, *dst;
	struct source_path at; /* of src */
	char *target;          /* SYMLINK: text; LINK: dst of the first name; EXTRAS: `after` */
	char *upto;            /* EXTRAS */
	uint8_t *names;        /* EXTRAS: what is kept */
	size_t names_len;
	uint64_t given;   /* bytes of it that were given to the relay, ever */
	uint64_t once;    /* as many were needed when its first try began */
	bool opened;      /* that is known */
	double stalled_s; /* when a piece could not be read or written, and none since could; 0: all is well */
	double again_s;   /* no piece before that */
	struct large *large;
	struct name_of_inode *inode; /* of a file with several links, NULL: of others */
};

struct items {
	struct item **v;
	size_t n, room, next;
};

struct batch {
	bool used;
	uint64_t op;
	uint32_t n;
	struct item *item[COPY_ENTRIES_MAX];
};

struct put {
	uint64_t op;
	struct item *item; /* NULL: nobody waits for it */
	uint32_t piece, length;
};

/* A directory that is walked now: the names in it, for --delete. */
struct walked {
	struct walked *above;
	char *dst;
	struct copy_out names;
	size_t room;
};

struct sender {
	const struct copy_options *o;
	struct lr *lr;
	bool lent; /* lr is the caller's */
	uint64_t session;
	char base[COPY_PATH_MAX + 1];
	char *name;   /* of the only source, if it gets another one */
	bool fresh;   /* nothing is there: no need to look */
	bool nothing; /* and no session either: a dry run */
	bool lost;
	enum phase phase;
	struct walk *walk;
	struct source_roots roots;
	struct walked *walked;
	struct dnode todo, opens, sending;
	uint32_t nopens, nopen; /* waiting; open, or asked for */
	struct batch *batch;    /* BATCHES_MAX */
	uint32_t nbatches, window;
	struct put put[PUTS_MAX];
	uint32_t nputs;
	uint64_t put_bytes, put_window;
	double stalled_s; /* of all items: see struct item */
	double window_s;  /* when it was worked out */
	double alive_s;   /* when something came last */
	double said_s;    /* when a batch went last */
	struct items links, dirs, lists, files_there, dirs_there;
	struct name_of_inode **inode; /* a table of ninodes_room places */
	size_t ninodes, ninodes_room;
	struct progress progress;
	int code; /* of what went wrong, 0: nothing */
	bool fatal, source_errors;
	uint8_t message[COPY_MSG_MAX], data[COPY_PIECE_MAX], xattrs[COPY_XATTRS_MAX];
};

/* copy_item.c: what is said, and what becomes of items. */
void sender_complain(struct sender *s, const char *name, const char *what, int error);
void sender_set_code(struct sender *s, int code);
void sender_give_up(struct sender *s, int code, const char *what);
void sender_say_name(struct sender *s, const char *verb, const char *dst, const char *tail);
void sender_no_memory(struct sender *s);
/* NULL: no memory. */
struct item *item_new(enum stage stage, const char *src, const char *dst, const struct stat *st);
void item_free(struct sender *s, struct item *it);
/* Closes the file; the results of its puts are ignored. */
void large_free(struct sender *s, struct item *it);
/* False: no memory, or there is no item. */
bool items_add(struct items *v, struct item *it);
/* Queues an item: in `opens` if it needs a place among the open files, else in `todo`. */
void item_wait(struct sender *s, struct item *it);
/* These end an item: the other end is as wanted; the task failed; the source could not be read (error: errno). */
void item_done(struct sender *s, struct item *it, bool copied);
void item_failed(struct sender *s, struct item *it, const char *what, int error);
void source_failed(struct sender *s, struct item *it, int error);
/* These queue an item again: the session was lost; the file has changed (st), or its digest differs there. */
void item_again(struct sender *s, struct item *it);
void item_anew(struct sender *s, struct item *it, const struct stat *st);
/* The same of a large file, as it is now. */
void item_anew_source(struct sender *s, struct item *it);

/* copy_encode.c: 1: it is in the message; 0: no room in this one; -1: the item has ended, or waits anew. */
int item_encode(struct sender *s, struct item *it, struct copy_out *o);

/* Whether the open source of a large file has the size and time that it had. */
bool item_has_same_source(const struct item *it);

/* copy_trees.c: the next item of the trees, of the phase, of all that can go now. NULL: there is none. */
struct item *trees_next(struct sender *s);
struct item *phase_next(struct sender *s);
struct item *sender_next_item(struct sender *s);

/* copy_transfer.c: batches and pieces under way, and their results. */
void transfer_batches(struct sender *s);
void transfer_sign_of_life(struct sender *s);
/* Returns true if more pieces could go at once. */
bool transfer_pieces(struct sender *s);
void transfer_work_out_window(struct sender *s);
void transfer_on_done(struct sender *s, const struct lr_event *ev);
void transfer_batch_again(struct sender *s, struct batch *b);
/* Starts the transfer of an item that is absent or different at the other end. */
void item_transfer(struct sender *s, struct item *it);

#endif
