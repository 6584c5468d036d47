/* reasoning_budget: how many tokens of reasoning an answer has, and when it must end.
 *
 * Owns:     the place of one answer: inside of reasoning or of a call, how much of a mark has come.
 * Thread:   one at a time; a copy goes on by itself, for drafts.
 * Cost:     O(bytes) a token; no allocation.
 * Not here: splitting answers (engine/answer), counting reasoning for the ledger (gateway).
 *
 *     <think> a b c ─ the budget of 3 is spent ─► </think>, forced token by token ─► the answer
 *
 * The tokens between the marks count, of all reasoning of the answer. A mark is a control token, or
 * text that is found in the bytes of other tokens, as the splitter finds it. In a call, text that
 * looks like a mark is none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

enum { REASONING_MARK_BYTES = 32, REASONING_NO_TOKEN = UINT32_MAX };

struct reasoning_mark {
    const char *text; /* NULL: the model has no such mark */
    uint32_t token;   /* REASONING_NO_TOKEN: the mark is text */
};

/* How a model marks reasoning and calls. */
struct reasoning_marks {
    struct reasoning_mark open;
    struct reasoning_mark close;
    struct reasoning_mark call_open;
    struct reasoning_mark call_close;
    uint32_t close_tokens[REASONING_MARK_BYTES]; /* the closing mark as it is forced */
    uint32_t close_count;                        /* 0: it cannot be */
};

struct reasoning_budget {
    const struct reasoning_marks *marks; /* NULL: no budget */
    uint32_t tokens_max;
    uint32_t tokens; /* of reasoning so far, at most tokens_max + those of a mark that had begun */
    bool is_inside;
    bool has_calls;
    bool is_in_call;
    uint8_t matched[2]; /* bytes that have come of each mark that may come now */
    uint8_t forced;     /* tokens of the closing mark that were forced */
    uint32_t behind;    /* bytes of the last token behind the last mark in it; 0 without one */
};

/* Begins an answer. `is_inside`: the prompt ends with the opening mark. `has_calls`: the marks of
 * calls are marks. `marks` must outlive the budget. */
void reasoning_budget_begin(struct reasoning_budget *budget, const struct reasoning_marks *marks,
                            uint32_t tokens_max, bool is_inside, bool has_calls);
/* Takes a token of the answer with its text, which is empty for a control token. */
void reasoning_budget_take(struct reasoning_budget *budget, uint32_t token, struct slice text);
/* The token that must come next; REASONING_NO_TOKEN: any may. */
uint32_t reasoning_budget_next(const struct reasoning_budget *budget);
