/* SPDX-License-Identifier: Apache-2.0 */
/* file_io.h - pread() and pwrite() until all is read or written. */
#ifndef DAEMON_FILE_IO_H
#define DAEMON_FILE_IO_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* 0 or -errno; -ENODATA: the file ends before that. */
static inline int pread_all(int fd, uint8_t *buf, size_t len, uint64_t offset)
{
	while (len > 0) {
		ssize_t n = pread(fd, buf, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		buf += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* 0 or -errno. */
static inline int pwrite_all(int fd, const uint8_t *buf, size_t len, uint64_t offset)
{
	while (len > 0) {
		ssize_t n = pwrite(fd, buf, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buf += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

#endif
