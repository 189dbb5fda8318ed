/* SPDX-License-Identifier: Apache-2.0 */
/* pause_link.h - a lossless link, frame by frame: does the computed headroom hold, and is it no larger than it must
 * be? */
#ifndef SIM_PAUSE_LINK_H
#define SIM_PAUSE_LINK_H

/* All lengths and rates; prints a table, returns an exit code. */
int pause_link_run(void);

#endif
