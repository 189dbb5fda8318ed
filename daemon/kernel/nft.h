/* SPDX-License-Identifier: Apache-2.0 */
/* nft.h - the program nft, with a script or a question. Blocks until it has ended: main thread only. */
#ifndef DAEMON_NFT_H
#define DAEMON_NFT_H

#define NFT_OUTPUT_MAX 256 /* of its complaint */

/* Runs a script, all of it or nothing. 0, or -EIO with the first line of nft's error message in why. */
int nft_run(const char *script, char why[NFT_OUTPUT_MAX]);

/* nft's output for the arguments (NULL at the end), malloc'ed; NULL with the error message in why. */
char *nft_ask(const char *const *args, char why[NFT_OUTPUT_MAX]);

#endif
