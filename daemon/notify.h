/* SPDX-License-Identifier: Apache-2.0 */
/* notify.h - telling systemd how the service is, by sd_notify(3)'s protocol. Nothing happens without $NOTIFY_SOCKET. */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

void notify_ready(unsigned links);
void notify_reloading(void);
void notify_stopping(void);

#endif
