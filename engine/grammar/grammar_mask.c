#include "engine/grammar/grammar_mask.h"

#include <string.h>

#include "engine/grammar/grammar_run_state.h"

/* --- the walk --- */

/* What one call works with. */
struct call {
    struct grammar_run *run;
    const struct token_trie_node *nodes;
    uint32_t *mask;
    uint32_t fuel;
};

static void set_bit(uint32_t *mask, uint32_t id)
{
    mask[id / 32] |= (uint32_t)1 << id % 32;
}

static void spend(struct call *call, uint64_t steps)
{
    call->fuel -= steps < call->fuel ? (uint32_t)steps : call->fuel;
}

/* Notes that the open lexeme ends at this node, or at least cannot go on by itself. */
static void note_exit(struct grammar_walk *walk, uint32_t node, uint32_t state)
{
    if (walk->exit_count < LIMIT_GRAMMAR_EXITS)
        walk->exits[walk->exit_count] = (struct grammar_exit){node, state};
    walk->exit_count += walk->exit_count <= LIMIT_GRAMMAR_EXITS;
}

/* Steps over the byte of node `at`, whose lexeme may end. */
static enum grammar_rows_result step_slowly(struct call *call, uint32_t at)
{
    struct grammar_run *run = call->run;
    struct grammar_walk *walk = &run->walk;
    const struct token_trie_node *node = &call->nodes[at];
    const struct grammar_walk_step *above = &walk->steps[node->depth - 1];
    struct grammar_place place = {.row = above->row,
                                  .state = above->state,
                                  .open = 1,
                                  .text =
                                      grammar_run_walk_text(run, call->nodes, at, 0, &run->place)};
    uint64_t before = run->rows.steps + lexer_spent(run->grammar->lexer);
    enum grammar_rows_result result = grammar_place_step(&run->rows, &place, (uint8_t)node->byte);
    spend(call, run->rows.steps + lexer_spent(run->grammar->lexer) - before);
    walk->steps[node->depth] = (struct grammar_walk_step){place.state, place.row};
    return result;
}

/* A step of the lexer. What filling its table takes is counted, that of other threads too. */
static uint32_t step_lexer(struct call *call, uint32_t state, uint8_t byte)
{
    struct lexer *lexer = call->run->grammar->lexer;
    uint32_t class = lexer->class_of[byte];
    uint32_t next = atomic_load_explicit(lexer_row(lexer, state) + class, memory_order_acquire);
    if (__builtin_expect(next != LEXER_UNKNOWN, 1))
        return next;
    uint64_t before = lexer_spent(lexer);
    next = lexer_fill(lexer, state, class);
    spend(call, lexer_spent(lexer) - before);
    return next;
}

/* Whether the byte of node `at` stays in the lexeme that is open above it. */
static bool stays(struct call *call, uint32_t at, enum grammar_rows_result *result)
{
    struct grammar_run *run = call->run;
    struct grammar_walk *walk = &run->walk;
    struct lexer *lexer = run->grammar->lexer;
    const struct token_trie_node *node = &call->nodes[at];
    const struct grammar_walk_step *above = &walk->steps[node->depth - 1];
    uint32_t next = step_lexer(call, above->state, (uint8_t)node->byte);
    *result = GRAMMAR_ROWS_OK;
    if (next == LEXER_DEAD && !lexer_is_end(lexer, above->state)) {
        *result = GRAMMAR_ROWS_NONE;
        return true;
    }
    if (next == LEXER_FULL)
        *result = GRAMMAR_ROWS_FULL;
    if (next == LEXER_DEAD || (next != LEXER_FULL && lexer_is_lazy(lexer, next)))
        return false;
    walk->steps[node->depth] = (struct grammar_walk_step){next, above->row};
    return true;
}

/* Allows the tokens of node `at`. */
static void allow(struct call *call, uint32_t at)
{
    struct grammar_run *run = call->run;
    const struct token_trie_node *node = &call->nodes[at];
    if (node->token == TOKEN_TRIE_NONE)
        return;
    bool is_inside =
        run->walk.way == GRAMMAR_WALK_WHOLE && run->walk.steps[node->depth].row == run->place.row;
    for (uint32_t id = node->token; id != TOKEN_TRIE_NONE; id = token_trie_next(run->trie, id)) {
        set_bit(call->mask, id);
        if (is_inside)
            set_bit(run->walk.mask, id);
    }
}

/* Walks on from `node` to `node_end`. */
static enum grammar_mask_result walk_part(struct call *call)
{
    struct grammar_run *run = call->run;
    struct grammar_walk *walk = &run->walk;
    while (walk->node < walk->node_end) {
        if (call->fuel == 0)
            return GRAMMAR_MASK_SUSPENDED;
        spend(call, 1);
        uint32_t at = walk->node;
        walk->walked++;
        enum grammar_rows_result result;
        if (!stays(call, at, &result)) {
            const struct grammar_walk_step *above = &walk->steps[call->nodes[at].depth - 1];
            if (above->row == run->place.row && walk->way == GRAMMAR_WALK_WHOLE)
                note_exit(walk, at, above->state);
            result = step_slowly(call, at);
        }
        if (result == GRAMMAR_ROWS_FULL)
            return GRAMMAR_MASK_TOO_COMPLEX;
        if (result == GRAMMAR_ROWS_NONE) {
            walk->node += call->nodes[at].size;
            continue;
        }
        allow(call, at);
        walk->node++;
    }
    return GRAMMAR_MASK_DONE;
}

/* --- three ways --- */

/* Keeps what the walk found, if it was long enough to be worth the memory. */
static void keep(struct call *call)
{
    const struct grammar_walk *walk = &call->run->walk;
    const struct grammar *grammar = call->run->grammar;
    size_t others = grammar->bytes + lexer_bytes(grammar->lexer);
    if (walk->exit_count > LIMIT_GRAMMAR_EXITS || walk->walked < LIMIT_GRAMMAR_KEPT_NODES ||
        others > LIMIT_GRAMMAR_BYTES)
        return;
    grammar_kept_put(grammar->kept, call->run->trie, walk->state, walk->mask,
                     token_trie_mask_words(call->run->trie), walk->exits, walk->exit_count,
                     LIMIT_GRAMMAR_BYTES - others);
}

static enum grammar_mask_result walk_whole(struct call *call)
{
    enum grammar_mask_result result = walk_part(call);
    if (result == GRAMMAR_MASK_DONE)
        keep(call);
    return result;
}

static enum grammar_mask_result walk_exits(struct call *call)
{
    struct grammar_walk *walk = &call->run->walk;
    while (true) {
        enum grammar_mask_result result = walk_part(call);
        if (result != GRAMMAR_MASK_DONE || walk->next_exit == walk->kept->exit_count)
            return result;
        const struct grammar_exit *exit = &walk->kept->exits[walk->next_exit++];
        const struct token_trie_node *node = &call->nodes[exit->node];
        walk->steps[node->depth - 1] =
            (struct grammar_walk_step){exit->state, call->run->place.row};
        walk->node = exit->node;
        walk->node_end = exit->node + node->size;
    }
}

static enum grammar_mask_result walk_on(struct call *call)
{
    const struct grammar_walk *walk = &call->run->walk;
    switch (walk->way) {
    case GRAMMAR_WALK_WHOLE:
        return walk_whole(call);
    case GRAMMAR_WALK_EXITS:
        return walk_exits(call);
    case GRAMMAR_WALK_CLASS:
        call->nodes = walk->class->rest.nodes;
        return walk_part(call);
    case GRAMMAR_WALK_NONE:
        break;
    }
    return GRAMMAR_MASK_DONE;
}

/* The class that gives the mask of the place, held; NULL if there is none. */
static const struct token_class *find_class(struct grammar_run *run)
{
    const struct lexer *lexer = run->grammar->lexer;
    struct regex_run of = lexer_run(lexer, run->place.state);
    if (run->classes == NULL || of.chars == REGEX_RUN_NONE)
        return NULL;
    uint32_t count;
    const struct regex_range *ranges = lexer_chars(lexer, of.chars, &count);
    const struct token_class *class = token_classes_find(run->classes, ranges, count);
    if (class == NULL || token_class_fits(class, of))
        return class;
    token_classes_release(run->classes, class);
    return NULL;
}

/* Chooses a way and clears the mask. */
static void begin(struct call *call)
{
    struct grammar_run *run = call->run;
    struct grammar_walk *walk = &run->walk;
    size_t bytes = token_trie_mask_words(run->trie) * sizeof *call->mask;
    run->rows.row_count = run->place.row + 1; /* so that the mask takes the same steps always */
    walk->rows_before = run->rows.steps;
    walk->state = run->place.state;
    walk->next_exit = 0;
    walk->exit_count = 0;
    walk->walked = 0;
    walk->steps[0] = (struct grammar_walk_step){run->place.state, run->place.row};
    walk->class = find_class(run);
    if (walk->class != NULL) {
        struct regex_run of = lexer_run(run->grammar->lexer, walk->state);
        memcpy(call->mask, token_class_mask(walk->class, of.max), bytes);
        walk->way = GRAMMAR_WALK_CLASS;
        walk->node = 1;
        walk->node_end = walk->class->rest.count;
        return;
    }
    walk->kept = grammar_kept_find(run->grammar->kept, run->trie, walk->state);
    if (walk->kept != NULL) {
        memcpy(call->mask, walk->kept->mask, bytes);
        walk->way = GRAMMAR_WALK_EXITS;
        walk->node = walk->node_end = 0;
        return;
    }
    memset(call->mask, 0, bytes);
    memset(walk->mask, 0, bytes);
    walk->way = GRAMMAR_WALK_WHOLE;
    walk->node = 1; /* node 0 is the root */
    walk->node_end = token_trie_node_count(run->trie);
}

/* Control tokens stand where a lexeme ends. */
static void allow_control(struct call *call)
{
    struct grammar_run *run = call->run;
    struct grammar_place place = run->place;
    if (grammar_place_close(&run->rows, &place) != GRAMMAR_ROWS_OK)
        return;
    const struct grammar_row *row = &run->rows.rows[place.row];
    for (uint32_t i = 0; row->has_tokens && i < row->ends; i++) {
        uint32_t symbol = run->grammar->dots[run->rows.items[row->first + row->rules + i].dot];
        if (grammar_kind_of(symbol) == GRAMMAR_TOKEN &&
            grammar_index_of(symbol) < token_trie_vocab(run->trie))
            set_bit(call->mask, grammar_index_of(symbol));
    }
}

void grammar_mask_classes(struct grammar *grammar, struct token_classes *classes)
{
    const struct lexer *lexer = grammar->lexer;
    uint32_t count = lexer_char_count(lexer);
    for (uint32_t i = 0; i < count && i < LIMIT_GRAMMAR_CLASSES; i++) {
        uint32_t ranges;
        const struct regex_range *first = lexer_chars(lexer, i, &ranges);
        const struct token_class *class = token_classes_make(classes, first, ranges);
        if (class != NULL)
            token_classes_release(classes, class);
    }
}

uint64_t grammar_mask_steps(const struct grammar_run *run)
{
    return run->rows.steps - run->walk.rows_before;
}

enum grammar_mask_result grammar_mask_make(struct grammar_run *run, uint32_t fuel, uint32_t *mask)
{
    struct call call = {run, token_trie_nodes(run->trie), mask, fuel};
    if (run->is_too_complex)
        return GRAMMAR_MASK_TOO_COMPLEX;
    if (run->walk.way == GRAMMAR_WALK_NONE) {
        grammar_run_prepare(run);
        if (run->is_too_complex)
            return GRAMMAR_MASK_TOO_COMPLEX;
        begin(&call);
    }
    enum grammar_mask_result result = walk_on(&call);
    if (result == GRAMMAR_MASK_SUSPENDED)
        return result;
    if (result == GRAMMAR_MASK_DONE)
        allow_control(&call);
    else
        run->is_too_complex = true;
    grammar_run_drop_walk(run);
    return result;
}
