#include "engine/grammar/token_trie.h"

#include "config/base/rng.h"
#include "tests/kit/rounds.h"
#include "tests/unit/base_kit.h"

enum { VOCAB = 400, WORDS = (VOCAB + 31) / 32 };

struct words {
    char bytes[VOCAB][300];
    uint32_t length[VOCAB];
    uint32_t count;
};

static struct slice bytes_of(const void *context, uint32_t id)
{
    const struct words *words = context;
    return (struct slice){words->bytes[id], words->length[id]};
}

static struct token_trie *make(const struct words *words)
{
    struct token_trie *trie;
    struct token_trie_source source = {words->count, bytes_of, words};
    assert_int_equal(token_trie_new(&source, &trie), STATUS_OK);
    return trie;
}

static void add(struct words *words, const char *bytes, uint32_t length)
{
    memcpy(words->bytes[words->count], bytes, length);
    words->length[words->count++] = length;
}

/* Walks all nodes: checks order, depth and size, and that each token's bytes are the path. Counts
 * how often each id is met. */
static void check_nodes(const struct token_trie *trie, const struct token_trie_part *part,
                        uint32_t *met)
{
    char path[TOKEN_TRIE_DEPTH + 1];
    uint32_t ends[TOKEN_TRIE_DEPTH + 1] = {part->count};
    assert_int_equal(part->nodes[0].size, part->count);
    assert_int_equal(part->nodes[0].depth, 0);
    for (uint32_t i = 1; i < part->count; i++) {
        const struct token_trie_node *node = &part->nodes[i];
        uint32_t depth = node->depth;
        assert_in_range(depth, 1, part->nodes[i - 1].depth + 1u);
        assert_true(i < ends[depth - 1]);
        ends[depth] = i + (uint32_t)node->size;
        assert_true(ends[depth] <= ends[depth - 1]);
        if (part->nodes[i - 1].depth >= depth) { /* siblings rise */
            uint32_t before = i - 1;
            while (part->nodes[before].depth > depth)
                before--;
            assert_true(part->nodes[before].byte < node->byte);
        }
        path[depth - 1] = (char)node->byte;
        /* A node without a token has others below it. */
        assert_true(node->token != TOKEN_TRIE_NONE || node->size > 1);
        for (uint32_t id = node->token; id != TOKEN_TRIE_NONE; id = token_trie_next(trie, id)) {
            struct slice bytes = token_trie_bytes(trie, id);
            assert_int_equal(bytes.length, depth);
            assert_memory_equal(bytes.bytes, path, depth);
            met[id]++;
        }
    }
}

/* Every id is met once, or not at all if it has no bytes; equal ids form rising chains. */
static void test_random(void **state)
{
    (void)state;
    static struct words words;
    static uint32_t met[VOCAB];
    for (uint32_t round = 0; round < rounds(60, 2000); round++) {
        struct rng rng = {round, 0};
        words.count = 0;
        uint32_t count = (uint32_t)rng_below(&rng, VOCAB),
                 letters = 1 + (uint32_t)rng_below(&rng, 9);
        for (uint32_t id = 0; id < count; id++) {
            char bytes[12];
            uint32_t length = (uint32_t)rng_below(&rng, sizeof bytes);
            for (uint32_t i = 0; i < length; i++)
                bytes[i] = (char)(250 + rng_below(&rng, letters));
            add(&words, bytes, length);
        }
        struct token_trie *trie = make(&words);
        memset(met, 0, sizeof met);
        check_nodes(trie, &trie->all, met);
        for (uint32_t id = 0; id < count; id++) {
            assert_int_equal(met[id], words.length[id] != 0);
            assert_true(token_trie_next(trie, id) > id);
        }
        uint32_t without[WORDS];
        for (uint32_t i = 0; i < WORDS; i++)
            without[i] = (uint32_t)rng_next(&rng) | (uint32_t)rng_next(&rng);
        struct token_trie_part part;
        assert_int_equal(token_trie_part_new(trie, without, &part), STATUS_OK);
        memset(met, 0, sizeof met);
        check_nodes(trie, &part, met);
        for (uint32_t i = 0; i < trie->all.count; i++) {
            uint32_t id = trie->all.nodes[i].token;
            for (uint32_t of = id; of != TOKEN_TRIE_NONE; of = token_trie_next(trie, of))
                assert_int_equal(met[of], (without[id / 32] >> id % 32 & 1) == 0);
        }
        token_trie_part_free(&part);
        token_trie_free(trie);
    }
}

static void test_edges(void **state)
{
    (void)state;
    static struct words words;
    static char large[300];
    words.count = 0;
    memset(large, 'x', sizeof large);
    struct token_trie *trie = make(&words);
    assert_int_equal(token_trie_node_count(trie), 1);
    assert_int_equal(token_trie_mask_words(trie), 0);
    token_trie_free(trie);

    add(&words, "a", 1);
    add(&words, "", 0);      /* a control token */
    add(&words, large, 255); /* the longest one */
    add(&words, large, 256); /* too long */
    add(&words, "a", 1);
    add(&words, "\0", 1);
    trie = make(&words);
    assert_int_equal(token_trie_node_count(trie), 1 + 1 + 255 + 1);
    assert_int_equal(token_trie_next(trie, 0), 4);
    assert_int_equal(token_trie_next(trie, 4), TOKEN_TRIE_NONE);
    assert_int_equal(token_trie_bytes(trie, 1).length, 0);
    assert_int_equal(token_trie_bytes(trie, 3).length, 0);
    assert_int_equal(token_trie_bytes(trie, 2).length, 255);
    struct byte_set missing = token_trie_missing(trie);
    for (uint32_t byte = 0; byte < 256; byte++)
        assert_int_equal(byte_set_has(&missing, (uint8_t)byte),
                         byte != 'a' && byte != 'x' && byte != 0);
    token_trie_free(trie);

    struct token_trie_source source = {TOKEN_TRIE_NONE, bytes_of, &words};
    assert_int_equal(token_trie_new(&source, &trie), STATUS_LIMIT);
}

static void test_no_memory(void **state)
{
    (void)state;
    static struct words words;
    words.count = 0;
    add(&words, "ab", 2);
    add(&words, "ab", 2);
    struct token_trie_source source = {words.count, bytes_of, &words};
    enum status status = STATUS_NO_MEMORY;
    int n = 0;
    while (status != STATUS_OK) {
        int left = ++n;
        struct token_trie *trie;
        struct token_trie_part part = {NULL, 0};
        uint32_t without[1] = {0};
        mem_hook_set(kit_fail_at, &left);
        status = token_trie_new(&source, &trie);
        if (status == STATUS_OK)
            status = token_trie_part_new(trie, without, &part);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        token_trie_part_free(&part);
        token_trie_free(trie);
    }
    assert_in_range(n, 6, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
