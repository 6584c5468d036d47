#include "engine/grammar/grammar_seen.h"

#include <string.h>

#include "config/base/limits_grammar.h"
#include "config/base/mem.h"

enum { COUNT_SHIFT = 32, COMPARISONS = 4 }; /* comparisons that take as long as a step */

_Static_assert(LIMIT_GRAMMAR_TEXTS <= UINT16_MAX, "numbers of texts fit into `moved`");

bool grammar_seen_init(struct grammar_seen *seen, uint32_t rows)
{
    seen->texts = mem_alloc(LIMIT_GRAMMAR_TEXTS * sizeof *seen->texts);
    seen->rows = mem_alloc(rows * sizeof *seen->rows);
    seen->moved = mem_alloc((LIMIT_GRAMMAR_TEXTS + 1) * sizeof *seen->moved);
    return seen->texts != NULL && seen->rows != NULL && seen->moved != NULL;
}

void grammar_seen_deinit(struct grammar_seen *seen)
{
    mem_free(seen->texts);
    mem_free(seen->rows);
    mem_free(seen->moved);
    *seen = (struct grammar_seen){0};
}

void grammar_seen_begin(struct grammar_seen *seen, uint32_t row, uint64_t text)
{
    uint32_t first = row == 0 ? 0 : seen->rows[row - 1].first + seen->rows[row - 1].count;
    seen->rows[row] = (struct grammar_seen_row){.text = text, .first = first};
}

bool grammar_seen_has(const struct grammar_seen *seen, uint32_t row, uint64_t list, uint32_t *steps)
{
    uint64_t text = seen->rows[row].text;
    uint32_t at = (uint32_t)list;
    uint32_t looked = 0;
    for (; at != 0 && seen->texts[at - 1].text != text; at = seen->texts[at - 1].before)
        looked++;
    *steps += 1 + looked / COMPARISONS;
    return at != 0;
}

bool grammar_seen_add(struct grammar_seen *seen, uint32_t row, uint64_t list)
{
    struct grammar_seen_row *of = &seen->rows[row];
    if (grammar_seen_after(seen, row, list) != list)
        return true;
    if (of->first + of->count == LIMIT_GRAMMAR_TEXTS)
        return false;
    seen->texts[of->first + of->count++] = (struct grammar_seen_text){of->text, (uint32_t)list};
    return true;
}

uint64_t grammar_seen_after(const struct grammar_seen *seen, uint32_t row, uint64_t list)
{
    const struct grammar_seen_row *of = &seen->rows[row];
    for (uint32_t at = of->first; at < of->first + of->count; at++)
        if (seen->texts[at].before == (uint32_t)list)
            return ((list >> COUNT_SHIFT) + 1) << COUNT_SHIFT | (at + 1);
    return list;
}

/* --- compaction --- */

static uint32_t texts_below(const struct grammar_seen *seen, uint32_t row)
{
    return seen->rows[row].first + seen->rows[row].count;
}

bool grammar_seen_is_tight(const struct grammar_seen *seen, uint32_t row)
{
    return texts_below(seen, row) > LIMIT_GRAMMAR_TEXTS / 4 * 3;
}

void grammar_seen_compact_begin(struct grammar_seen *seen)
{
    memset(seen->moved, 0, (LIMIT_GRAMMAR_TEXTS + 1) * sizeof *seen->moved);
}

void grammar_seen_keep(struct grammar_seen *seen, uint64_t list)
{
    for (uint32_t at = (uint32_t)list; at != 0 && seen->moved[at] == 0;
         at = seen->texts[at - 1].before)
        seen->moved[at] = 1;
}

void grammar_seen_keep_row(struct grammar_seen *seen, uint32_t row)
{
    for (uint32_t at = seen->rows[row].first; at < texts_below(seen, row); at++)
        grammar_seen_keep(seen, at + 1);
}

void grammar_seen_move(struct grammar_seen *seen, uint32_t top)
{
    uint16_t made = 0;
    for (uint32_t at = 1; at <= texts_below(seen, top); at++) {
        if (seen->moved[at] != 0) {
            struct grammar_seen_text text = seen->texts[at - 1];
            text.before = seen->moved[text.before]; /* that text stands before this one */
            seen->texts[made++] = text;
        }
        seen->moved[at] = made; /* without a text of its own: the texts that are left below */
    }
}

void grammar_seen_move_row(struct grammar_seen *seen, uint32_t row, uint32_t to)
{
    struct grammar_seen_row of = seen->rows[row];
    of.first = seen->moved[of.first];
    seen->rows[to] = of;
}

uint64_t grammar_seen_moved(const struct grammar_seen *seen, uint64_t list)
{
    return list >> COUNT_SHIFT << COUNT_SHIFT | seen->moved[(uint32_t)list];
}
