/* SPDX-License-Identifier: Apache-2.0 */
/* relay_file.h - files of programs: a file that does not answer delays no other.
 *
 * Theory of operation
 *
 * A thread that reads, writes or closes a file of a dead mount (NFS without its server, a hanging FUSE server, a frozen
 * file system) waits in the kernel until the mount answers, and cannot be interrupted. So the relay's thread never does
 * that. Each mount has a thread (file_mount), which all links of the daemon share, and which takes its jobs one after
 * the other. Files in memory (memfd, tmpfs, huge pages) always answer: the relay's thread reads and writes these
 * itself, straight into slots and out of them.
 *
 * A mount that is at one job for RELAY_SILENT_NS is silent: its pending requests fail, and new ones fail at once, until
 * it goes on. The job itself cannot be ended. It has bytes and a descriptor of its own, so that no slot waits for it,
 * and a link that stops leaves it behind. The mount's thread outlives the link, so no later request, of any link, is
 * done before the job: the job never overwrites later data.
 *
 * Closing a descriptor may wait as long: a program that retries again and again, each time with another descriptor,
 * would use up the daemon's. The daemon can only close a descriptor that it has received, so excess descriptors are not
 * received: recvmsg(2) is called without room for them, and the kernel drops them without asking their mount (but if
 * the program is gone and it was the file's last descriptor, the mount may be asked after all). If a silent mount has
 * RELAY_UNCLOSED_SILENT descriptors to close, none of its files is used any more, and programs that have sent one get
 * no room for descriptors until the mount answers; a link with RELAY_UNCLOSED of them gives no program room. Requests
 * that need a descriptor then fail at once.
 *
 * Streams read ahead before they take a slot, so a silent mount holds no position of a channel. Chunks that wait to be
 * written hold their slots, and chunks behind a fence of their channel wait as long. */
#ifndef DAEMON_RELAY_FILE_H
#define DAEMON_RELAY_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/lr_wire.h"
#include "relay_counters.h"
#include "proxy/util/dlist.h"

enum relay_file_limits {
	RELAY_MOUNTS = 16,        /* that files of a link's programs are on, at a time */
	RELAY_FILE_BLOCK = 32768, /* bytes that are read at a time: whole chunks */
	RELAY_FILE_AHEAD = 4,     /* blocks that a stream reads ahead ... */
	RELAY_FILE_BLOCKS = 256,  /* ... while all streams of a mount have fewer; each may have one */
	RELAY_FILE_WRITES = 64,   /* chunks whose bytes the thread of a mount holds: others wait in their slots */
	RELAY_UNCLOSED_SILENT = 64, /* descriptors that wait to be closed: of a mount that is silent ... */
	RELAY_UNCLOSED = 512,       /* ... and of a link's programs, whatever mounts they are of */
};

/* How long a mount may be at one job before it counts as silent, in ns. Tests wait for less. */
extern uint64_t relay_silent_ns;

struct file_job;
struct file_mount;
struct relay_stream;
struct relay_thread;
struct relay_write;

/* A mount as a link's relay sees it. */
struct relay_mount {
	struct file_mount *mount; /* NULL: this place is free */
	struct relay_thread *relay;
	uint32_t nfiles;          /* open here */
	struct dnode waiting;     /* struct relay_io: writes without a job ... */
	struct dnode asked;       /* ... and what has one */
	uint32_t nwrites, nblocks; /* of those: jobs that write; blocks that readers hold or have asked for */
	struct dnode done;        /* struct file_job; under the lock of all mounts */
	bool silent;
	char silent_file[RELAY_SILENT_FILE_MAX]; /* under that lock; empty: all answer */
};

/* A descriptor of a program. Each user holds a reference; the mount's thread closes the descriptor after the last
 * one. */
struct relay_file {
	struct relay_thread *relay;
	int fd;
	uint32_t refs;
	struct relay_mount *mount;   /* NULL: memory */
	struct relay_region *region; /* the region that the file is; NULL: none, or the region is gone */
	bool withdrawn;              /* it was a region: nothing is written to it any more */
	bool is_read;                /* by an operation of this site, else written; of no region */
	char name[LR_NAME_MAX];      /* of the region: its own, or the other site's that the operation is for */
};

struct relay_files {
	struct relay_mount mount[RELAY_MOUNTS];
	struct dnode readers; /* struct relay_file_reader */
	struct dnode over[2]; /* struct relay_io: writes that have ended, and chunks of which are to be finished; [1]:
	                         relay_write_is_answered() */
	bool is_over;         /* relay_files_close() was here */
	/* under the lock of all mounts: */
	uint32_t nunclosed;   /* descriptors that wait to be closed, or are being closed */
	uint64_t refused;     /* the last mount that has too many of them; 0: none has any longer */
	char refused_name[RELAY_SILENT_FILE_MAX];
};

/* Part of a stream that is read ahead. */
struct relay_file_block {
	struct relay_io *io;  /* that asks for it; NULL: it has come */
	struct file_job *job; /* that holds its bytes */
	uint64_t offset;      /* in the stream */
	uint32_t len, left;
};

/* Read-ahead of a stream from a file that is not in memory. */
struct relay_file_reader {
	struct dnode node; /* in relay_files.readers */
	struct relay_stream *stream;
	uint64_t asked, loaded; /* bytes of the stream: that were asked for; that are here, from its beginning on */
	bool failed;
	uint32_t first, n;
	struct relay_file_block block[RELAY_FILE_AHEAD];
};

void relay_files_init(struct relay_thread *r);
/* Takes over the descriptor of a regular file or block device. NULL: no memory, no thread, or too many mounts; the
 * caller keeps the descriptor. */
struct relay_file *relay_file_new(struct relay_thread *r, int fd, const char *name);
struct relay_file *relay_file_ref(struct relay_file *f);
/* f NULL: nothing. */
void relay_file_unref(struct relay_file *f);
/* Closes a descriptor that a program has sent, without waiting. fd negative: does nothing. */
void relay_file_close(struct relay_thread *r, int fd);
/* Whether a program may be given room for descriptors; refused: what relay_file_is_refused() said of one that it has sent, 0:
 * nothing. */
bool relay_files_take(const struct relay_thread *r, uint64_t refused);
/* Whether the mount is silent and has too many descriptors to close: then *refused is a number for it, which is not 0, and
 * log and status name it. */
bool relay_file_is_refused(struct relay_thread *r, int fd, uint64_t *refused);
/* Whether it can be read or written as a file: 0 or negative errno. Its mount is not asked. */
int relay_file_check(int fd, bool read, bool write);

/* Writes a chunk's bytes into w->file, which is not in memory. LR_OK: relay_execute_written() is called when they are there,
 * or cannot be. */
enum lr_status relay_file_write(struct relay_thread *r, const struct relay_write *w);

/* Reads the stream's file, which is not in memory. NULL: no memory. */
struct relay_file_reader *relay_file_reader_new(struct relay_thread *r, struct relay_stream *s);
void relay_file_reader_free(struct relay_file_reader *rd);
/* How many bytes from there on, which are loaded, lie in one block: at most left. */
uint64_t relay_file_reader_run(const struct relay_file_reader *rd, uint64_t offset, uint64_t left);
/* Bytes that are loaded, of one block: each once. */
void relay_file_reader_take(struct relay_file_reader *rd, uint8_t *to, uint64_t offset, uint32_t len);

/* One turn's work for the mounts. True: something waits for room in a worker's ring. */
bool relay_files_turn(struct relay_thread *r);
/* How many descriptors of the link's programs wait to be closed. On any thread. */
uint32_t relay_files_unclosed(const struct relay_thread *r);
/* A file that does not answer; empty: all do. On any thread. */
void relay_files_silent(const struct relay_thread *r, char text[RELAY_SILENT_FILE_MAX]);
/* Ends the relay's use of files, when all clients and streams are gone: unfinished jobs are left to the mounts'
 * threads. */
void relay_files_close(struct relay_thread *r);

#endif
