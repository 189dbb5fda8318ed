/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.h - wanline's account of itself: is the model right, how precise is the clock, how fast can it go. */
#ifndef WANLINE_SELFTEST_H
#define WANLINE_SELFTEST_H

/* Checks the model in virtual time, then measures in a network namespace of its own (root; not with 0 seconds).
 * The exit status. */
int selftest(double seconds);

#endif
