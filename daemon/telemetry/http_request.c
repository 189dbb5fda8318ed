/* SPDX-License-Identifier: Apache-2.0 */
/* http_request.c - RFC 9112, sections 2 and 3, for GET and HEAD. Headers are skipped: none changes the answer. */
#include "http_request.h"

#include <stdint.h>
#include <string.h>

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

enum http_status http_request_parse(const char *text, size_t len, struct http_request *r)
{
	size_t head = head_length(text, len < HTTP_HEAD_MAX ? len : HTTP_HEAD_MAX);
	struct text line, method, target;

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
	return take_target(target, r);
}

const char *http_status_text(enum http_status s)
{
	switch (s) {
	case HTTP_OK:
		return "OK";
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
