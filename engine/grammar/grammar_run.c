#include "engine/grammar/grammar_run.h"

#include "config/base/mem.h"
#include "engine/grammar/grammar_run_state.h"

enum status grammar_run_new(struct grammar *grammar, const struct token_trie *trie,
                            struct grammar_run **out)
{
    *out = NULL;
    struct grammar_run *run = mem_zalloc(1, sizeof *run);
    if (run == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for a grammar's run");
    run->grammar = grammar_hold(grammar);
    run->trie = trie;
    run->walk.mask = mem_alloc(token_trie_mask_words(trie) * sizeof *run->walk.mask);
    run->walk.exits = mem_alloc(LIMIT_GRAMMAR_EXITS * sizeof *run->walk.exits);
    enum status status = STATUS_OK;
    if (run->walk.mask == NULL || run->walk.exits == NULL)
        status = status_fail(STATUS_NO_MEMORY, __FILE__, __LINE__, NULL,
                             "no memory for a grammar's masks");
    if (status == STATUS_OK)
        status = grammar_rows_init(&run->rows, grammar);
    if (status != STATUS_OK) {
        grammar_run_free(run);
        return status;
    }
    run->place = grammar_place_first(&run->rows);
    *out = run;
    return STATUS_OK;
}

void grammar_run_drop_walk(struct grammar_run *run)
{
    if (run->walk.kept != NULL)
        grammar_kept_release(run->grammar->kept, run->walk.kept);
    if (run->walk.class != NULL)
        token_classes_release(run->classes, run->walk.class);
    run->walk.kept = NULL;
    run->walk.class = NULL;
    run->walk.way = GRAMMAR_WALK_NONE;
}

uint64_t grammar_run_walk_text(const struct grammar_run *run, const struct token_trie_node *nodes,
                               uint32_t at, uint32_t depth, const struct grammar_place *place)
{
    const struct grammar_walk_step *steps = run->walk.steps;
    uint32_t above = nodes[at].depth - 1;
    uint32_t row = steps[above].row;
    uint64_t text = place->text;
    uint32_t begin = depth;
    if (run->rows.seen.rows == NULL)
        return 0;
    if (row !=
        place->row) { /* the lexeme began in the walk, with the byte of the first such node */
        for (begin = above; steps[begin - 1].row == row; begin--)
            ;
        begin--;
        text = 0;
    }
    uint32_t token = at; /* the first token below has the bytes of the way */
    while (nodes[token].token == TOKEN_TRIE_NONE)
        token++;
    struct slice bytes = token_trie_bytes(run->trie, nodes[token].token);
    for (uint32_t i = begin; i < above; i++)
        text = grammar_place_text(text, (uint8_t)bytes.bytes[i]);
    return text;
}

void grammar_run_use_classes(struct grammar_run *run, struct token_classes *classes)
{
    ASSERT(classes == NULL || token_classes_trie(classes) == run->trie);
    grammar_run_drop_walk(run);
    run->classes = classes;
}

void grammar_run_free(struct grammar_run *run)
{
    if (run == NULL)
        return;
    grammar_run_drop_walk(run);
    grammar_rows_deinit(&run->rows);
    mem_free(run->walk.mask);
    mem_free(run->walk.exits);
    grammar_drop(run->grammar);
    mem_free(run);
}

/* Removes rows that nothing can reach, if rows are becoming scarce. */
static void save_room(struct grammar_run *run)
{
    if (!grammar_rows_is_tight(&run->rows, run->place.row))
        return;
    uint32_t oldest = run->place.row;
    if (run->backs != 0)
        oldest = run->back[(run->tokens - run->backs) % LIMIT_GRAMMAR_BACK].row;
    uint32_t less = grammar_rows_compact(&run->rows, oldest, run->place.row);
    run->place.row -= less;
    for (uint32_t i = 1; i <= run->backs; i++)
        run->back[(run->tokens - i) % LIMIT_GRAMMAR_BACK].row -= less;
}

/* Goes to `place`, behind one more token. */
static void take(struct grammar_run *run, struct grammar_place place)
{
    run->back[run->tokens % LIMIT_GRAMMAR_BACK] = run->place;
    run->tokens++;
    run->backs += run->backs < LIMIT_GRAMMAR_BACK;
    run->place = place;
    run->is_end_known = false;
}

/* A lexeme that nothing can continue ends now, so that masks begin with the next ones. */
static bool take_if(struct grammar_run *run, struct grammar_place place,
                    enum grammar_rows_result result)
{
    if (result == GRAMMAR_ROWS_OK && place.open != 0 &&
        lexer_is_final(run->grammar->lexer, place.state))
        result = grammar_place_close(&run->rows, &place);
    if (result == GRAMMAR_ROWS_FULL)
        run->is_too_complex = true;
    if (result != GRAMMAR_ROWS_OK)
        return false;
    take(run, place);
    return true;
}

bool grammar_run_commit_bytes(struct grammar_run *run, struct slice bytes)
{
    if (run->is_too_complex)
        return false;
    grammar_run_drop_walk(run);
    save_room(run);
    struct grammar_place place = run->place;
    enum grammar_rows_result result = GRAMMAR_ROWS_OK;
    for (size_t i = 0; i < bytes.length && result == GRAMMAR_ROWS_OK; i++)
        result = grammar_place_step(&run->rows, &place, (uint8_t)bytes.bytes[i]);
    return take_if(run, place, result);
}

bool grammar_run_commit(struct grammar_run *run, uint32_t token)
{
    struct slice bytes = token_trie_bytes(run->trie, token);
    if (bytes.length != 0)
        return grammar_run_commit_bytes(run, bytes);
    if (run->is_too_complex)
        return false;
    grammar_run_drop_walk(run);
    save_room(run);
    struct grammar_place place = run->place;
    enum grammar_rows_result result = grammar_place_token(&run->rows, &place, token);
    return take_if(run, place, result);
}

void grammar_run_back(struct grammar_run *run, uint32_t tokens)
{
    ASSERT(tokens <= run->backs);
    if (tokens == 0)
        return;
    grammar_run_drop_walk(run);
    run->tokens -= tokens;
    run->backs -= tokens;
    run->place = run->back[run->tokens % LIMIT_GRAMMAR_BACK];
    run->is_end_known = false;
}

void grammar_run_give_up(struct grammar_run *run, uint32_t tokens)
{
    grammar_run_back(run, tokens);
    run->is_too_complex = false;
}

uint32_t grammar_run_backs(const struct grammar_run *run)
{
    return run->backs;
}

void grammar_run_reset(struct grammar_run *run)
{
    grammar_run_drop_walk(run);
    bool is_made = grammar_rows_restart(&run->rows);
    ASSERT(is_made); /* row 0 was made before */
    run->place = grammar_place_first(&run->rows);
    run->tokens = 0;
    run->backs = 0;
    run->is_too_complex = false;
    run->is_end_known = false;
}

/* Sets what the run knows of the end. Masks rely on it: it makes the row behind the open lexeme,
 * which must not happen in the middle of a walk. */
static void look_at_end(struct grammar_run *run)
{
    if (run->is_end_known)
        return;
    struct grammar_place place = run->place;
    enum grammar_rows_result result = grammar_place_close(&run->rows, &place);
    const struct grammar_row *row = &run->rows.rows[place.row];
    run->accepts = result == GRAMMAR_ROWS_OK && row->accepts;
    /* Steps of the lexer would cost this thread up to 256 entries of its table. A lexeme that only
     * seems to go on costs the answer one more token: its mask allows an end token alone. */
    bool goes_on = run->place.open != 0 && !lexer_is_final(run->grammar->lexer, run->place.state);
    run->is_over = run->accepts && row->ends == 0 && !goes_on;
    run->is_end_known = true;
    if (result == GRAMMAR_ROWS_FULL)
        run->is_too_complex = true;
}

void grammar_run_prepare(struct grammar_run *run)
{
    grammar_run_drop_walk(run);
    save_room(run);
    look_at_end(run);
}

bool grammar_run_accepts(struct grammar_run *run)
{
    if (!run->is_too_complex)
        look_at_end(run);
    return !run->is_too_complex && run->accepts;
}

bool grammar_run_is_over(struct grammar_run *run)
{
    return grammar_run_accepts(run) && run->is_over;
}

bool grammar_run_is_too_complex(const struct grammar_run *run)
{
    return run->is_too_complex;
}

uint64_t grammar_run_tokens(const struct grammar_run *run)
{
    return run->tokens;
}

struct grammar *grammar_run_grammar(const struct grammar_run *run)
{
    return run->grammar;
}
