/* SPDX-License-Identifier: Apache-2.0 */
/* copy_pull.h - `longreach copy`: to the other site, or from there to here. */
#ifndef COPY_PULL_H
#define COPY_PULL_H

int copy_main(int argc, char **argv);

#endif
