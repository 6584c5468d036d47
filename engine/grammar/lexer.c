#include "engine/grammar/lexer.h"

#include <pthread.h>
#include <string.h>

#include "config/base/hash.h"
#include "config/base/mem.h"
#include "engine/grammar/grammar_fuel.h"
#include "engine/grammar/regex_node.h"

enum { BUCKETS = 2048, BLOCK_BYTES = 16 * 1024, FIRST_STATE = 1 };

/* Pairs and ends of states; they stay where they are. */
struct block {
    struct block *next;
    size_t used;
    size_t size;
    _Alignas(8) char bytes[];
};

/* All but `buckets`, `bytes` and `spent` is for who holds the lock. */
struct lexer_fill {
    pthread_mutex_t lock;
    struct regex_pool *regexes;
    struct grammar_fuel fuel; /* of one step */
    enum status status;
    struct lexer_lexeme *lexemes;
    uint32_t lexeme_count;
    struct lexer_pair *pairs; /* scratch: [lexeme_count] */
    struct block *blocks;
    uint32_t state_count;
    uint32_t chars[LIMIT_TOKEN_CLASSES]; /* classes of the pool */
    uint32_t char_count;
    uint8_t first[256];                /* a byte of each class */
    _Atomic uint32_t buckets[BUCKETS]; /* states by hash of their pairs; 0 ends a list */
    _Atomic size_t bytes;
    _Atomic size_t regex_bytes;
    _Atomic uint64_t spent;
};

/* --- memory --- */

static void count_bytes(struct lexer_fill *fill, size_t bytes)
{
    atomic_fetch_add_explicit(&fill->bytes, bytes, memory_order_relaxed);
}

static void *take(struct lexer_fill *fill, size_t bytes)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (fill->blocks == NULL || fill->blocks->size - fill->blocks->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct block *block = mem_alloc(sizeof *block + size);
        if (block == NULL)
            return NULL;
        *block = (struct block){.next = fill->blocks, .size = size};
        fill->blocks = block;
        count_bytes(fill, sizeof *block + size);
    }
    void *taken = fill->blocks->bytes + fill->blocks->used;
    fill->blocks->used += bytes;
    return taken;
}

static enum status latch(struct lexer_fill *fill, enum status status)
{
    if (fill->status == STATUS_OK)
        fill->status = status;
    return status;
}

static enum status fail_memory(struct lexer_fill *fill)
{
    return latch(fill, status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL,
                                   "no memory for a state of a grammar"));
}

static enum status fail_limit(struct lexer_fill *fill)
{
    return latch(fill, status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL,
                                   "the grammar has too many states"));
}

/* --- states --- */

static uint64_t hash_pair(uint64_t hash, uint32_t lexeme, regex_node_id node)
{
    return hash_mix64(hash + ((uint64_t)lexeme << 32 | node));
}

static uint64_t hash_pairs(const struct lexer_pair *pairs, uint32_t count)
{
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++)
        hash = hash_pair(hash, pairs[i].lexeme, pairs[i].node);
    return hash;
}

/* Makes room for one more state. */
static bool make_chunk(struct lexer *lexer)
{
    struct lexer_fill *fill = lexer->fill;
    uint32_t chunk = fill->state_count / LEXER_CHUNK;
    if (lexer->states[chunk] != NULL)
        return true;
    size_t entries = (size_t)LEXER_CHUNK * lexer->classes;
    _Atomic(uint32_t) *next = mem_zalloc(entries, sizeof *next);
    struct lexer_state *states = mem_zalloc(LEXER_CHUNK, sizeof *states);
    if (next == NULL || states == NULL) {
        mem_free((void *)next);
        mem_free(states);
        return false;
    }
    lexer->states[chunk] = states;
    atomic_store_explicit(&lexer->next[chunk], next, memory_order_relaxed);
    count_bytes(fill, entries * sizeof *next + LEXER_CHUNK * sizeof *states);
    return true;
}

/* The run of a regex, with the lexer's own number of its class. */
static struct regex_run find_run(const struct lexer_fill *fill, regex_node_id node)
{
    struct regex_run run = regex_run_of(fill->regexes, node);
    uint32_t chars = 0;
    while (chars < fill->char_count && fill->chars[chars] != run.chars)
        chars++;
    run.chars = chars < fill->char_count ? chars : REGEX_RUN_NONE;
    return run;
}

/* Fills in what follows from the pairs. */
static bool describe(struct lexer_fill *fill, struct lexer_state *state)
{
    uint32_t ends = 0;
    bool is_final = true, has_lazy = false;
    state->run = (struct regex_run){.chars = REGEX_RUN_NONE};
    for (uint32_t i = 0; i < state->pair_count; i++) {
        const struct lexer_pair *pair = &state->pairs[i];
        bool is_lazy = fill->lexemes[pair->lexeme].is_lazy;
        has_lazy = has_lazy || is_lazy;
        is_final = is_final && pair->node == REGEX_EMPTY;
        struct regex_run run = find_run(fill, pair->node);
        if (run.chars != REGEX_RUN_NONE &&
            (state->run.chars == REGEX_RUN_NONE || run.max > state->run.max))
            state->run = run;
        if (!regex_is_nullable(fill->regexes, pair->node))
            continue;
        ends++;
        state->flags |= is_lazy ? LEXER_STATE_LAZY : 0;
    }
    state->run.is_exact = state->run.is_exact && state->pair_count == 1;
    if (has_lazy)
        state->run = (struct regex_run){.chars = REGEX_RUN_NONE};
    state->flags |= is_final && ends != 0 ? LEXER_STATE_FINAL : 0;
    uint32_t *lexemes = take(fill, ends * sizeof *lexemes);
    if (lexemes == NULL)
        return false;
    state->ends = lexemes;
    for (uint32_t i = 0; i < state->pair_count; i++)
        if (regex_is_nullable(fill->regexes, state->pairs[i].node))
            lexemes[state->end_count++] = state->pairs[i].lexeme;
    return true;
}

/* Adds a state to its bucket. */
static enum status add_state(struct lexer *lexer, const struct lexer_pair *pairs, uint32_t count,
                             _Atomic uint32_t *bucket, uint32_t *out)
{
    struct lexer_fill *fill = lexer->fill;
    if (fill->state_count >= LIMIT_GRAMMAR_STATES || lexer_bytes(lexer) > LIMIT_GRAMMAR_BYTES)
        return fail_limit(fill);
    struct lexer_pair *copy = take(fill, count * sizeof *copy);
    if (copy == NULL || !make_chunk(lexer))
        return fail_memory(fill);
    uint32_t id = fill->state_count;
    struct lexer_state *state = &lexer->states[id / LEXER_CHUNK][id % LEXER_CHUNK];
    if (count != 0)
        memcpy(copy, pairs, count * sizeof *copy);
    *state = (struct lexer_state){.pairs = copy, .pair_count = count};
    if (!describe(fill, state))
        return fail_memory(fill);
    state->next_in_bucket = atomic_load_explicit(bucket, memory_order_relaxed);
    fill->state_count++;
    atomic_store_explicit(bucket, id, memory_order_release);
    *out = id;
    return STATUS_OK;
}

static bool has_pairs(const struct lexer_state *state, const struct lexer_pair *pairs,
                      uint32_t count)
{
    return state->pair_count == count &&
           (count == 0 || memcmp(state->pairs, pairs, count * sizeof *pairs) == 0);
}

static enum status intern(struct lexer *lexer, const struct lexer_pair *pairs, uint32_t count,
                          uint32_t *out)
{
    _Atomic uint32_t *bucket = &lexer->fill->buckets[hash_pairs(pairs, count) % BUCKETS];
    uint32_t id = atomic_load_explicit(bucket, memory_order_relaxed);
    while (id != 0 && !has_pairs(lexer_state_at(lexer, id), pairs, count))
        id = lexer_state_at(lexer, id)->next_in_bucket;
    *out = id;
    return id != 0 ? STATUS_OK : add_state(lexer, pairs, count, bucket, out);
}

/* --- making --- */

static enum status find_classes(struct lexer *lexer, uint32_t count)
{
    struct lexer_fill *fill = lexer->fill;
    regex_node_id *roots = mem_zalloc((size_t)count + 1, sizeof *roots);
    if (roots == NULL)
        return fail_memory(fill);
    for (uint32_t i = 0; i < count; i++) {
        roots[i] = fill->lexemes[i].regex;
        ASSERT(!regex_is_nullable(fill->regexes, roots[i]));
    }
    fill->char_count =
        regex_chars_repeated(fill->regexes, roots, count, fill->chars, LIMIT_TOKEN_CLASSES);
    lexer->classes = regex_pool_classes(fill->regexes, roots, count, lexer->class_of, fill->first);
    mem_free(roots);
    return regex_pool_status(fill->regexes);
}

/* The dead state is 1, for 0 means not known. */
static enum status make_dead(struct lexer *lexer)
{
    uint32_t dead;
    lexer->fill->state_count = FIRST_STATE;
    if (!make_chunk(lexer))
        return fail_memory(lexer->fill);
    TRY(intern(lexer, NULL, 0, &dead));
    ASSERT(dead == LEXER_DEAD);
    for (uint32_t class = 0; class < lexer->classes; class ++)
        atomic_init(lexer_row(lexer, dead) + class, LEXER_DEAD);
    return STATUS_OK;
}

enum status lexer_new(struct regex_pool *regexes, const struct lexer_lexeme *lexemes,
                      uint32_t count, struct lexer **out)
{
    *out = NULL;
    struct lexer *lexer = mem_zalloc(1, sizeof *lexer);
    struct lexer_fill *fill = mem_zalloc(1, sizeof *fill);
    if (lexer == NULL || fill == NULL || pthread_mutex_init(&fill->lock, NULL) != 0) {
        mem_free(lexer);
        mem_free(fill);
        FAIL(STATUS_NO_MEMORY, "no memory for a lexer");
    }
    lexer->fill = fill;
    fill->regexes = regexes;
    fill->lexeme_count = count;
    fill->lexemes = mem_zalloc((size_t)count + 1, sizeof *fill->lexemes);
    fill->pairs = mem_zalloc((size_t)count + 1, sizeof *fill->pairs);
    enum status status = fill->lexemes != NULL && fill->pairs != NULL
                             ? STATUS_OK
                             : status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL,
                                           "no memory for %u lexemes", count);
    if (status == STATUS_OK) {
        if (count != 0)
            memcpy(fill->lexemes, lexemes, count * sizeof *lexemes);
        count_bytes(fill, sizeof *lexer + sizeof *fill +
                              count * (sizeof *fill->lexemes + sizeof *fill->pairs));
        status = find_classes(lexer, count);
    }
    if (status == STATUS_OK)
        status = make_dead(lexer);
    if (status != STATUS_OK) {
        lexer_free(lexer);
        return status;
    }
    atomic_store_explicit(&fill->regex_bytes, regex_pool_bytes(regexes), memory_order_relaxed);
    regex_pool_set_fuel(regexes, &fill->fuel);
    *out = lexer;
    return STATUS_OK;
}

void lexer_free(struct lexer *lexer)
{
    if (lexer == NULL)
        return;
    struct lexer_fill *fill = lexer->fill;
    for (uint32_t chunk = 0; chunk < LEXER_CHUNKS; chunk++) {
        mem_free((void *)atomic_load_explicit(&lexer->next[chunk], memory_order_relaxed));
        mem_free(lexer->states[chunk]);
    }
    while (fill->blocks != NULL) {
        struct block *block = fill->blocks;
        fill->blocks = block->next;
        mem_free(block);
    }
    regex_pool_set_fuel(fill->regexes, NULL);
    pthread_mutex_destroy(&fill->lock);
    mem_free(fill->lexemes);
    mem_free(fill->pairs);
    mem_free(fill);
    mem_free(lexer);
}

enum status lexer_status(struct lexer *lexer)
{
    pthread_mutex_lock(&lexer->fill->lock);
    enum status status = lexer->fill->status;
    pthread_mutex_unlock(&lexer->fill->lock);
    return status;
}

size_t lexer_bytes(const struct lexer *lexer)
{
    return atomic_load_explicit(&lexer->fill->bytes, memory_order_relaxed) +
           atomic_load_explicit(&lexer->fill->regex_bytes, memory_order_relaxed);
}

uint64_t lexer_spent(const struct lexer *lexer)
{
    return atomic_load_explicit(&lexer->fill->spent, memory_order_relaxed);
}

uint32_t lexer_state_count(struct lexer *lexer)
{
    pthread_mutex_lock(&lexer->fill->lock);
    uint32_t count = lexer->fill->state_count;
    pthread_mutex_unlock(&lexer->fill->lock);
    return count;
}

/* --- starts and steps --- */

/* The state of a start without the lock, or 0. */
static uint32_t find_start(const struct lexer *lexer, const uint32_t *lexemes, uint32_t count)
{
    const struct lexer_fill *fill = lexer->fill;
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++)
        hash = hash_pair(hash, lexemes[i], fill->lexemes[lexemes[i]].regex);
    uint32_t id = atomic_load_explicit(&fill->buckets[hash % BUCKETS], memory_order_acquire);
    for (; id != 0; id = lexer_state_at(lexer, id)->next_in_bucket) {
        const struct lexer_state *state = lexer_state_at(lexer, id);
        uint32_t same = 0;
        while (state->pair_count == count && same < count &&
               state->pairs[same].lexeme == lexemes[same] &&
               state->pairs[same].node == fill->lexemes[lexemes[same]].regex)
            same++;
        if (state->pair_count == count && same == count)
            return id;
    }
    return 0;
}

enum status lexer_start(struct lexer *lexer, const uint32_t *lexemes, uint32_t count,
                        uint32_t *state)
{
    struct lexer_fill *fill = lexer->fill;
    *state = find_start(lexer, lexemes, count);
    if (*state != 0)
        return STATUS_OK;
    pthread_mutex_lock(&fill->lock);
    for (uint32_t i = 0; i < count; i++) {
        ASSERT(lexemes[i] < fill->lexeme_count);
        fill->pairs[i] = (struct lexer_pair){lexemes[i], fill->lexemes[lexemes[i]].regex};
    }
    enum status status = fill->status;
    if (status == STATUS_OK)
        status = intern(lexer, fill->pairs, count, state);
    pthread_mutex_unlock(&fill->lock);
    if (status != STATUS_OK)
        *state = LEXER_DEAD;
    return status;
}

/* A lazy lexeme that matches ends here: nothing goes on, and what else matches ends with it. */
static uint32_t end_lazy(const struct lexer_fill *fill, uint32_t count)
{
    bool is_lazy = false;
    for (uint32_t i = 0; i < count; i++)
        is_lazy = is_lazy || (fill->lexemes[fill->pairs[i].lexeme].is_lazy &&
                              regex_is_nullable(fill->regexes, fill->pairs[i].node));
    if (!is_lazy)
        return count;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (regex_is_nullable(fill->regexes, fill->pairs[i].node))
            fill->pairs[kept++] = (struct lexer_pair){fill->pairs[i].lexeme, REGEX_EMPTY};
    return kept;
}

/* Derives the pairs of a state by a byte, without those that can no longer match. */
static enum status derive_pairs(struct lexer_fill *fill, const struct lexer_state *state,
                                uint8_t byte, uint32_t *count)
{
    uint32_t kept = 0;
    *count = 0;
    if (regex_pool_is_cut(fill->regexes, byte))
        return STATUS_OK;
    for (uint32_t i = 0; i < state->pair_count; i++) {
        regex_node_id node = regex_derive(fill->regexes, state->pairs[i].node, byte);
        if (node != REGEX_NONE &&
            !regex_is_seen_empty(fill->regexes, node, LIMIT_GRAMMAR_LOOK_STEPS))
            fill->pairs[kept++] = (struct lexer_pair){state->pairs[i].lexeme, node};
    }
    *count = end_lazy(fill, kept);
    return regex_pool_status(fill->regexes);
}

static enum status fill_entry(struct lexer *lexer, uint32_t from, uint32_t class, uint32_t *next)
{
    struct lexer_fill *fill = lexer->fill;
    const struct lexer_state *state = lexer_state_at(lexer, from);
    if (fill->status != STATUS_OK)
        return fill->status;
    grammar_fuel_init(&fill->fuel, LIMIT_GRAMMAR_FILL_STEPS, NULL);
    uint32_t count;
    enum status status = derive_pairs(fill, state, fill->first[class], &count);
    uint64_t steps = LIMIT_GRAMMAR_FILL_STEPS - fill->fuel.left + state->pair_count;
    atomic_fetch_add_explicit(&fill->spent, steps, memory_order_relaxed);
    atomic_store_explicit(&fill->regex_bytes, regex_pool_bytes(fill->regexes),
                          memory_order_relaxed);
    if (status != STATUS_OK)
        return latch(fill, status);
    return intern(lexer, fill->pairs, count, next);
}

uint32_t lexer_fill(struct lexer *lexer, uint32_t state, uint32_t class)
{
    struct lexer_fill *fill = lexer->fill;
    _Atomic(uint32_t) *entry = lexer_row(lexer, state) + class;
    pthread_mutex_lock(&fill->lock);
    uint32_t next = atomic_load_explicit(entry, memory_order_relaxed);
    if (next == LEXER_UNKNOWN) {
        if (fill_entry(lexer, state, class, &next) != STATUS_OK)
            next = LEXER_FULL;
        else
            atomic_store_explicit(entry, next, memory_order_release);
    }
    pthread_mutex_unlock(&fill->lock);
    return next;
}

uint32_t lexer_char_count(const struct lexer *lexer)
{
    return lexer->fill->char_count;
}

const struct regex_range *lexer_chars(const struct lexer *lexer, uint32_t chars, uint32_t *count)
{
    ASSERT(chars < lexer->fill->char_count);
    return regex_chars_of(lexer->fill->regexes, lexer->fill->chars[chars], count);
}
