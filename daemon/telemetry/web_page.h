/* SPDX-License-Identifier: Apache-2.0 */
/* web_page.h - the page that shows the links in a browser: page.html, one file that loads nothing else. */
#ifndef DAEMON_WEB_PAGE_H
#define DAEMON_WEB_PAGE_H

#include <stddef.h>

extern const char web_page[];
size_t web_page_len(void);

/* Value of Content-Security-Policy: the page's own style and script, by their hashes, and requests to where it came
 * from; nothing else. 0 or -EINVAL: the page has no such parts. */
#define WEB_PAGE_POLICY_MAX 512
int web_page_policy(char policy[WEB_PAGE_POLICY_MAX]);

#endif
