/* SPDX-License-Identifier: Apache-2.0 */
/* http_request.h - the head of an HTTP/1.x request, as far as a read-only server needs it. Pure. */
#ifndef DAEMON_HTTP_REQUEST_H
#define DAEMON_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_HEAD_MAX 8192 /* request line and headers; Prometheus sends a few hundred bytes */
#define HTTP_PATH_MAX 64   /* longer ones are not found here */
#define HTTP_HOST_MAX 256

enum http_status {
	HTTP_INCOMPLETE = 0,
	HTTP_OK = 200,
	HTTP_BAD_REQUEST = 400,
	HTTP_FORBIDDEN = 403,
	HTTP_NOT_FOUND = 404,
	HTTP_BAD_METHOD = 405,
	HTTP_HEAD_TOO_LARGE = 431,
	HTTP_NO_MEMORY = 503,
	HTTP_BAD_VERSION = 505,
};

struct http_request {
	bool head_only;           /* HEAD: the answer has no body */
	char path[HTTP_PATH_MAX]; /* without the query */
	char host[HTTP_HOST_MAX]; /* Host, empty if there is none */
};

/* Parses the bytes received so far. HTTP_OK: r is set. HTTP_INCOMPLETE: more bytes are needed. Else the status to
 * answer. */
enum http_status http_request_parse(const char *text, size_t len, struct http_request *r);
/* True if the host is this machine: localhost or a loopback address, with or without a port, or empty. A page of
 * another web site whose name resolves to this machine (DNS rebinding) sends its own name. */
bool http_host_is_local(const char *host);
const char *http_status_text(enum http_status s);

#endif
