/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "proxy/fault.h"

struct fault {
	const char *name, *rule, *what;
};

static const struct fault faults[FAULT_COUNT] = {
#define X(name, rule, what) {#name, rule, what},
#include "proxy/fault_list.h"
#undef X
};

/* "WRONG_MSN" is called wrong_msn. */
static const char *lower(const char *name)
{
	static char s[64];
	size_t i;

	for (i = 0; name[i] && i < sizeof(s) - 1; i++)
		s[i] = (char)tolower((unsigned char)name[i]);
	s[i] = 0;
	return s;
}

const char *faults_name(int fault)
{
	return lower(faults[fault].name);
}

const char *faults_rule(int fault)
{
	return faults[fault].rule;
}

bool faults_set(const char *name)
{
	for (int i = 0; i < FAULT_COUNT; i++) {
		if (strcmp(name, lower(faults[i].name)) == 0) {
			proxy_faults[i] = true;
			return true;
		}
	}
	return false;
}

void faults_only(int fault)
{
	for (int i = 0; i < FAULT_COUNT; i++)
		proxy_faults[i] = i == fault;
}

void faults_list(void)
{
	for (int i = 0; i < FAULT_COUNT; i++)
		printf("%-24s %-58s %s\n", faults_name(i), faults[i].rule, faults[i].what);
}
