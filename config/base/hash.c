#include "config/base/hash.h"

#include <pthread.h>
#include <string.h>

#include "config/base/random_bytes.h"

static inline uint64_t rotate_left(uint64_t value, int by)
{
    return (value << by) | (value >> (64 - by));
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate_left(v[1], 13) ^ v[0];
    v[0] = rotate_left(v[0], 32);
    v[2] += v[3];
    v[3] = rotate_left(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate_left(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate_left(v[1], 17) ^ v[2];
    v[2] = rotate_left(v[2], 32);
}

uint64_t hash_bytes(const struct hash_key *key, const void *bytes, size_t length)
{
    const unsigned char *cursor = bytes;
    uint64_t v[4] = {key->k0 ^ 0x736f6d6570736575u, key->k1 ^ 0x646f72616e646f6du,
                     key->k0 ^ 0x6c7967656e657261u, key->k1 ^ 0x7465646279746573u};
    size_t whole = length / 8;
    for (size_t i = 0; i < whole; i++) {
        uint64_t word;
        memcpy(&word, cursor + i * 8, 8); /* Banyan runs on little-endian machines only */
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)length << 56;
    for (size_t i = 0; i < length % 8; i++)
        last |= (uint64_t)cursor[whole * 8 + i] << (8 * i);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static struct hash_key process_key;
static pthread_once_t process_key_once = PTHREAD_ONCE_INIT;

static void process_key_draw(void)
{
    random_bytes(&process_key, sizeof process_key);
}

const struct hash_key *hash_process_key(void)
{
    pthread_once(&process_key_once, process_key_draw);
    return &process_key;
}

static uint32_t crc_table[256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_table_fill(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t remainder = byte;
        for (int bit = 0; bit < 8; bit++)
            remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? 0xedb88320u : 0);
        crc_table[byte] = remainder;
    }
}

uint32_t hash_crc32(const void *bytes, size_t length)
{
    pthread_once(&crc_once, crc_table_fill);
    const unsigned char *cursor = bytes;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < length; i++)
        crc = (crc >> 8) ^ crc_table[(crc ^ cursor[i]) & 0xff];
    return ~crc;
}
