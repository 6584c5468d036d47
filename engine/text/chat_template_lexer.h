/* chat_template_lexer: template source → tokens, with Jinja's rules for white space.
 *
 * Owns:     nothing; tokens point into the source.
 * Thread:   one at a time.
 * Cost:     O(bytes), no allocation (chat_template_lexer_unescape appends to a buffer).
 * Not here: the meaning of tokens (chat_template_parser).
 *
 * White space is treated as in the libraries that run these templates (trim_blocks, lstrip_blocks):
 * the newline after a block or comment is dropped, and so are blanks between the start of a line
 * and a block or comment. "-" at a tag's inside edge drops all white space beyond it, "+" keeps
 * what would be dropped. One newline at the end of the source is dropped.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

enum chat_template_lexer_kind {
    CHAT_TEMPLATE_LEXER_END,
    CHAT_TEMPLATE_LEXER_TEXT,        /* outside of tags */
    CHAT_TEMPLATE_LEXER_PRINT_BEGIN, /* {{ */
    CHAT_TEMPLATE_LEXER_PRINT_END,   /* }} */
    CHAT_TEMPLATE_LEXER_BLOCK_BEGIN, /* {% */
    CHAT_TEMPLATE_LEXER_BLOCK_END,   /* %} */
    CHAT_TEMPLATE_LEXER_NAME,
    CHAT_TEMPLATE_LEXER_STRING, /* the text between the quotes, with its escapes */
    CHAT_TEMPLATE_LEXER_INTEGER,
    CHAT_TEMPLATE_LEXER_FLOAT,
    CHAT_TEMPLATE_LEXER_OPERATOR, /* == != <= >= // ** and + - * / % ~ < > ( ) [ ] { } . , : | = */
};

struct chat_template_lexer_token {
    enum chat_template_lexer_kind kind;
    uint32_t line; /* from 1, where it begins */
    struct slice text;
};

struct chat_template_lexer {
    struct slice source; /* with \n as the only newline */
    size_t at;
    uint32_t line;
    uint32_t nesting;                   /* open brackets in this tag */
    enum chat_template_lexer_kind mode; /* TEXT, or the _BEGIN of the tag it is in */
};

void chat_template_lexer_init(struct chat_template_lexer *lexer, struct slice source);

/* The next token. CORRUPT for a tag, comment or string that is not closed, or a character that is
 * not allowed there. Messages begin with "line N: ". */
enum status chat_template_lexer_next(struct chat_template_lexer *lexer,
                                     struct chat_template_lexer_token *out);

/* Appends the string that a STRING token stands for. UNSUPPORTED for the escapes with digits, N and
 * U, CORRUPT for a \x or \u that is not a character. Known are \n \t \r \a \b \f \v \\ \' \" \xHH
 * \uHHHH; as in Python, any other backslash stands for itself. */
enum status chat_template_lexer_unescape(const struct chat_template_lexer_token *token,
                                         struct buffer *out);
