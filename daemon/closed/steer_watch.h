/* SPDX-License-Identifier: Apache-2.0 */
/* steer_watch.h - notices changes of our rules in the kernel. */
#ifndef DAEMON_STEER_WATCH_H
#define DAEMON_STEER_WATCH_H

struct event_base;
struct steer_watch;

/* Calls fn on the main thread as soon as the kernel notifies a change of an nft table of ours or of its contents, or the
 * removal of a rule of ours in front of the routing tables, by any process, this one too; every second if there are no
 * notifications. fn must find out whether the rules differ from the
 * wanted ones. 0 or -ENOMEM. */
int steer_watch_open(struct steer_watch **out, struct event_base *base, void (*fn)(void *arg), void *arg);
void steer_watch_close(struct steer_watch *w);

#endif
