/* grammar_seen: which texts the items of a list had, for lists whose items all differ.
 *
 *     ["b","a"    count of the list behind "a" = 2 items << 32 | number of the text of "a"
 *                 text of "a" ──before──► text of "b" ──before──► none
 *
 * Owns:     texts, as hashes, and which of them each row added.
 * Thread:   that of the rows.
 * Cost:     a step for four earlier items of the list, when an item ends.
 * Not here: where texts are asked for (grammar_rows), how a text is hashed (grammar_place).
 *
 * Texts are a stack as rows are. Two different texts with equal hashes are taken for the same one,
 * which forbids an item that would have been new; an item that is not new is never allowed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct grammar_seen_text {
    uint64_t text;
    uint32_t before; /* number of the text before it in its list, or 0 */
};

struct grammar_seen_row {
    uint64_t text; /* of the lexeme that ended in front of the row */
    uint32_t first;
    uint32_t count; /* of texts that the row added */
};

struct grammar_seen {
    struct grammar_seen_text *texts; /* [LIMIT_GRAMMAR_TEXTS]; the text with number n is n - 1 */
    struct grammar_seen_row *rows;   /* by row; NULL when the grammar has no such lists */
    uint16_t *moved;                 /* scratch of a compaction: the new number by the old one */
};

/* False when there is no memory. */
bool grammar_seen_init(struct grammar_seen *seen, uint32_t rows);
void grammar_seen_deinit(struct grammar_seen *seen);

/* Begins `row`, and drops what it and later rows added before. */
void grammar_seen_begin(struct grammar_seen *seen, uint32_t row, uint64_t text);
/* Whether the list has the row's text. Adds to `steps` what looking took. */
bool grammar_seen_has(const struct grammar_seen *seen, uint32_t row, uint64_t list,
                      uint32_t *steps);
/* Notes the list that has the row's text behind `list`. False when the stack is full. */
bool grammar_seen_add(struct grammar_seen *seen, uint32_t row, uint64_t list);
/* The list that grammar_seen_add noted, or `list` itself. */
uint64_t grammar_seen_after(const struct grammar_seen *seen, uint32_t row, uint64_t list);

/* Whether less than a quarter of the stack is free above `row`. */
bool grammar_seen_is_tight(const struct grammar_seen *seen, uint32_t row);

/* A compaction keeps the texts of lists and of rows, and moves them to the bottom of the stack:
 * begin, keep what is left, and move the texts up to those of row `top`. Then each list and each
 * row that is left is moved, once, rows in their order. */
void grammar_seen_compact_begin(struct grammar_seen *seen);
void grammar_seen_keep(struct grammar_seen *seen, uint64_t list);
void grammar_seen_keep_row(struct grammar_seen *seen, uint32_t row);
void grammar_seen_move(struct grammar_seen *seen, uint32_t top);
/* The list under its new number. */
uint64_t grammar_seen_moved(const struct grammar_seen *seen, uint64_t list);
/* Row `row` becomes row `to`, which is not greater. */
void grammar_seen_move_row(struct grammar_seen *seen, uint32_t row, uint32_t to);
