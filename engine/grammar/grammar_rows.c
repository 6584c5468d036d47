#include "engine/grammar/grammar_rows.h"

#include <string.h>

#include "config/base/hash.h"
#include "config/base/limits_grammar.h"
#include "config/base/mem.h"

enum {
    ROWS_MAX = LIMIT_GRAMMAR_RUN_BYTES / 4 / sizeof(struct grammar_row),
    ITEMS_MAX = LIMIT_GRAMMAR_RUN_BYTES / 4 * 3 / sizeof(struct grammar_item),
    SLOTS_FIRST = 64,
    SLOTS_MAX = 4 * LIMIT_GRAMMAR_ROW_ITEMS,
    MARK_BITS = 64,
    SEEN_BYTES = LIMIT_GRAMMAR_TEXTS * sizeof(struct grammar_seen_text) +
                 ROWS_MAX * sizeof(struct grammar_seen_row) +
                 (LIMIT_GRAMMAR_TEXTS + 1) * sizeof(uint16_t),
};

/* A row that is being made. */
struct making {
    struct grammar_rows *rows;
    struct grammar_item *items; /* of the row */
    uint32_t row;               /* its number */
    uint32_t count;
    uint32_t capacity;
    uint32_t steps;
    uint32_t empty; /* items that are an END of the row itself: rules that matched nothing */
    bool is_full;
    bool accepts;
};

/* --- items of one row --- */

static uint32_t slot_of(const struct grammar_rows *rows, const struct grammar_item *item)
{
    uint64_t mixed =
        hash_mix64(((uint64_t)item->dot << 32 | item->row) ^ item->count * 0x9e3779b97f4a7c15u);
    return (uint32_t)mixed & (rows->slot_count - 1);
}

static bool is_same(const struct grammar_item *a, const struct grammar_item *b)
{
    return a->dot == b->dot && a->row == b->row && a->count == b->count;
}

/* The slot of the item, or the free slot where it would be. */
static uint16_t *find_slot(const struct making *making, const struct grammar_item *item)
{
    const struct grammar_rows *rows = making->rows;
    uint32_t at = slot_of(rows, item);
    while (rows->slots[at] != 0 && !is_same(&making->items[rows->slots[at] - 1], item))
        at = (at + 1) & (rows->slot_count - 1);
    return &rows->slots[at];
}

static void set_slots(struct making *making, uint32_t count)
{
    struct grammar_rows *rows = making->rows;
    rows->slot_count = count;
    memset(rows->slots, 0, count * sizeof *rows->slots);
    for (uint32_t i = 0; i < making->count; i++)
        *find_slot(making, &making->items[i]) = (uint16_t)(i + 1);
}

static void add(struct making *making, uint32_t dot, uint32_t row, uint64_t count)
{
    struct grammar_item item = {dot, row, count};
    making->steps++;
    uint16_t *slot = find_slot(making, &item);
    if (*slot != 0)
        return;
    if (making->count == making->capacity) {
        making->is_full = true;
        return;
    }
    making->items[making->count++] = item;
    *slot = (uint16_t)making->count;
    if (making->count * 2 > making->rows->slot_count && making->rows->slot_count < SLOTS_MAX)
        set_slots(making, making->rows->slot_count * 2);
}

/* The count that an item of `row` hands to the rule behind its dot. */
static uint64_t pass_count(struct making *making, uint32_t row, const struct grammar_item *item)
{
    const struct grammar_rows *rows = making->rows;
    const struct grammar *grammar = rows->grammar;
    if (rows->seen.rows != NULL && grammar->passing != NULL &&
        grammar->passing[item->dot].pass == GRAMMAR_PASS_LIST)
        return grammar_seen_after(&rows->seen, row, item->count);
    return grammar_pass_count(grammar, item->dot, item->count);
}

/* Moves the dot of the items among `items`, of `row`, that wait for the rule with this count. */
static void advance(struct making *making, uint32_t row, const struct grammar_item *items,
                    uint32_t item_count, uint32_t rule, uint64_t count)
{
    const struct grammar *grammar = making->rows->grammar;
    uint32_t symbol = grammar_symbol_of(GRAMMAR_RULE, rule);
    making->steps += item_count;
    for (uint32_t i = 0; i < item_count && !making->is_full; i++) {
        struct grammar_item item = items[i];
        if (grammar->dots[item.dot] == symbol && pass_count(making, row, &item) == count)
            add(making, item.dot + 1, item.row, item.count);
    }
}

/* The rule that ends in `item` is whole. */
static void complete(struct making *making, struct grammar_item item, uint32_t rule)
{
    const struct grammar_rows *rows = making->rows;
    if (rule == 0) {
        making->accepts = true;
    } else if (item.row == making->row) {
        making->empty++;
        advance(making, making->row, making->items, making->count, rule, item.count);
    } else {
        const struct grammar_row *began = &rows->rows[item.row];
        advance(making, item.row, &rows->items[began->first], began->rules, rule, item.count);
    }
}

/* Whether the rule has matched the empty text in this row already. */
static bool is_empty_here(struct making *making, uint32_t rule, uint64_t count)
{
    if (making->empty == 0)
        return false;
    uint32_t end = grammar_symbol_of(GRAMMAR_END, rule);
    making->steps += making->count;
    for (uint32_t i = 0; i < making->count; i++) {
        const struct grammar_item *item = &making->items[i];
        if (item->row == making->row && item->count == count &&
            making->rows->grammar->dots[item->dot] == end)
            return true;
    }
    return false;
}

/* Adds the rule's alternatives. All are there if the first is. */
static void predict(struct making *making, struct grammar_item item, uint32_t rule)
{
    const struct grammar *grammar = making->rows->grammar;
    uint64_t count = pass_count(making, making->row, &item);
    const struct grammar_alternatives *all = &grammar->rules[rule];
    uint32_t before = making->count;
    making->steps += all->count;
    for (uint32_t i = 0; i < all->count && !making->is_full; i++) {
        const struct grammar_alternative *alternative = &grammar->alternatives[all->first + i];
        if (!grammar_answer(alternative, count))
            continue;
        add(making, alternative->dot, making->row, count);
        if (making->count == before)
            break;
        before = making->count;
    }
    if (is_empty_here(making, rule, count))
        add(making, item.dot + 1, item.row, item.count);
}

/* --- a row --- */

/* Begins row `number` behind row `number` - 1. */
static bool begin(struct making *making, struct grammar_rows *rows, uint32_t number, uint64_t text)
{
    uint32_t first = 0;
    if (number != 0) {
        const struct grammar_row *last = &rows->rows[number - 1];
        first = last->first + last->rules + last->ends;
    }
    rows->row_count = number; /* what was above is overwritten */
    *making = (struct making){.rows = rows, .items = rows->items + first, .row = number};
    if (number >= ROWS_MAX || first >= rows->item_max)
        return false;
    if (rows->seen.rows != NULL)
        grammar_seen_begin(&rows->seen, number, text);
    making->capacity = rows->item_max - first;
    if (making->capacity > LIMIT_GRAMMAR_ROW_ITEMS)
        making->capacity = LIMIT_GRAMMAR_ROW_ITEMS;
    rows->rows[number] = (struct grammar_row){.first = first};
    set_slots(making, SLOTS_FIRST);
    return true;
}

/* Closes the items under completion and prediction. False when a limit is met. */
static bool close(struct making *making)
{
    const struct grammar *grammar = making->rows->grammar;
    for (uint32_t i = 0; i < making->count; i++) {
        if (making->is_full || making->steps > LIMIT_GRAMMAR_ROW_STEPS)
            break;
        struct grammar_item item = making->items[i];
        uint32_t symbol = grammar->dots[item.dot];
        if (grammar_kind_of(symbol) == GRAMMAR_END)
            complete(making, item, grammar_index_of(symbol));
        else if (grammar_kind_of(symbol) == GRAMMAR_RULE)
            predict(making, item, grammar_index_of(symbol));
    }
    return !making->is_full && making->steps <= LIMIT_GRAMMAR_ROW_STEPS;
}

/* Drops items of rules that are whole, since nobody looks for them later, and puts those that wait
 * for a rule first. */
static void sort_items(struct making *making, struct grammar_row *row)
{
    const struct grammar *grammar = making->rows->grammar;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < making->count; i++) {
        struct grammar_item item = making->items[i];
        enum grammar_kind kind = grammar_kind_of(grammar->dots[item.dot]);
        if (kind == GRAMMAR_END)
            continue;
        if (kind == GRAMMAR_RULE) {
            making->items[kept++] = making->items[row->rules];
            making->items[row->rules++] = item;
        } else {
            making->items[kept++] = item;
        }
    }
    row->ends = kept - row->rules;
}

/* The lexer state of the lexemes that the row waits for. False when the lexer is at a limit. */
static bool find_start(struct making *making, struct grammar_row *row)
{
    struct grammar_rows *rows = making->rows;
    const struct grammar *grammar = rows->grammar;
    const struct grammar_item *items = making->items + row->rules;
    for (uint32_t i = 0; i < row->ends; i++) {
        uint32_t symbol = grammar->dots[items[i].dot];
        uint32_t index = grammar_index_of(symbol);
        if (grammar_kind_of(symbol) == GRAMMAR_TOKEN)
            row->has_tokens = true;
        else
            rows->marks[index / MARK_BITS] |= (uint64_t)1 << index % MARK_BITS;
    }
    uint32_t count = 0;
    for (uint32_t word = 0; word * MARK_BITS < grammar->lexeme_count; word++) {
        for (uint64_t bits = rows->marks[word]; bits != 0; bits &= bits - 1)
            rows->lexemes[count++] = word * MARK_BITS + (uint32_t)__builtin_ctzll(bits);
        rows->marks[word] = 0;
    }
    return lexer_start(grammar->lexer, rows->lexemes, count, &row->start) == STATUS_OK;
}

/* Makes the row of the items that were added. */
static enum grammar_rows_result finish(struct making *making, uint32_t reason)
{
    struct grammar_rows *rows = making->rows;
    struct grammar_row *row = &rows->rows[making->row];
    bool is_closed = close(making);
    rows->steps += making->steps;
    if (!is_closed)
        return GRAMMAR_ROWS_FULL;
    sort_items(making, row);
    row->accepts = making->accepts;
    row->reason = reason;
    if (!find_start(making, row))
        return GRAMMAR_ROWS_FULL;
    rows->row_count = making->row + 1;
    return GRAMMAR_ROWS_OK;
}

static bool is_among(const uint32_t *lexemes, uint32_t count, uint32_t lexeme)
{
    uint32_t low = 0;
    while (count > 4) {
        uint32_t half = count / 2;
        if (lexemes[low + half] <= lexeme) {
            low += half;
            count -= half;
        } else {
            count = half;
        }
    }
    for (uint32_t i = 0; i < count; i++)
        if (lexemes[low + i] == lexeme)
            return true;
    return false;
}

/* Whether row `from` + 1 was made for the lexemes that end in `state`. */
static bool is_made(const struct grammar_rows *rows, uint32_t from, uint32_t state, uint64_t text)
{
    if (rows->row_count <= from + 1)
        return false;
    if (rows->seen.rows != NULL && rows->seen.rows[from + 1].text != text)
        return false;
    uint32_t reason = rows->rows[from + 1].reason;
    if (reason == state || (reason & GRAMMAR_ROWS_TOKEN) != 0)
        return reason == state;
    uint32_t count, other_count;
    const uint32_t *lexemes = lexer_ends(rows->grammar->lexer, state, &count);
    const uint32_t *others = lexer_ends(rows->grammar->lexer, reason, &other_count);
    return count == other_count && memcmp(lexemes, others, count * sizeof *lexemes) == 0;
}

/* Moves the dot of an item over the lexeme that ended, unless its text has to be new and is not. */
static void scan(struct making *making, const struct grammar_item *item)
{
    struct grammar_rows *rows = making->rows;
    const struct grammar *grammar = rows->grammar;
    if (rows->seen.rows != NULL && grammar->passing != NULL &&
        grammar->passing[item->dot].pass == GRAMMAR_PASS_LIST) {
        if (grammar_seen_has(&rows->seen, making->row, item->count, &making->steps))
            return;
        if (!grammar_seen_add(&rows->seen, making->row, item->count)) {
            making->is_full = true;
            return;
        }
    }
    add(making, item->dot + 1, item->row, item->count);
}

enum grammar_rows_result grammar_rows_push(struct grammar_rows *rows, uint32_t from, uint32_t state,
                                           uint64_t text)
{
    ASSERT(from < rows->row_count);
    const struct grammar *grammar = rows->grammar;
    if (!lexer_is_lazy(grammar->lexer, state))
        text = 0; /* only lexemes that end at once are compared */
    if (is_made(rows, from, state, text))
        return GRAMMAR_ROWS_OK;
    struct making making;
    if (!begin(&making, rows, from + 1, text))
        return GRAMMAR_ROWS_FULL;
    const struct grammar_row *row = &rows->rows[from];
    uint32_t count;
    const uint32_t *lexemes = lexer_ends(grammar->lexer, state, &count);
    making.steps += row->ends;
    for (uint32_t i = 0; i < row->ends; i++) {
        const struct grammar_item *item = &rows->items[row->first + row->rules + i];
        uint32_t symbol = grammar->dots[item->dot];
        if (grammar_kind_of(symbol) == GRAMMAR_LEXEME &&
            is_among(lexemes, count, grammar_index_of(symbol)))
            scan(&making, item);
    }
    if (making.is_full)
        return GRAMMAR_ROWS_FULL;
    if (making.count != 0)
        return finish(&making, state);
    rows->steps += making.steps;
    return GRAMMAR_ROWS_NONE;
}

enum grammar_rows_result grammar_rows_push_token(struct grammar_rows *rows, uint32_t from,
                                                 uint32_t token)
{
    ASSERT(from < rows->row_count);
    if (!rows->rows[from].has_tokens)
        return GRAMMAR_ROWS_NONE;
    if (rows->row_count > from + 1 && rows->rows[from + 1].reason == (token | GRAMMAR_ROWS_TOKEN))
        return GRAMMAR_ROWS_OK;
    struct making making;
    if (!begin(&making, rows, from + 1, 0))
        return GRAMMAR_ROWS_FULL;
    const struct grammar_row *row = &rows->rows[from];
    uint32_t wanted = grammar_symbol_of(GRAMMAR_TOKEN, token);
    making.steps += row->ends;
    for (uint32_t i = 0; i < row->ends; i++) {
        const struct grammar_item *item = &rows->items[row->first + row->rules + i];
        if (rows->grammar->dots[item->dot] == wanted)
            add(&making, item->dot + 1, item->row, item->count);
    }
    if (making.count == 0)
        return GRAMMAR_ROWS_NONE;
    return finish(&making, token | GRAMMAR_ROWS_TOKEN);
}

/* --- the arena --- */

bool grammar_rows_restart(struct grammar_rows *rows)
{
    struct making making;
    bool has_room = begin(&making, rows, 0, 0);
    ASSERT(has_room);
    add(&making, 0, 0, 0);
    return finish(&making, GRAMMAR_ROWS_TOKEN) == GRAMMAR_ROWS_OK;
}

enum status grammar_rows_init(struct grammar_rows *rows, const struct grammar *grammar)
{
    size_t words = grammar->lexeme_count / MARK_BITS + 1;
    bool has_seen = true;
    *rows = (struct grammar_rows){.grammar = grammar, .item_max = ITEMS_MAX};
    if (grammar->has_lists) {
        rows->item_max -= (uint32_t)(SEEN_BYTES / sizeof *rows->items);
        has_seen = grammar_seen_init(&rows->seen, ROWS_MAX);
    }
    rows->rows = mem_alloc(ROWS_MAX * sizeof *rows->rows);
    rows->items = mem_alloc(rows->item_max * sizeof *rows->items);
    rows->slots = mem_alloc(SLOTS_MAX * sizeof *rows->slots);
    rows->marks = mem_zalloc(words, sizeof *rows->marks);
    rows->lexemes = mem_alloc(words * MARK_BITS * sizeof *rows->lexemes);
    rows->remap = mem_alloc(ROWS_MAX * sizeof *rows->remap);
    if (rows->rows == NULL || rows->items == NULL || rows->slots == NULL || rows->marks == NULL ||
        rows->lexemes == NULL || rows->remap == NULL || !has_seen) {
        grammar_rows_deinit(rows);
        FAIL(STATUS_NO_MEMORY, "no memory for a grammar's rows");
    }
    if (!grammar_rows_restart(rows)) {
        grammar_rows_deinit(rows);
        FAIL(STATUS_LIMIT, "the grammar has too many ways to begin");
    }
    return STATUS_OK;
}

void grammar_rows_deinit(struct grammar_rows *rows)
{
    mem_free(rows->rows);
    mem_free(rows->items);
    mem_free(rows->slots);
    mem_free(rows->marks);
    mem_free(rows->lexemes);
    mem_free(rows->remap);
    grammar_seen_deinit(&rows->seen);
    *rows = (struct grammar_rows){0};
}

bool grammar_rows_is_tight(const struct grammar_rows *rows, uint32_t top)
{
    const struct grammar_row *row = &rows->rows[top];
    if (rows->seen.rows != NULL && grammar_seen_is_tight(&rows->seen, top))
        return true;
    return top + 1 > ROWS_MAX / 4 * 3 ||
           row->first + row->rules + row->ends > rows->item_max / 4 * 3;
}

enum { DROPPED = 0, KEPT = 1 };

/* Marks the rows below `oldest` in which an item of a marked row, or of a row from `oldest` on,
 * began. Items began in their own row or in an earlier one, so one pass from the top is enough. */
static void mark_rows(struct grammar_rows *rows, uint32_t oldest, uint32_t top)
{
    memset(rows->remap, 0, oldest * sizeof *rows->remap);
    for (uint32_t i = top + 1; i-- > 0;) {
        if (i < oldest && rows->remap[i] == DROPPED)
            continue;
        const struct grammar_row *row = &rows->rows[i];
        uint32_t count = i < oldest ? row->rules : row->rules + row->ends;
        for (uint32_t k = 0; k < count; k++)
            if (rows->items[row->first + k].row < oldest)
                rows->remap[rows->items[row->first + k].row] = KEPT;
    }
}

/* Whether the count of the item is a list. */
static bool has_list(const struct grammar *grammar, const struct grammar_item *item)
{
    uint32_t dot = item->dot;
    while (grammar_kind_of(grammar->dots[dot]) != GRAMMAR_END)
        dot++;
    return grammar->is_list[grammar_index_of(grammar->dots[dot])];
}

/* Of a row below `oldest`, only items that wait for a rule are looked for again. */
static uint32_t items_left(const struct grammar_rows *rows, uint32_t row, uint32_t oldest)
{
    return rows->rows[row].rules + (row < oldest ? 0 : rows->rows[row].ends);
}

/* Drops the texts that no list of the rows that are left has. */
static void compact_texts(struct grammar_rows *rows, uint32_t oldest, uint32_t top)
{
    struct grammar_seen *seen = &rows->seen;
    grammar_seen_compact_begin(seen);
    for (uint32_t i = 0; i <= top; i++) {
        if (i < oldest && rows->remap[i] == DROPPED)
            continue;
        grammar_seen_keep_row(seen, i);
        struct grammar_item *items = &rows->items[rows->rows[i].first];
        for (uint32_t k = 0; k < items_left(rows, i, oldest); k++)
            if (has_list(rows->grammar, &items[k]))
                grammar_seen_keep(seen, items[k].count);
    }
    grammar_seen_move(seen, top);
}

uint32_t grammar_rows_compact(struct grammar_rows *rows, uint32_t oldest, uint32_t top)
{
    ASSERT(oldest <= top && top < rows->row_count);
    const bool has_seen = rows->seen.rows != NULL;
    mark_rows(rows, oldest, top);
    if (has_seen)
        compact_texts(rows, oldest, top);
    uint32_t used = 0;
    uint32_t made = 0;
    for (uint32_t i = 0; i <= top; i++) {
        if (i < oldest && rows->remap[i] == DROPPED)
            continue;
        struct grammar_row row = rows->rows[i];
        row.ends = items_left(rows, i, oldest) - row.rules;
        for (uint32_t k = 0; k < row.rules + row.ends; k++) {
            struct grammar_item item = rows->items[row.first + k];
            item.row = item.row == i ? made : rows->remap[item.row];
            if (has_seen && has_list(rows->grammar, &item))
                item.count = grammar_seen_moved(&rows->seen, item.count);
            rows->items[used + k] = item;
        }
        row.first = used;
        used += row.rules + row.ends;
        rows->remap[i] = made;
        if (has_seen)
            grammar_seen_move_row(&rows->seen, i, made);
        rows->rows[made++] = row;
    }
    rows->row_count = made;
    return top + 1 - made;
}
