/* SPDX-License-Identifier: Apache-2.0 */
/* fault.h - what is to go wrong in fakecuda, and how long its copies take.
 *
 * Words of $FAKECUDA_FAIL, and of the file $FAKECUDA_CTL, which is read again when it has changed:
 *
 *     cuMemcpyDtoHAsync:700@3    the third call from now on returns 700; without @: the first one. Names have no version
 *     copy:719@2                 the second copy from now on is never done: its stream ends with 719, asynchronously
 *     copy_us=100000             each copy takes so long, and up to half more or less. 0: as long as memory takes */
#ifndef FAKECUDA_FAULT_H
#define FAKECUDA_FAULT_H

#include <stdint.h>

/* 0, or the error of this call. Not thread-safe: under the lock of fakecuda. */
int fault_now(const char *function);
uint32_t fault_copy_us(void);

#endif
