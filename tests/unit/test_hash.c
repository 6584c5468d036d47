#include "config/base/hash.h"

#include "tests/unit/base_kit.h"

/* SipHash-c-d once more, straight from the paper and byte by byte: proved by the paper's vector for
 * 2-4, then the judge of 1-3. */
struct sip {
    uint64_t a, b, c, d;
};

static uint64_t turn(uint64_t x, unsigned by)
{
    return x << by | x >> (64u - by);
}

static void mix(struct sip *s, int rounds)
{
    while (rounds-- > 0) {
        s->a += s->b;
        s->c += s->d;
        s->b = turn(s->b, 13);
        s->d = turn(s->d, 16);
        s->b ^= s->a;
        s->d ^= s->c;
        s->a = turn(s->a, 32);
        s->c += s->b;
        s->a += s->d;
        s->b = turn(s->b, 17);
        s->d = turn(s->d, 21);
        s->b ^= s->c;
        s->d ^= s->a;
        s->c = turn(s->c, 32);
    }
}

static uint64_t model(uint64_t k0, uint64_t k1, const unsigned char *in, size_t length, int c,
                      int d)
{
    static const char magic[] = "somepseudorandomlygeneratedbytes";
    uint64_t start[4] = {0};
    for (int i = 0; i < 32; i++)
        start[i / 8] = start[i / 8] << 8 | (unsigned char)magic[i];
    struct sip s = {start[0] ^ k0, start[1] ^ k1, start[2] ^ k0, start[3] ^ k1};
    size_t padded = (length / 8 + 1) * 8;
    uint64_t word = 0;
    for (size_t i = 0; i < padded; i++) {
        uint64_t byte = i < length ? in[i] : i + 1 == padded ? length & 0xff : 0;
        word |= byte << (i % 8 * 8);
        if (i % 8 == 7) {
            s.d ^= word;
            mix(&s, c);
            s.a ^= word;
            word = 0;
        }
    }
    s.c ^= 0xff;
    mix(&s, d);
    return s.a ^ s.b ^ s.c ^ s.d;
}

static const struct hash_key key = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};

static void test_sip_hash(void **state)
{
    (void)state;
    unsigned char in[600];
    for (int i = 0; i < 600; i++)
        in[i] = (unsigned char)i;
    /* Appendix A of the paper: key 00 … 0f, message 00 … 0e, SipHash-2-4. */
    assert_true(model(key.k0, key.k1, in, 15, 2, 4) == 0xa129ca6149be45e5u);
    for (size_t length = 0; length <= 600; length++)
        assert_true(hash_bytes(&key, in, length) == model(key.k0, key.k1, in, length, 1, 3));
    assert_true(hash_bytes(&key, in, 0) == 0xabac0158050fc4dcu);
    assert_true(hash_bytes(&key, NULL, 0) == hash_bytes(&key, in, 0));
    for (size_t shift = 1; shift < 8; shift++) { /* unaligned */
        unsigned char moved[40];
        memcpy(moved + shift, in, 20);
        assert_true(hash_bytes(&key, moved + shift, 20) == hash_bytes(&key, in, 20));
    }
    struct hash_key other = key;
    other.k1 ^= 1;
    assert_true(hash_bytes(&other, in, 9) != hash_bytes(&key, in, 9));
}

static void test_process_key(void **state)
{
    (void)state;
    const struct hash_key *first = hash_process_key();
    assert_ptr_equal(first, hash_process_key());
    assert_true(first->k0 != 0 || first->k1 != 0);
}

/* One bit at a time, no table. */
static uint32_t model_crc(const unsigned char *in, size_t length)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < length * 8; i++) {
        uint32_t bit = ((uint32_t)in[i / 8] >> (i % 8) & 1u) ^ (crc & 1u);
        crc = crc >> 1 ^ (bit != 0 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void test_crc32(void **state)
{
    (void)state;
    assert_int_equal(hash_crc32("123456789", 9), 0xcbf43926u);
    assert_int_equal(hash_crc32("", 0), 0);
    unsigned char in[300];
    for (size_t length = 0; length < 300; length++) {
        in[length] = (unsigned char)(length * 7 + 3);
        assert_int_equal(hash_crc32(in, length), model_crc(in, length));
    }
}

static void test_mix_is_a_bijection(void **state)
{
    (void)state;
    /* Undone step by step: the multipliers' inverses modulo 2^64. */
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t in = i * 0x123456789abcdefu;
        uint64_t x = hash_mix64(in);
        x ^= x >> 31 ^ x >> 62;
        x *= 0x319642b2d24d8ec3u;
        x ^= x >> 27 ^ x >> 54;
        x *= 0x96de1b173f119089u;
        x ^= x >> 30 ^ x >> 60;
        assert_true(x == in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sip_hash),
        cmocka_unit_test(test_process_key),
        cmocka_unit_test(test_crc32),
        cmocka_unit_test(test_mix_is_a_bijection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
