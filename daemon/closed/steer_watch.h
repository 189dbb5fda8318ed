/* SPDX-License-Identifier: Apache-2.0 */
/* steer_watch.h - whether somebody is at our rules in the kernel. */
#ifndef DAEMON_STEER_WATCH_H
#define DAEMON_STEER_WATCH_H

struct event_base;
struct steer_watch;

/* Calls fn on the main thread as soon as nftables says that a table of ours, or what is in it, was changed, by whomever:
 * this process too; every second where nftables cannot be heard. Whether it differs from what is wanted is for fn to find
 * out. 0 or -ENOMEM. */
int steer_watch_open(struct steer_watch **out, struct event_base *base, void (*fn)(void *arg), void *arg);
void steer_watch_close(struct steer_watch *w);

#endif
