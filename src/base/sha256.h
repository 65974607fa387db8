/* SHA-256 (FIPS 180-4) in one go: for ids. The engine may not load a crypto library for it. */
#ifndef CUBBY_BASE_SHA256_H
#define CUBBY_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

void sha256(const void *data, size_t len, uint8_t ret_digest[32]);

#endif
