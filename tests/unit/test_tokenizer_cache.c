/* Pieces and their ids: what is found again, what is replaced, and what has no slot. */
#include "engine/text/tokenizer_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/mem.h"

static void pieces_are_found_again(void **state)
{
    (void)state;
    struct tokenizer_cache cache;
    uint32_t ids[TOKENIZER_CACHE_IDS + 1] = {7, 8, 9};
    tokenizer_cache_init(&cache, TOKENIZER_CACHE_TEXT);
    assert_null(tokenizer_cache_find(&cache, SLICE(" the")));
    tokenizer_cache_keep(&cache, SLICE(" the"), ids, 3);
    const struct tokenizer_cache_slot *slot = tokenizer_cache_find(&cache, SLICE(" the"));
    assert_non_null(slot);
    assert_int_equal(slot->count, 3);
    assert_memory_equal(slot->ids, ids, 3 * sizeof ids[0]);
    assert_null(tokenizer_cache_find(&cache, SLICE(" th")));
    assert_null(tokenizer_cache_find(&cache, SLICE("")));
    tokenizer_cache_keep(&cache, SLICE("many"), ids, TOKENIZER_CACHE_IDS + 1);
    assert_null(tokenizer_cache_find(&cache, SLICE("many")));
    tokenizer_cache_keep(&cache, SLICE("none"), NULL, 0); /* bytes without a token */
    assert_int_equal(tokenizer_cache_find(&cache, SLICE("none"))->count, 0);
    tokenizer_cache_deinit(&cache);
}

static void lengths_have_a_bound(void **state)
{
    (void)state;
    struct tokenizer_cache cache;
    char bytes[TOKENIZER_CACHE_BYTES + 1];
    uint32_t id = 5;
    memset(bytes, 'a', sizeof bytes);
    tokenizer_cache_init(&cache, TOKENIZER_CACHE_TEXT);
    for (size_t length = TOKENIZER_CACHE_BYTES; length <= sizeof bytes; length++) {
        struct slice piece = {bytes, length};
        tokenizer_cache_keep(&cache, piece, &id, 1);
        assert_int_equal(tokenizer_cache_find(&cache, piece) != NULL,
                         length <= TOKENIZER_CACHE_BYTES);
    }
    tokenizer_cache_deinit(&cache);
}

/* More pieces than slots: what is found is always the piece's own. */
static void a_new_piece_replaces_an_old_one(void **state)
{
    (void)state;
    enum { PIECES = 4 * TOKENIZER_CACHE_SLOTS };
    struct tokenizer_cache cache;
    uint32_t found = 0;
    char text[16];
    tokenizer_cache_init(&cache, TOKENIZER_CACHE_TEXT);
    for (uint32_t i = 0; i < PIECES; i++) {
        snprintf(text, sizeof text, "piece %u", i);
        tokenizer_cache_keep(&cache, slice_of(text), &i, 1);
    }
    for (uint32_t i = 0; i < PIECES; i++) {
        snprintf(text, sizeof text, "piece %u", i);
        const struct tokenizer_cache_slot *slot = tokenizer_cache_find(&cache, slice_of(text));
        found += slot != NULL;
        assert_true(slot == NULL || (slot->count == 1 && slot->ids[0] == i));
    }
    assert_true(found > TOKENIZER_CACHE_SLOTS / 2);
    assert_true(found <= TOKENIZER_CACHE_SLOTS);
    tokenizer_cache_deinit(&cache);
}

static int fail_all(void *context, size_t bytes)
{
    (void)context, (void)bytes;
    return 1;
}

static void a_text_does_without(void **state)
{
    (void)state;
    struct tokenizer_cache cache;
    uint32_t id = 5;
    tokenizer_cache_init(&cache, TOKENIZER_CACHE_TEXT - 1);
    tokenizer_cache_keep(&cache, SLICE("a"), &id, 1);
    assert_null(tokenizer_cache_find(&cache, SLICE("a")));
    tokenizer_cache_deinit(&cache);
    mem_hook_set(fail_all, NULL);
    tokenizer_cache_init(&cache, TOKENIZER_CACHE_TEXT);
    mem_hook_set(NULL, NULL);
    tokenizer_cache_keep(&cache, SLICE("a"), &id, 1);
    assert_null(tokenizer_cache_find(&cache, SLICE("a")));
    tokenizer_cache_deinit(&cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_found_again),
        cmocka_unit_test(lengths_have_a_bound),
        cmocka_unit_test(a_new_piece_replaces_an_old_one),
        cmocka_unit_test(a_text_does_without),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
