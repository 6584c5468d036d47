/* The stream of shown text against a naive search over the whole text, in random cuts. */
#include "engine/sampling/text_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "config/base/rng.h"
#include "config/base/utf8.h"

static struct text_stream stream;

static void begin(const char *const *stops, uint32_t count)
{
    struct slice slices[LIMIT_STOP_STRINGS] = {{NULL, 0}};
    for (uint32_t i = 0; i < count; i++)
        slices[i] = slice_of(stops[i]);
    assert_int_equal(text_stream_init(&stream, slices, count), STATUS_OK);
}

static void expect_push(const char *bytes, const char *want)
{
    struct slice got = text_stream_push(&stream, slice_of(bytes), false);
    assert_int_equal(got.length, strlen(want));
    assert_memory_equal(got.bytes, want, got.length);
}

static void expect_flush(const char *want)
{
    struct slice got = text_stream_flush(&stream);
    assert_int_equal(got.length, strlen(want));
    assert_memory_equal(got.bytes, want, got.length);
}

static void sequences_are_never_cut(void **state)
{
    (void)state;
    begin(NULL, 0);
    expect_push("a\xf0\x9f", "a");
    expect_push("\x99", "");
    expect_push("\x82z", "\xf0\x9f\x99\x82z");
    expect_flush("");
}

static void bytes_that_cannot_complete_are_replaced(void **state)
{
    (void)state;
    begin(NULL, 0);
    expect_push("\x80x", "\xef\xbf\xbdx");
    expect_push("\xe2\x82", "");
    expect_push("A", "\xef\xbf\xbd"
                     "A");                                               /* one for the two bytes */
    expect_push("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* a surrogate */
    expect_push("\xf0\x9f", "");
    expect_flush("\xef\xbf\xbd");
    expect_flush("");
}

static void stop_strings_span_tokens(void **state)
{
    (void)state;
    const char *const stops[] = {"\nUser:", "END"};
    begin(stops, 2);
    expect_push("Hello\n", "Hello");
    expect_push("Us", "");
    expect_push("ually E", "\nUsually ");
    expect_push("N", "");
    assert_false(text_stream_is_stopped(&stream));
    expect_push("D tail", "");
    assert_true(text_stream_is_stopped(&stream));
    expect_push("more", "");
    expect_flush("");
}

static void text_before_a_stop_is_given(void **state)
{
    (void)state;
    const char *const stops[] = {"aab"};
    begin(stops, 1);
    expect_push("xaa", "x");
    expect_push("aab", "aa");
    assert_true(text_stream_is_stopped(&stream));
    begin(stops, 1);
    expect_push("xaa", "x");
    expect_flush("aa");
    assert_false(text_stream_is_stopped(&stream));
}

static void of_two_that_end_together_the_longer_wins(void **state)
{
    (void)state;
    const char *const stops[] = {"b", "ab"};
    begin(stops, 2);
    expect_push("xab", "x");
    assert_true(text_stream_is_stopped(&stream));
}

static void the_replacement_at_the_end_may_stop(void **state)
{
    (void)state;
    const char *const stops[] = {"a\xef\xbf\xbd"};
    begin(stops, 1);
    expect_push("xa\xe2", "x");
    expect_flush("");
    assert_true(text_stream_is_stopped(&stream));
}

static void control_tokens_show_nothing(void **state)
{
    (void)state;
    const char *const stops[] = {"<|im_end|>"};
    begin(stops, 1);
    expect_push("a\xc3", "a");
    struct slice got = text_stream_push(&stream, SLICE("<|im_end|>"), true);
    assert_int_equal(got.length, 0);
    assert_false(text_stream_is_stopped(&stream));
    expect_push("\xa9", "\xc3\xa9");
}

static void stop_strings_have_limits(void **state)
{
    (void)state;
    char longest[LIMIT_STOP_BYTES + 1];
    memset(longest, 'a', sizeof longest);
    struct slice stops[LIMIT_STOP_STRINGS + 1];
    for (int i = 0; i <= LIMIT_STOP_STRINGS; i++)
        stops[i] = (struct slice){longest, LIMIT_STOP_BYTES};
    assert_int_equal(text_stream_init(&stream, stops, LIMIT_STOP_STRINGS), STATUS_OK);
    assert_int_equal(text_stream_init(&stream, stops, LIMIT_STOP_STRINGS + 1), STATUS_INVALID);
    stops[0].length = LIMIT_STOP_BYTES + 1;
    assert_int_equal(text_stream_init(&stream, stops, 1), STATUS_INVALID);
    stops[0].length = 0;
    assert_int_equal(text_stream_init(&stream, stops, 1), STATUS_INVALID);
    stops[0] = SLICE("\xc3");
    assert_int_equal(text_stream_init(&stream, stops, 1), STATUS_INVALID);
}

static void stop_strings_may_be_passed_over(void **state)
{
    (void)state;
    const char *const stops[] = {"aba", "x"};
    begin(stops, 2);
    stream.passes_stops = true;
    expect_push("ab", "");
    expect_push("a", "ab"); /* one is complete; the next may begin at its end */
    expect_push("x", "ax");
    expect_push("a", "");
    stream.passes_stops = false;
    expect_push("b", "");
    assert_false(text_stream_is_stopped(&stream));
    expect_push("a!", ""); /* it began before, and ends now */
    assert_true(text_stream_is_stopped(&stream));
    expect_flush("");
}

/* The worst that can be held back and shown at once fits. */
static void the_largest_token_fits(void **state)
{
    (void)state;
    char stop[LIMIT_STOP_BYTES];
    char bad[LIMIT_TOKEN_BYTES];
    memset(stop, 'a', sizeof stop);
    memset(bad, '\x80', sizeof bad);
    struct slice stops[1] = {{stop, sizeof stop}};
    assert_int_equal(text_stream_init(&stream, stops, 1), STATUS_OK);
    struct slice got = text_stream_push(&stream, (struct slice){stop, sizeof stop - 1}, false);
    assert_int_equal(got.length, 0);
    got = text_stream_push(&stream, SLICE("\xf0\x9f\x99"), false);
    assert_int_equal(got.length, 0);
    got = text_stream_push(&stream, (struct slice){bad, sizeof bad}, false);
    /* The first bad byte completes the sequence that was waiting. */
    assert_int_equal(got.length, sizeof stop - 1 + 4 + 3 * (sizeof bad - 1));
}

/* --- against a stupid one: clean everything, then look for every stop at every place --- */

static size_t naive_clean(const char *bytes, size_t length, char *out)
{
    size_t written = 0;
    for (size_t at = 0; at < length;) {
        size_t run = utf8_sequence_length(bytes + at, length - at);
        if (run > 0) {
            memcpy(out + written, bytes + at, run);
            written += run;
            at += run;
            continue;
        }
        size_t part = 1;
        while (part < 3 && at + part < length &&
               utf8_incomplete_tail(bytes + at, part + 1) == part + 1)
            part++;
        memcpy(out + written, "\xef\xbf\xbd", 3);
        written += 3;
        at += part;
    }
    return written;
}

/* Where the text is cut: before the longest stop that ends at the first place where one ends. */
static size_t naive_cut(const char *text, size_t length, const struct slice *stops, uint32_t count,
                        bool *is_stopped)
{
    for (size_t end = 1; end <= length; end++) {
        size_t longest = 0;
        for (uint32_t i = 0; i < count; i++) {
            size_t n = stops[i].length;
            if (n <= end && n > longest && memcmp(text + end - n, stops[i].bytes, n) == 0)
                longest = n;
        }
        *is_stopped = longest > 0;
        if (longest > 0)
            return end - longest;
    }
    *is_stopped = false;
    return length;
}

enum { RANDOM_BYTES = 96 };

static struct slice random_stop(struct rng *rng, char *out)
{
    static const char *const parts[] = {"a", "b", "ab", "\xc3\xa9", "\xef\xbf\xbd"};
    size_t length = 0;
    for (uint64_t n = 1 + rng_below(rng, 4); n > 0; n--) {
        const char *part = parts[rng_below(rng, 5)];
        memcpy(out + length, part, strlen(part));
        length += strlen(part);
    }
    return (struct slice){out, length};
}

static void random_round(uint64_t seed)
{
    static const char alphabet[] = "aaabbb\xc3\xa9\xe2\x82\xac\xf0\x9f\x80";
    struct rng rng = {.seed = seed};
    char stop_bytes[LIMIT_STOP_STRINGS][32];
    struct slice stops[LIMIT_STOP_STRINGS];
    uint32_t stop_count = (uint32_t)rng_below(&rng, LIMIT_STOP_STRINGS + 1);
    for (uint32_t i = 0; i < stop_count; i++)
        stops[i] = random_stop(&rng, stop_bytes[i]);
    char bytes[RANDOM_BYTES];
    size_t length = rng_below(&rng, RANDOM_BYTES);
    for (size_t i = 0; i < length; i++)
        bytes[i] = alphabet[rng_below(&rng, sizeof alphabet - 1)];
    char clean[3 * RANDOM_BYTES];
    bool want_stopped = false;
    size_t want =
        naive_cut(clean, naive_clean(bytes, length, clean), stops, stop_count, &want_stopped);
    char shown[3 * RANDOM_BYTES];
    size_t shown_length = 0;
    assert_int_equal(text_stream_init(&stream, stops, stop_count), STATUS_OK);
    for (size_t at = 0; at <= length;) {
        bool is_last = at == length;
        size_t cut = is_last ? 0 : 1 + rng_below(&rng, 9);
        cut = cut > length - at ? length - at : cut;
        struct slice got = is_last
                               ? text_stream_flush(&stream)
                               : text_stream_push(&stream, (struct slice){bytes + at, cut}, false);
        assert_true(utf8_is_valid(got.bytes, got.length));
        assert_true(got.length <= sizeof shown - shown_length);
        memcpy(shown + shown_length, got.bytes, got.length);
        shown_length += got.length;
        at += is_last ? 1 : cut;
    }
    if (shown_length != want || memcmp(shown, clean, want) != 0 ||
        text_stream_is_stopped(&stream) != want_stopped)
        fail_msg("seed %llu: %zu bytes shown, %zu wanted", (unsigned long long)seed, shown_length,
                 want);
}

static void any_cut_shows_the_same_text(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++)
        random_round(seed);
}

/* A mark ends what is held back; the text goes on behind it. */
static void a_mark_ends_what_is_held(void **state)
{
    (void)state;
    const struct slice stop = SLICE("abc");
    assert_int_equal(text_stream_init(&stream, &stop, 1), STATUS_OK);
    assert_true(slice_is(text_stream_push(&stream, SLICE("xab"), false), "x"));
    assert_true(slice_is(text_stream_mark(&stream), "ab"));
    assert_int_equal(text_stream_offset(&stream), 3);
    assert_true(slice_is(text_stream_push(&stream, SLICE("c\xe4\xbd"), false), "c"));
    assert_true(slice_is(text_stream_mark(&stream), "\xef\xbf\xbd"));
    assert_true(slice_is(text_stream_push(&stream, SLICE("abcd"), false), ""));
    assert_true(text_stream_is_stopped(&stream));
    assert_true(slice_is(text_stream_mark(&stream), ""));
}

static void a_stop_string_may_be_shown(void **state)
{
    (void)state;
    const struct slice stop = SLICE("bc");
    assert_int_equal(text_stream_init(&stream, &stop, 1), STATUS_OK);
    stream.shows_stop = true;
    assert_true(slice_is(text_stream_push(&stream, SLICE("ab"), false), "a"));
    assert_true(slice_is(text_stream_push(&stream, SLICE("cd"), false), "bc"));
    assert_true(text_stream_is_stopped(&stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_ends_what_is_held),
        cmocka_unit_test(a_stop_string_may_be_shown),
        cmocka_unit_test(sequences_are_never_cut),
        cmocka_unit_test(bytes_that_cannot_complete_are_replaced),
        cmocka_unit_test(stop_strings_span_tokens),
        cmocka_unit_test(text_before_a_stop_is_given),
        cmocka_unit_test(of_two_that_end_together_the_longer_wins),
        cmocka_unit_test(the_replacement_at_the_end_may_stop),
        cmocka_unit_test(control_tokens_show_nothing),
        cmocka_unit_test(stop_strings_have_limits),
        cmocka_unit_test(stop_strings_may_be_passed_over),
        cmocka_unit_test(the_largest_token_fits),
        cmocka_unit_test(any_cut_shows_the_same_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
