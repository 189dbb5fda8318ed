/* SPDX-License-Identifier: Apache-2.0 */
/* version.h - what --version, status and hello say. */
#ifndef DAEMON_VERSION_H
#define DAEMON_VERSION_H

#define LONGREACH_VERSION "0.1.0"

#endif
