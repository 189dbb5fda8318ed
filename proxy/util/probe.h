/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - points at which bpftrace, perf or gdb can look into a running daemon (USDT, sys/sdt.h). A probe that no
 * tool watches is one nop: no call, no branch, no system call, so the core stays pure.
 *
 * A probe's name and arguments are an interface: longreach-probes(7) documents each, and tests/check_probes.sh compares
 * that page with what is in the program. Arguments are plain numbers. */
#ifndef PROXY_PROBE_H
#define PROXY_PROBE_H

#if defined(__has_include) && __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define PROBE2(name, a, b)          DTRACE_PROBE2(longreach, name, a, b)
#define PROBE3(name, a, b, c)       DTRACE_PROBE3(longreach, name, a, b, c)
#define PROBE4(name, a, b, c, d)    DTRACE_PROBE4(longreach, name, a, b, c, d)
#define PROBE5(name, a, b, c, d, e) DTRACE_PROBE5(longreach, name, a, b, c, d, e)
#else
#define PROBE2(name, a, b)          ((void)0)
#define PROBE3(name, a, b, c)       ((void)0)
#define PROBE4(name, a, b, c, d)    ((void)0)
#define PROBE5(name, a, b, c, d, e) ((void)0)
#endif

#endif
