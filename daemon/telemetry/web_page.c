/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memmem */
#include "web_page.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/sha.h>

/* The file as it is, from the repository's root, where every build runs. */
__asm__(".section .rodata\n"
        ".global web_page, web_page_end\n"
        "web_page:\n"
        ".incbin \"daemon/telemetry/page.html\"\n"
        "web_page_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const char web_page_end[];

size_t web_page_len(void)
{
	return (size_t)(web_page_end - web_page);
}

/* 'sha256-BASE64' of what is between <NAME> and </NAME>. */
static int hash_of(const char *name, char hash[64])
{
	const char *begin, *end, *page = web_page;
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char open[16], close[16];

	snprintf(open, sizeof(open), "<%s>", name);
	snprintf(close, sizeof(close), "</%s>", name);
	begin = memmem(page, web_page_len(), open, strlen(open));
	if (begin == NULL)
		return -EINVAL;
	begin += strlen(open);
	end = memmem(begin, web_page_len() - (size_t)(begin - page), close, strlen(close));
	if (end == NULL)
		return -EINVAL;
	SHA256((const unsigned char *)begin, (size_t)(end - begin), digest);
	EVP_EncodeBlock((unsigned char *)hash, digest, sizeof(digest));
	return 0;
}

int web_page_policy(char policy[WEB_PAGE_POLICY_MAX])
{
	char style[64], script[64];

	if (hash_of("style", style) < 0 || hash_of("script", script) < 0)
		return -EINVAL;
	snprintf(policy, WEB_PAGE_POLICY_MAX,
	         "default-src 'none'; style-src 'sha256-%s'; script-src 'sha256-%s'; connect-src 'self'; img-src data:; "
	         "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	         style, script);
	return 0;
}
