/* SPDX-License-Identifier: Apache-2.0 */
/* bench_seal.c - cost of a datagram's cipher, by each library built in: nanoseconds to seal and open one
 * record, and gigabytes sealed or opened per second. longreachd measures the same at its start and takes the faster
 * library. */
#include <stdio.h>

#include "seal/aead.h"

#define LENS 4

int main(void)
{
	static const size_t lens[LENS] = {256, 1456, 4096, 8956};

	printf("seal and open one record; * is what longreachd takes here\n%-20s %-16s", "cipher", "library");
	for (size_t i = 0; i < LENS; i++)
		printf(" %10zu B", lens[i]);
	printf(" %10s\n", "GB/s");
	for (unsigned c = SEAL_NONE + 1; c < SEAL_CIPHER_COUNT; c++) {
		double ns[LENS][SEAL_LIBRARIES_MAX];

		for (size_t i = 0; i < LENS; i++)
			seal_aead_measure_all(c, lens[i], ns[i]);
		for (unsigned l = 0; seal_aeads[l] != NULL; l++) {
			printf("%-20s %-15s%c", seal_cipher_name(c), seal_aeads[l]->name,
			       seal_aead_best(c) == seal_aeads[l] ? '*' : ' ');
			for (size_t i = 0; i < LENS; i++)
				printf(" %9.0f ns", ns[i][l]);
			printf(" %10.1f\n", ns[LENS - 1][l] > 0 ? 2 * (double)lens[LENS - 1] / ns[LENS - 1][l] : 0);
		}
	}
	return 0;
}
