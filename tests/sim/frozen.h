/* SPDX-License-Identifier: Apache-2.0 */
/* frozen.h - named run: what a host that stands still costs all others. Returns an exit code. */
#ifndef SIM_FROZEN_H
#define SIM_FROZEN_H

int frozen_run(void);

#endif
