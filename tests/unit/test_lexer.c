#include "engine/grammar/lexer.h"

#include <pthread.h>

#include "config/base/limits_grammar.h"
#include "config/base/rng.h"
#include "engine/grammar/grammar_fuel.h"
#include "tests/kit/rounds.h"
#include "tests/unit/base_kit.h"

/* --- a naive automaton: states with one byte set or two empty edges --- */

enum { STATES = 4096, LEXEMES = 5, TEXT_BYTES = 10, NO_EDGE = STATES };

struct naive {
    struct {
        char bytes[8]; /* the edge to `a`, or "" for empty edges to `a` and `b` */
        uint32_t a;
        uint32_t b;
    } at[STATES];
    uint32_t count;
    uint32_t first[LEXEMES];
    uint32_t last[LEXEMES];
    bool is_lazy[LEXEMES];
};

struct part {
    uint32_t first;
    uint32_t last; /* has no edge yet */
};

static struct part new_part(struct naive *naive, const char *bytes)
{
    assert_true(naive->count + 2 <= STATES);
    struct part part = {naive->count, naive->count + 1};
    naive->at[part.last].bytes[0] = '\0';
    naive->at[part.last].a = naive->at[part.last].b = NO_EDGE;
    snprintf(naive->at[part.first].bytes, 8, "%s", bytes);
    naive->at[part.first].a = part.last;
    naive->at[part.first].b = NO_EDGE;
    naive->count += 2;
    return part;
}

static void join(struct naive *naive, uint32_t from, uint32_t to)
{
    if (naive->at[from].a == NO_EDGE)
        naive->at[from].a = to;
    else
        naive->at[from].b = to;
}

/* The same random regex twice: as a node and as an automaton. */
static regex_node_id make(struct regex_pool *pool, struct naive *naive, struct rng rng,
                          uint32_t depth, struct part *part)
{
    static const char *const sets[] = {"a", "b", "ab", "bc", "c", "d"};
    uint64_t way = depth == 0 ? 0 : rng_below(&rng, 4);
    struct rng ways[2] = {{rng_next(&rng), 0}, {rng_next(&rng), 0}};
    if (way == 0) {
        const char *bytes = sets[rng_below(&rng, 6)];
        struct byte_set set = {{0}};
        for (const char *at = bytes; *at != '\0'; at++)
            byte_set_add(&set, (uint8_t)*at);
        *part = new_part(naive, bytes);
        return regex_bytes(pool, &set);
    }
    struct part a, b;
    if (way == 1) {
        uint32_t min = (uint32_t)rng_below(&rng, 3);
        uint32_t max = min + 1 + (uint32_t)rng_below(&rng, 2);
        bool is_open = rng_below(&rng, 3) == 0;
        regex_node_id node = REGEX_NONE;
        *part = new_part(naive, "");
        uint32_t at = part->first;
        naive->at[at].a = NO_EDGE;
        for (uint32_t i = 0; i < max; i++) {
            if (i >= min)
                join(naive, at, part->last);
            node = make(pool, naive, ways[0], depth - 1, &a);
            join(naive, at, a.first);
            at = a.last;
        }
        join(naive, at, part->last);
        if (is_open)
            join(naive, at, a.first);
        return regex_repeat(pool, node, min, is_open ? REGEX_UNBOUNDED : max);
    }
    regex_node_id left = make(pool, naive, ways[0], depth - 1, &a);
    regex_node_id right = make(pool, naive, ways[1], depth - 1, &b);
    if (way == 2) {
        join(naive, a.last, b.first);
        *part = (struct part){a.first, b.last};
        return regex_cat(pool, left, right);
    }
    *part = new_part(naive, "");
    naive->at[part->first].a = a.first;
    naive->at[part->first].b = b.first;
    join(naive, a.last, part->last);
    join(naive, b.last, part->last);
    return regex_or(pool, left, right);
}

static void reach(const struct naive *naive, bool *in, uint32_t at)
{
    if (at == NO_EDGE || in[at])
        return;
    in[at] = true;
    if (naive->at[at].bytes[0] != '\0')
        return;
    reach(naive, in, naive->at[at].a);
    reach(naive, in, naive->at[at].b);
}

/* Takes a byte; false when no state is left. */
static bool naive_step(const struct naive *naive, bool *in, char byte)
{
    static bool next[STATES];
    bool is_any = false;
    memset(next, 0, naive->count);
    for (uint32_t at = 0; at < naive->count; at++)
        if (in[at] && naive->at[at].bytes[0] != '\0' && strchr(naive->at[at].bytes, byte) != NULL) {
            reach(naive, next, naive->at[at].a);
            is_any = true;
        }
    memcpy(in, next, naive->count);
    return is_any;
}

/* One lexer and the same lexemes as automata. */
struct bed {
    struct regex_pool *pool;
    struct lexer *lexer;
    struct naive naive;
    uint32_t count; /* of lexemes */
};

static void make_bed(struct bed *bed, uint64_t seed)
{
    struct rng rng = {seed, 0};
    struct lexer_lexeme lexemes[LEXEMES];
    assert_int_equal(regex_pool_new(NULL, &bed->pool), STATUS_OK);
    bed->naive.count = 0;
    bed->count = 0;
    while (bed->count < LEXEMES) {
        struct part part;
        struct rng own = {rng_next(&rng), 0};
        uint32_t before = bed->naive.count;
        regex_node_id node = make(bed->pool, &bed->naive, own, (uint32_t)rng_below(&rng, 4), &part);
        if (regex_is_nullable(bed->pool, node)) {
            bed->naive.count = before;
            continue;
        }
        bool is_lazy = rng_below(&rng, 4) == 0;
        bed->naive.first[bed->count] = part.first;
        bed->naive.last[bed->count] = part.last;
        bed->naive.is_lazy[bed->count] = is_lazy;
        lexemes[bed->count++] = (struct lexer_lexeme){node, is_lazy};
    }
    assert_int_equal(lexer_new(bed->pool, lexemes, bed->count, &bed->lexer), STATUS_OK);
}

static void free_bed(struct bed *bed)
{
    lexer_free(bed->lexer);
    regex_pool_free(bed->pool);
}

/* Compares a state with the automata after the same bytes; returns whether a lazy lexeme ended. */
static bool check_state(const struct bed *bed, uint32_t state, bool (*in)[STATES],
                        const bool *is_alive)
{
    uint32_t end_count, wanted = 0;
    const uint32_t *ends = lexer_ends(bed->lexer, state, &end_count);
    bool is_lazy = false, is_any = false;
    for (uint32_t i = 0; i < bed->count; i++) {
        is_any = is_any || is_alive[i];
        if (!is_alive[i] || !in[i][bed->naive.last[i]])
            continue;
        assert_true(wanted < end_count);
        assert_int_equal(ends[wanted++], i);
        is_lazy = is_lazy || bed->naive.is_lazy[i];
    }
    assert_int_equal(wanted, end_count);
    assert_int_equal(lexer_is_end(bed->lexer, state), end_count != 0);
    assert_int_equal(lexer_is_lazy(bed->lexer, state), is_lazy);
    assert_int_equal(state != LEXER_DEAD, is_any);
    return is_lazy;
}

static void test_random(void **state)
{
    (void)state;
    static struct bed bed;
    static bool in[LEXEMES][STATES];
    uint32_t steps = 0, ended = 0;
    for (uint32_t round = 0; round < rounds(150, 10000); round++) {
        make_bed(&bed, round);
        struct rng rng = {round, 1u << 20};
        for (uint32_t text = 0; text < 20; text++) {
            uint32_t lexemes[LEXEMES], count = 0, at;
            bool is_alive[LEXEMES] = {false};
            for (uint32_t i = 0; i < bed.count; i++) {
                if (rng_below(&rng, 2) == 0)
                    continue;
                lexemes[count++] = i;
                is_alive[i] = true;
                memset(in[i], 0, bed.naive.count);
                reach(&bed.naive, in[i], bed.naive.first[i]);
            }
            assert_int_equal(lexer_start(bed.lexer, lexemes, count, &at), STATUS_OK);
            bool is_over = check_state(&bed, at, in, is_alive);
            for (uint32_t i = 0; i < TEXT_BYTES; i++, steps++) {
                char byte = "aabbccd"[rng_below(&rng, 7)];
                at = lexer_step(bed.lexer, at, (uint8_t)byte);
                for (uint32_t j = 0; j < bed.count; j++)
                    is_alive[j] = is_alive[j] && !is_over && naive_step(&bed.naive, in[j], byte);
                is_over = check_state(&bed, at, in, is_alive) || is_over;
                ended += is_over;
            }
        }
        free_bed(&bed);
    }
    printf("%u steps\n", steps);
    assert_true(ended > 100);
}

/* --- what a state says --- */

static regex_node_id text_of(struct regex_pool *pool, const char *text)
{
    return regex_text(pool, slice_of(text));
}

static uint32_t step_text(struct lexer *lexer, uint32_t state, const char *text)
{
    for (; *text != '\0'; text++)
        state = lexer_step(lexer, state, (uint8_t)*text);
    return state;
}

/* A state from which no text can match is dead, whatever the regex looks like. */
static void test_dead_ends(void **state)
{
    (void)state;
    struct regex_pool *pool;
    assert_int_equal(regex_pool_new(NULL, &pool), STATUS_OK);
    struct byte_set digits = {{0}};
    byte_set_add_range(&digits, '0', '9');
    regex_node_id three = regex_repeat(pool, regex_bytes(pool, &digits), 3, 3);
    regex_node_id words = regex_or(pool, text_of(pool, "true"),
                                   regex_or(pool, text_of(pool, "trap"), text_of(pool, "no")));
    struct lexer_lexeme lexemes[] = {
        {regex_and(pool, three, regex_mod(pool, 250, 0)), false},
        {regex_and(pool, words, regex_not(pool, text_of(pool, "trap"))), false}};
    struct lexer *lexer;
    assert_int_equal(lexer_new(pool, lexemes, 2, &lexer), STATUS_OK);
    uint32_t both[] = {0, 1}, start;
    assert_int_equal(lexer_start(lexer, both, 2, &start), STATUS_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        char text[8];
        snprintf(text, sizeof text, "%03u", i);
        assert_int_equal(lexer_is_final(lexer, step_text(lexer, start, text)), i % 250 == 0);
        text[2] = '\0'; /* two digits are alive when a third one can follow */
        bool wanted = i / 10 * 10 % 250 == 0;
        assert_int_equal(step_text(lexer, start, text) != LEXER_DEAD, wanted);
    }
    assert_int_not_equal(step_text(lexer, start, "tru"), LEXER_DEAD);
    assert_int_equal(step_text(lexer, start, "tra"), LEXER_DEAD);
    assert_true(lexer_is_final(lexer, step_text(lexer, start, "true")));
    assert_false(lexer_is_lazy(lexer, step_text(lexer, start, "true")));
    lexer_free(lexer);
    regex_pool_free(pool);
}

static void test_runs(void **state)
{
    (void)state;
    struct regex_pool *pool;
    assert_int_equal(regex_pool_new(NULL, &pool), STATUS_OK);
    struct regex_range letters = {'a', 'z'};
    regex_node_id many = regex_repeat(pool, regex_chars(pool, &letters, 1), 0, 9);
    regex_node_id quoted =
        regex_cat(pool, text_of(pool, "\""), regex_cat(pool, many, text_of(pool, "\"")));
    struct lexer_lexeme lexemes[] = {{quoted, false},
                                     {text_of(pool, "\"x1"), false},
                                     {regex_cat(pool, quoted, text_of(pool, "!")), true}};
    struct lexer *lexer;
    assert_int_equal(lexer_new(pool, lexemes, 3, &lexer), STATUS_OK);
    uint32_t which[] = {0, 1, 2}, start;
    assert_int_equal(lexer_start(lexer, which, 1, &start), STATUS_OK);
    assert_int_equal(lexer_run(lexer, start).chars, REGEX_RUN_NONE);
    struct regex_run run = lexer_run(lexer, step_text(lexer, start, "\"ab"));
    assert_int_equal(run.max, 7);
    assert_true(run.is_exact);
    uint32_t count;
    assert_int_equal(lexer_chars(lexer, run.chars, &count)[0].last, 'z');
    assert_true(run.chars < lexer_char_count(lexer));
    assert_int_equal(lexer_start(lexer, which, 2, &start), STATUS_OK);
    run = lexer_run(lexer, step_text(lexer, start, "\""));
    assert_int_equal(run.max, 9);
    assert_false(run.is_exact); /* the other lexeme may go on where this one cannot */
    assert_int_equal(lexer_start(lexer, which, 3, &start), STATUS_OK);
    run = lexer_run(lexer, step_text(lexer, start, "\""));
    assert_int_equal(run.chars, REGEX_RUN_NONE); /* a lazy lexeme may end in the middle */
    lexer_free(lexer);
    regex_pool_free(pool);
}

static void test_cut_bytes(void **state)
{
    (void)state;
    struct regex_pool *pool;
    assert_int_equal(regex_pool_new(NULL, &pool), STATUS_OK);
    struct byte_set missing = {{0}};
    byte_set_add(&missing, 'x');
    regex_pool_cut(pool, &missing);
    struct lexer_lexeme lexeme = {
        regex_and(pool, regex_not(pool, text_of(pool, "a")), regex_not(pool, REGEX_EMPTY)), false};
    struct lexer *lexer;
    assert_int_equal(lexer_new(pool, &lexeme, 1, &lexer), STATUS_OK);
    uint32_t which[] = {0}, start;
    assert_int_equal(lexer_start(lexer, which, 1, &start), STATUS_OK);
    assert_int_equal(step_text(lexer, start, "x"), LEXER_DEAD);
    assert_true(lexer_is_end(lexer, step_text(lexer, start, "b")));
    assert_false(lexer_is_end(lexer, step_text(lexer, start, "a")));
    assert_int_equal(step_text(lexer, start, "ax"), LEXER_DEAD);
    assert_int_equal(step_text(lexer, LEXER_DEAD, "a"), LEXER_DEAD);
    assert_int_equal(lexer_start(lexer, which, 0, &start), STATUS_OK);
    assert_int_equal(start, LEXER_DEAD);
    lexer_free(lexer);
    regex_pool_free(pool);
}

/* --- limits --- */

/* The k-th letter from the end: 2^k states. */
static struct lexer *new_explosion(struct regex_pool **pool, uint32_t letters)
{
    assert_int_equal(regex_pool_new(NULL, pool), STATUS_OK);
    struct byte_set ab = {{0}};
    byte_set_add_range(&ab, 'a', 'b');
    regex_node_id any = regex_bytes(*pool, &ab);
    regex_node_id node = regex_cat(
        *pool, regex_repeat(*pool, any, 0, REGEX_UNBOUNDED),
        regex_cat(*pool, text_of(*pool, "a"), regex_repeat(*pool, any, letters, letters)));
    struct lexer_lexeme lexeme = {node, false};
    struct lexer *lexer;
    assert_int_equal(lexer_new(*pool, &lexeme, 1, &lexer), STATUS_OK);
    return lexer;
}

static void test_states_explode(void **state)
{
    (void)state;
    struct regex_pool *pool;
    struct lexer *lexer = new_explosion(&pool, 20);
    struct rng rng = {1, 0};
    uint32_t which[] = {0}, start, at;
    assert_int_equal(lexer_start(lexer, which, 1, &start), STATUS_OK);
    uint32_t known = step_text(lexer, start, "abab");
    uint32_t steps = 0;
    for (at = start; at != LEXER_FULL; steps++)
        at = lexer_step(lexer, at, (uint8_t)('a' + rng_below(&rng, 2)));
    assert_int_equal(lexer_status(lexer), STATUS_LIMIT);
    assert_true(lexer_state_count(lexer) <= LIMIT_GRAMMAR_STATES);
    assert_true(lexer_bytes(lexer) < LIMIT_GRAMMAR_BYTES + LIMIT_GRAMMAR_BYTES / 8);
    assert_int_equal(step_text(lexer, start, "abab"), known);
    printf("%u states, %zu bytes, after %u steps\n", lexer_state_count(lexer), lexer_bytes(lexer),
           steps);
    lexer_free(lexer);
    regex_pool_free(pool);
}

static void test_no_memory(void **state)
{
    (void)state;
    enum status status = STATUS_NO_MEMORY;
    uint32_t failures = 0;
    for (int n = 1; status != STATUS_OK; n++) {
        struct regex_pool *pool;
        assert_int_equal(regex_pool_new(NULL, &pool), STATUS_OK);
        struct lexer_lexeme lexeme = {text_of(pool, "abc"), false};
        struct lexer *lexer;
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        status = lexer_new(pool, &lexeme, 1, &lexer);
        uint32_t which[] = {0}, at = LEXER_DEAD;
        if (status == STATUS_OK)
            status = lexer_start(lexer, which, 1, &at);
        for (uint32_t i = 0; i < 100 && status == STATUS_OK && at != LEXER_FULL; i++)
            at = lexer_step(lexer, at, (uint8_t) "abc"[i % 3]);
        if (at == LEXER_FULL)
            status = lexer_status(lexer);
        mem_hook_set(NULL, NULL);
        assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
        failures += status != STATUS_OK;
        lexer_free(lexer);
        regex_pool_free(pool);
    }
    assert_true(failures > 5);
}

/* --- threads --- */

enum { THREADS = 4, THREAD_TEXTS = 300, THREAD_BYTES = 40 };

struct worker {
    struct lexer *lexer;
    uint32_t seed;
    uint64_t sum; /* of what the states say */
};

static void *work(void *context)
{
    struct worker *worker = context;
    struct rng rng = {worker->seed, 0};
    uint32_t which[] = {0};
    for (uint32_t text = 0; text < THREAD_TEXTS; text++) {
        uint32_t at;
        if (lexer_start(worker->lexer, which, 1, &at) != STATUS_OK)
            return NULL;
        for (uint32_t i = 0; i < THREAD_BYTES; i++) {
            at = lexer_step(worker->lexer, at, (uint8_t) "abababababc"[rng_below(&rng, 11)]);
            uint32_t count;
            (void)lexer_ends(worker->lexer, at, &count);
            worker->sum = worker->sum * 31 + count * 2 + (at == LEXER_DEAD);
        }
    }
    return NULL;
}

/* Threads that fill one table see the same as one thread alone. */
static void test_threads(void **state)
{
    (void)state;
    struct regex_pool *pool;
    struct worker alone[THREADS], together[THREADS];
    pthread_t threads[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        alone[i] = (struct worker){new_explosion(&pool, 8), i, 0};
        work(&alone[i]);
        lexer_free(alone[i].lexer);
        regex_pool_free(pool);
    }
    struct lexer *lexer = new_explosion(&pool, 8);
    for (uint32_t i = 0; i < THREADS; i++) {
        together[i] = (struct worker){lexer, i, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &together[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(together[i].sum, alone[i].sum);
    }
    assert_int_equal(lexer_status(lexer), STATUS_OK);
    assert_true(lexer_state_count(lexer) > 256);
    lexer_free(lexer);
    regex_pool_free(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),         cmocka_unit_test(test_dead_ends),
        cmocka_unit_test(test_runs),           cmocka_unit_test(test_cut_bytes),
        cmocka_unit_test(test_states_explode), cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
