/* SPDX-License-Identifier: Apache-2.0 */
#include "unix_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_parent(const char *path, const char *what, char err[CONFIG_ERR_MAX])
{
	char dir[UNIX_SOCKET_PATH_MAX];
	char *slash;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (slash == NULL || slash == dir)
		return 0;
	*slash = '\0';
	if (mkdir(dir, 0755) == 0 || errno == EEXIST)
		return 0;
	snprintf(err, CONFIG_ERR_MAX, "cannot make %s for %s: %s", dir, what, strerror(errno));
	return -errno;
}

/* True if something answers at the socket: another daemon. */
static bool is_alive(const struct sockaddr_un *sun)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool alive;

	if (fd < 0)
		return false;
	alive = connect(fd, (const struct sockaddr *)sun, sizeof(*sun)) == 0 || errno == EAGAIN;
	close(fd);
	return alive;
}

/* Removes a socket that an earlier daemon left behind; refuses to remove any other file. */
static int remove_stale(const char *path, const char *what, char err[CONFIG_ERR_MAX])
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode)) {
		snprintf(err, CONFIG_ERR_MAX, "%s: exists and is no socket: give %s another path, or remove the file",
		         path, what);
		return -EEXIST;
	}
	unlink(path);
	return 0;
}

int unix_socket_open(const char *path, mode_t mode, const char *what, char err[CONFIG_ERR_MAX])
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	mode_t old_mask;
	int fd, r;

	if (strlen(path) >= sizeof(sun.sun_path)) {
		snprintf(err, CONFIG_ERR_MAX, "%s: too long for a socket: at most %zu characters", path,
		         sizeof(sun.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	r = make_parent(path, what, err);
	if (r < 0)
		return r;
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	if (is_alive(&sun)) {
		snprintf(err, CONFIG_ERR_MAX,
		         "%s: another longreachd is running: stop it, or give %s another path", path, what);
		return -EADDRINUSE;
	}
	r = remove_stale(path, what, err);
	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		r = -errno;
		snprintf(err, CONFIG_ERR_MAX, "%s: cannot make %s: %s", path, what, strerror(-r));
		return r;
	}
	old_mask = umask(0777 & ~mode);
	r = bind(fd, (struct sockaddr *)&sun, sizeof(sun));
	umask(old_mask);
	if (r == 0)
		return fd;
	r = -errno;
	snprintf(err, CONFIG_ERR_MAX, "%s: cannot make %s: %s", path, what, strerror(-r));
	close(fd);
	return r;
}
