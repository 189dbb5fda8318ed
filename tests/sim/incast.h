/* SPDX-License-Identifier: Apache-2.0 */
/* incast.h - named run: many queue pairs of many hosts into one port. Returns an exit code. */
#ifndef SIM_INCAST_H
#define SIM_INCAST_H

int incast_run(void);

#endif
