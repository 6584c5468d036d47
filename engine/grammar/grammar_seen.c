#include "engine/grammar/grammar_seen.h"

#include "config/base/limits_grammar.h"
#include "config/base/mem.h"

enum { COUNT_SHIFT = 32, COMPARISONS = 4 }; /* comparisons that take as long as a step */

bool grammar_seen_init(struct grammar_seen *seen, uint32_t rows)
{
    seen->texts = mem_alloc(LIMIT_GRAMMAR_TEXTS * sizeof *seen->texts);
    seen->rows = mem_alloc(rows * sizeof *seen->rows);
    return seen->texts != NULL && seen->rows != NULL;
}

void grammar_seen_deinit(struct grammar_seen *seen)
{
    mem_free(seen->texts);
    mem_free(seen->rows);
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
