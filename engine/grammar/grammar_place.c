#include "engine/grammar/grammar_place.h"

struct grammar_place grammar_place_first(const struct grammar_rows *rows)
{
    return (struct grammar_place){.state = rows->rows[0].start};
}

/* The place behind the row that was pushed. */
static void go_on(const struct grammar_rows *rows, struct grammar_place *place)
{
    place->row++;
    place->state = rows->rows[place->row].start;
    place->open = 0;
    place->text = 0;
}

static enum grammar_rows_result end_lexeme(struct grammar_rows *rows, struct grammar_place *place)
{
    enum grammar_rows_result result =
        grammar_rows_push(rows, place->row, place->state, place->text);
    if (result == GRAMMAR_ROWS_OK)
        go_on(rows, place);
    return result;
}

enum grammar_rows_result grammar_place_step(struct grammar_rows *rows, struct grammar_place *place,
                                            uint8_t byte)
{
    struct lexer *lexer = rows->grammar->lexer;
    uint32_t next = lexer_step(lexer, place->state, byte);
    if (next == LEXER_DEAD) {
        if (!lexer_is_end(lexer, place->state))
            return GRAMMAR_ROWS_NONE;
        enum grammar_rows_result result = end_lexeme(rows, place);
        if (result != GRAMMAR_ROWS_OK)
            return result;
        next = lexer_step(lexer, place->state, byte);
        if (next == LEXER_DEAD)
            return GRAMMAR_ROWS_NONE;
    }
    if (next == LEXER_FULL)
        return GRAMMAR_ROWS_FULL;
    place->state = next;
    place->open += place->open != UINT32_MAX;
    place->text = grammar_place_text(place->text, byte);
    return lexer_is_lazy(lexer, next) ? end_lexeme(rows, place) : GRAMMAR_ROWS_OK;
}

enum grammar_rows_result grammar_place_close(struct grammar_rows *rows, struct grammar_place *place)
{
    if (place->open == 0)
        return GRAMMAR_ROWS_OK;
    if (!lexer_is_end(rows->grammar->lexer, place->state))
        return GRAMMAR_ROWS_NONE;
    return end_lexeme(rows, place);
}

enum grammar_rows_result grammar_place_token(struct grammar_rows *rows, struct grammar_place *place,
                                             uint32_t token)
{
    enum grammar_rows_result result = grammar_place_close(rows, place);
    if (result == GRAMMAR_ROWS_OK)
        result = grammar_rows_push_token(rows, place->row, token);
    if (result == GRAMMAR_ROWS_OK)
        go_on(rows, place);
    return result;
}
