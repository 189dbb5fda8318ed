/* SPDX-License-Identifier: Apache-2.0 */
/* http_request.c - RFC 9112, sections 2 and 3, for GET and HEAD. Headers other than Host are skipped. */
#include "http_request.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct text {
	const char *at;
	size_t len;
};

/* The head ends with an empty line. SIZE_MAX: it has not ended. */
static size_t head_length(const char *text, size_t len)
{
	for (size_t i = 0; i + 1 < len; i++) {
		if (text[i] != '\n')
			continue;
		if (text[i + 1] == '\n')
			return i + 2;
		if (text[i + 1] == '\r' && i + 2 < len && text[i + 2] == '\n')
			return i + 3;
	}
	return SIZE_MAX;
}

static bool is(struct text t, const char *word)
{
	return t.len == strlen(word) && memcmp(t.at, word, t.len) == 0;
}

/* Up to the next space; the rest begins behind it. */
static struct text next_word(struct text *rest)
{
	const char *space = memchr(rest->at, ' ', rest->len);
	struct text word = {rest->at, space != NULL ? (size_t)(space - rest->at) : rest->len};
	size_t used = word.len + (space != NULL);

	rest->at += used;
	rest->len -= used;
	return word;
}

static struct text first_line(const char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);
	size_t n = end != NULL ? (size_t)(end - text) : len;

	if (n > 0 && text[n - 1] == '\r')
		n--;
	return (struct text){text, n};
}

static bool is_printable(struct text t)
{
	for (size_t i = 0; i < t.len; i++)
		if (t.at[i] < ' ' || t.at[i] > '~')
			return false;
	return true;
}

static enum http_status take_target(struct text target, struct http_request *r)
{
	const char *query = memchr(target.at, '?', target.len);
	size_t len = query != NULL ? (size_t)(query - target.at) : target.len;

	if (len == 0 || target.at[0] != '/')
		return HTTP_BAD_REQUEST;
	if (len >= sizeof(r->path))
		return HTTP_NOT_FOUND;
	memcpy(r->path, target.at, len);
	r->path[len] = '\0';
	return HTTP_OK;
}

/* Fields of the head behind its first line. RFC 9112, section 3.2: more than one Host is refused. */
static enum http_status take_host(const char *text, size_t len, struct http_request *r)
{
	static const char name[] = "host:";
	size_t name_len = sizeof(name) - 1;

	r->host[0] = '\0';
	for (const char *at = memchr(text, '\n', len); at != NULL;) {
		size_t left = len - (size_t)(++at - text);
		struct text line = first_line(at, left);

		at = memchr(at, '\n', left);
		if (line.len < name_len || strncasecmp(line.at, name, name_len) != 0)
			continue;
		for (line.at += name_len, line.len -= name_len; line.len > 0 && line.at[0] == ' '; line.at++)
			line.len--;
		if (r->host[0] != '\0' || line.len >= sizeof(r->host) || !is_printable(line))
			return HTTP_BAD_REQUEST;
		memcpy(r->host, line.at, line.len);
		r->host[line.len] = '\0';
	}
	return HTTP_OK;
}

bool http_host_is_local(const char *host)
{
	const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
	size_t skip = host[0] == '[', len = (end != NULL ? (size_t)(end - host) : strlen(host)) - skip;
	struct in6_addr six;
	struct in_addr four;
	char name[64];

	if (host[0] == '\0')
		return true;
	if (len >= sizeof(name))
		return false;
	memcpy(name, host + skip, len);
	name[len] = '\0';
	if (inet_pton(AF_INET, name, &four) == 1)
		return ntohl(four.s_addr) >> 24 == 127;
	if (skip && inet_pton(AF_INET6, name, &six) == 1)
		return IN6_IS_ADDR_LOOPBACK(&six);
	return strcasecmp(name, "localhost") == 0;
}

enum http_status http_request_parse(const char *text, size_t len, struct http_request *r)
{
	size_t head = head_length(text, len < HTTP_HEAD_MAX ? len : HTTP_HEAD_MAX);
	struct text line, method, target;
	enum http_status status;

	if (head == SIZE_MAX)
		return len >= HTTP_HEAD_MAX ? HTTP_HEAD_TOO_LARGE : HTTP_INCOMPLETE;
	line = first_line(text, head);
	method = next_word(&line);
	target = next_word(&line);
	if (!is_printable(method) || !is_printable(target) || method.len == 0)
		return HTTP_BAD_REQUEST;
	if (!is(line, "HTTP/1.1") && !is(line, "HTTP/1.0"))
		return line.len > 5 && memcmp(line.at, "HTTP/", 5) == 0 ? HTTP_BAD_VERSION : HTTP_BAD_REQUEST;
	r->head_only = is(method, "HEAD");
	if (!r->head_only && !is(method, "GET"))
		return HTTP_BAD_METHOD;
	status = take_target(target, r);
	return status == HTTP_OK ? take_host(text, head, r) : status;
}

const char *http_status_text(enum http_status s)
{
	switch (s) {
	case HTTP_OK:
		return "OK";
	case HTTP_FORBIDDEN:
		return "Forbidden";
	case HTTP_NOT_FOUND:
		return "Not Found";
	case HTTP_BAD_METHOD:
		return "Method Not Allowed";
	case HTTP_HEAD_TOO_LARGE:
		return "Request Header Fields Too Large";
	case HTTP_NO_MEMORY:
		return "Service Unavailable";
	case HTTP_BAD_VERSION:
		return "HTTP Version Not Supported";
	default:
		return "Bad Request";
	}
}
