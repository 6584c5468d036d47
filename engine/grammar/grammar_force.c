#include "engine/grammar/grammar_force.h"

#include <string.h>

#include "engine/grammar/grammar_run_state.h"

enum { BEFORE_BYTES = 1024, IDS_MAX = GRAMMAR_FORCE_BYTES + BEFORE_BYTES };

/* --- bytes --- */

/* Whether the text may end at the place, or a control token may stand there. */
static bool may_stop(struct grammar_run *run, const struct grammar_place *place)
{
    struct grammar_place closed = *place;
    if (grammar_place_close(&run->rows, &closed) != GRAMMAR_ROWS_OK)
        return false;
    const struct grammar_row *row = &run->rows.rows[closed.row];
    return row->accepts || row->has_tokens;
}

/* Steps over the only byte that can follow. False when there are more, or none, or when the rows
 * have taken `most` steps: then nobody knows. */
static bool step_forced(struct grammar_run *run, struct grammar_place *place, char *byte,
                        uint64_t most)
{
    struct grammar_place next = *place;
    const struct lexer *lexer = run->grammar->lexer;
    bool is_dead[256] = {false}; /* by class of the byte */
    uint32_t found = 0;
    if (may_stop(run, place))
        return false;
    for (uint32_t i = 0; i < 256 && found < 2; i++) {
        struct grammar_place tried = *place;
        if (is_dead[lexer->class_of[i]])
            continue;
        if (run->rows.steps >= most)
            return false;
        enum grammar_rows_result result = grammar_place_step(&run->rows, &tried, (uint8_t)i);
        if (result == GRAMMAR_ROWS_FULL)
            return false;
        if (result != GRAMMAR_ROWS_OK) {
            is_dead[lexer->class_of[i]] = true;
            continue;
        }
        found++;
        *byte = (char)i;
    }
    if (found != 1)
        return false;
    enum grammar_rows_result result = grammar_place_step(&run->rows, &next, (uint8_t)*byte);
    *place = next;
    return result == GRAMMAR_ROWS_OK;
}

static size_t find_bytes(struct grammar_run *run, char *bytes, size_t capacity,
                         struct grammar_place *place)
{
    size_t count = 0;
    *place = run->place;
    if (run->is_too_complex)
        return 0;
    grammar_run_prepare(run);
    *place = run->place;
    /* Rows from before must not be used again, so that the steps depend on the tokens alone. */
    run->rows.row_count = place->row + 1;
    const uint64_t most = run->rows.steps + LIMIT_GRAMMAR_FORCED_STEPS;
    while (count < capacity && run->rows.steps < most &&
           step_forced(run, place, &bytes[count], most))
        count++;
    return count;
}

size_t grammar_force_bytes(struct grammar_run *run, char *bytes, size_t capacity)
{
    struct grammar_place place;
    return find_bytes(run, bytes, capacity, &place);
}

/* --- tokens --- */

/* The node of `bytes`; 0 when no token begins so. */
static uint32_t find_node(const struct token_trie *trie, struct slice bytes)
{
    const struct token_trie_node *nodes = token_trie_nodes(trie);
    uint32_t at = 0;
    for (size_t i = 0; i < bytes.length; i++) {
        uint32_t end = at + nodes[at].size;
        uint32_t child = at + 1;
        while (child < end && (char)nodes[child].byte != bytes.bytes[i])
            child += nodes[child].size;
        if (child >= end)
            return 0;
        at = child;
    }
    return at;
}

/* Whether a token that is longer than `bytes` and begins with them may stand before `place`, where
 * `bytes` end. When there are too many to try, or the rows have taken `most` steps, the answer is
 * yes. */
static bool may_merge(struct grammar_run *run, struct slice bytes, struct grammar_place place,
                      uint64_t most)
{
    const struct token_trie_node *nodes = token_trie_nodes(run->trie);
    struct grammar_walk *walk = &run->walk;
    uint32_t top = find_node(run->trie, bytes);
    uint32_t left = LIMIT_GRAMMAR_MERGE_NODES;
    if (top == 0)
        return false;
    uint32_t end = top + nodes[top].size;
    walk->steps[nodes[top].depth] = (struct grammar_walk_step){place.state, place.row};
    for (uint32_t at = top + 1; at < end;) {
        const struct grammar_walk_step *above = &walk->steps[nodes[at].depth - 1];
        struct grammar_place next = {
            .state = above->state,
            .row = above->row,
            .open = 1,
            .text = grammar_run_walk_text(run, nodes, at, nodes[top].depth, &place)};
        if (left-- == 0 || run->rows.steps >= most)
            return true;
        enum grammar_rows_result result =
            grammar_place_step(&run->rows, &next, (uint8_t)nodes[at].byte);
        if (result == GRAMMAR_ROWS_NONE) {
            at += nodes[at].size;
            continue;
        }
        if (result == GRAMMAR_ROWS_FULL || nodes[at].token != TOKEN_TRIE_NONE)
            return true;
        walk->steps[nodes[at].depth] = (struct grammar_walk_step){next.state, next.row};
        at++;
    }
    return false;
}

/* How many of the tokens at the end could merge with what may follow. */
static size_t count_given_up(struct grammar_run *run, struct slice text, const uint32_t *ids,
                             size_t count, struct grammar_place place)
{
    const uint64_t most = run->rows.steps + LIMIT_GRAMMAR_FORCED_STEPS;
    size_t given_up = 0;
    size_t length = 0;
    for (size_t k = 1; k <= GRAMMAR_FORCE_BEFORE && k <= count; k++) {
        length += token_trie_bytes(run->trie, ids[count - k]).length;
        struct slice tail = {text.bytes + text.length - length, length};
        if (may_merge(run, tail, place, most))
            given_up = k;
    }
    return given_up;
}

/* The bytes of the last tokens of `before`; `*kept` is their number. */
static size_t write_before(const struct grammar_run *run, const uint32_t *before, size_t count,
                           char *text, size_t *kept)
{
    size_t length = 0;
    *kept = 0;
    while (*kept < count) {
        struct slice bytes = token_trie_bytes(run->trie, before[count - 1 - *kept]);
        if (bytes.length == 0 || length + bytes.length > BEFORE_BYTES)
            break;
        memmove(text + bytes.length, text, length);
        memcpy(text, bytes.bytes, bytes.length);
        length += bytes.length;
        (*kept)++;
    }
    return length;
}

/* Whether the ids are tokens of the trie whose bytes make up the text. */
static bool spells(const struct grammar_run *run, const uint32_t *ids, size_t count,
                   struct slice text)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        struct slice bytes = token_trie_bytes(run->trie, ids[i]);
        if (bytes.length == 0 || bytes.length > text.length - at ||
            memcmp(text.bytes + at, bytes.bytes, bytes.length) != 0)
            return false;
        at += bytes.length;
    }
    return at == text.length;
}

size_t grammar_force_tokens(struct grammar_run *run, const uint32_t *before, size_t before_count,
                            grammar_force_encode encode, void *context, uint32_t *tokens,
                            size_t capacity)
{
    char text[BEFORE_BYTES + GRAMMAR_FORCE_BYTES];
    uint32_t ids[IDS_MAX];
    size_t kept;
    struct grammar_place place;
    size_t start = write_before(run, before, before_count, text, &kept);
    size_t length = find_bytes(run, text + start, GRAMMAR_FORCE_BYTES, &place);
    /* The tokens before stay as they are: if the tokenizer would have cut them in another way,
     * fewer of them are tokenised again. */
    for (bool is_first = true; length != 0; is_first = false) {
        struct slice whole = {text, start + length};
        size_t count = 0;
        if (!is_first) {
            if (kept == 0)
                return 0;
            size_t first = token_trie_bytes(run->trie, before[before_count - kept]).length;
            memmove(text, text + first, whole.length - first);
            start -= first;
            kept--;
            whole.length -= first;
        }
        if (encode(context, whole, ids, IDS_MAX, &count) != STATUS_OK || count < kept ||
            (kept != 0 && memcmp(ids, before + before_count - kept, kept * sizeof *ids) != 0) ||
            !spells(run, ids, count, whole))
            continue;
        count -= kept + count_given_up(run, whole, ids + kept, count - kept, place);
        count = count < capacity ? count : capacity;
        memcpy(tokens, ids + kept, count * sizeof *tokens);
        return count;
    }
    return 0;
}
