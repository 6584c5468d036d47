#include "engine/sampling/reasoning_budget.h"

#include <string.h>

void reasoning_budget_begin(struct reasoning_budget *budget, const struct reasoning_marks *marks,
                            uint32_t tokens_max, bool is_inside, bool has_calls)
{
    *budget = (struct reasoning_budget){
        .marks = marks, .tokens_max = tokens_max, .is_inside = is_inside, .has_calls = has_calls};
}

/* The marks that may come: the closing one of where the answer is, else the two opening ones. */
static void take_watched(const struct reasoning_budget *budget, struct reasoning_mark watched[2])
{
    const struct reasoning_mark none = {NULL, REASONING_NO_TOKEN};
    watched[1] = none;
    if (budget->is_inside) {
        watched[0] = budget->marks->close;
    } else if (budget->is_in_call) {
        watched[0] = budget->marks->call_close;
    } else {
        watched[0] = budget->marks->open;
        watched[1] = budget->has_calls ? budget->marks->call_open : none;
    }
}

/* Goes on behind a mark. */
static void take_mark(struct reasoning_budget *budget, int index)
{
    const bool is_open = !budget->is_inside && !budget->is_in_call;
    budget->is_inside = is_open && index == 0;
    budget->is_in_call = is_open && index == 1;
    budget->matched[0] = budget->matched[1] = 0;
    budget->forced = 0;
}

/* The first byte of a mark stands in it once, so a search that fails begins anew at that byte. */
static bool take_byte(uint8_t *matched, const char *text, char byte)
{
    *matched = byte == text[*matched] ? *matched + 1 : byte == text[0];
    return text[*matched] == '\0';
}

static void take_text(struct reasoning_budget *budget, struct slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        struct reasoning_mark watched[2];
        take_watched(budget, watched);
        for (int mark = 0; mark < 2; mark++) {
            if (watched[mark].text == NULL || watched[mark].token != REASONING_NO_TOKEN ||
                !take_byte(&budget->matched[mark], watched[mark].text, text.bytes[i]))
                continue;
            take_mark(budget, mark);
            budget->behind = (uint32_t)(text.length - i - 1);
            break;
        }
    }
}

void reasoning_budget_take(struct reasoning_budget *budget, uint32_t token, struct slice text)
{
    struct reasoning_mark watched[2];
    if (budget->marks == NULL)
        return;
    const bool is_forced = token == reasoning_budget_next(budget);
    budget->behind = 0;
    take_watched(budget, watched);
    budget->tokens += budget->is_inside && !is_forced && token != watched[0].token;
    budget->forced = is_forced ? budget->forced + 1 : 0;
    for (int mark = 0; mark < 2; mark++) {
        if (watched[mark].text != NULL && watched[mark].token == token) {
            take_mark(budget, mark);
            return;
        }
    }
    take_text(budget, text);
}

uint32_t reasoning_budget_next(const struct reasoning_budget *budget)
{
    if (budget->marks == NULL || !budget->is_inside || budget->tokens < budget->tokens_max ||
        budget->forced >= budget->marks->close_count)
        return REASONING_NO_TOKEN;
    return budget->marks->close_tokens[budget->forced];
}
