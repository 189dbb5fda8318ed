/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_text.h"

#include <event2/buffer.h>

void metrics_head(struct evbuffer *out, const char *family, const char *suffix, const char *type, const char *help)
{
	evbuffer_add_printf(out, "# HELP longreach_%s%s %s\n# TYPE longreach_%s%s %s\n", family, suffix, help, family,
	                    suffix, type);
}

void metrics_quoted(struct evbuffer *out, const char *text)
{
	evbuffer_add(out, "\"", 1);
	for (; *text != '\0'; text++)
		if (*text == '"' || *text == '\\')
			evbuffer_add_printf(out, "\\%c", *text);
		else
			evbuffer_add_printf(out, "%c", *text < ' ' || *text > '~' ? '?' : *text);
	evbuffer_add(out, "\"", 1);
}
