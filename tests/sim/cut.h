/* SPDX-License-Identifier: Apache-2.0 */
/* cut.h - named runs: what lives through a WAN that is cut for ten seconds, and what dies when. Each returns an exit
 * code. */
#ifndef SIM_CUT_H
#define SIM_CUT_H

/* "list" lists, "all" runs all. */
int cut_run(const char *name);

#endif
