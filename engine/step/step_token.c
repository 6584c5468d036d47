#include "engine/step/step_token.h"

#include <string.h>

#include "engine/step/step_charge.h"
#include "engine/step/step_draft.h"
#include "engine/step/step_embed.h"
#include "engine/step/step_end.h"
#include "engine/step/step_metrics.h"
#include "engine/step/step_prefix.h"
#include "engine/step/step_tell.h"

/* No row of logits. */
enum { ROW_NONE = UINT32_MAX };

static void token_times(struct step *step, struct sequence *sequence, struct ticket *ticket)
{
    const struct step_class_metrics *metrics = &step->metrics.classes[ticket->asked.service_class];
    if (step->metrics.tokens_generated != NULL) {
        metric_add(step->metrics.tokens_generated, 1);
        if (ticket->first_token_us == 0)
            metric_observe(metrics->first_token_seconds,
                           (double)(step->now_us - ticket->submitted_us) * 1e-6);
        if (sequence->last_token_us > 0)
            metric_observe(metrics->inter_token_seconds,
                           (double)(step->now_us - sequence->last_token_us) * 1e-6);
    }
    if (ticket->first_token_us == 0)
        ticket->first_token_us = step->now_us;
    ticket->last_token_us = step->now_us;
    sequence->last_token_us = step->now_us;
    atomic_fetch_add_explicit(&step->figures.tokens_generated, 1, memory_order_relaxed);
}

/* What the grammar of a constrained answer says of a token that is no end token. */
static enum engine_finish token_guard(const struct sequence *sequence, struct guard *guard,
                                      uint32_t token, bool is_forced)
{
    if (is_forced)
        return guard->is_over && sequence->forced == 0 ? ENGINE_FINISH_STOP : ENGINE_FINISH_NONE;
    if (!guard_take(guard, token))
        return ENGINE_FINISH_GRAMMAR;
    return guard_is_over(guard) ? ENGINE_FINISH_STOP : ENGINE_FINISH_NONE;
}

static enum engine_finish token_finish(const struct sequence *sequence, const struct ticket *ticket,
                                       bool is_end)
{
    if (is_end || text_stream_is_stopped(&sequence->text))
        return ENGINE_FINISH_STOP;
    if (sequence_generated(sequence) >= ticket->tokens_max)
        return ENGINE_FINISH_LENGTH;
    return ENGINE_FINISH_NONE;
}

/* The echo is emitted as a mark. The answer's text begins where the prompt's ends, maybe inside a
 * character: the prompt's last three bytes tell. */
static void token_echo(struct step *step, uint32_t index)
{
    struct sequence *sequence = &step->sequences.slots[index];
    const struct engine_request *asked = &step->options.tickets->slots[sequence->slot].asked;
    const struct outbox_record mark = step_tell_record(step, ENGINE_EVENT_PROMPT, index);
    char last[3];
    size_t from = sizeof(last);
    for (uint32_t i = sequence->prompt_count; i > 0 && from > 0; i--) {
        uint32_t token = sequence->tokens[i - 1];
        if (!asked->shows_control && vocab_is_control(step->options.vocab, token))
            continue;
        uint32_t previous = i > 1 ? sequence->tokens[i - 2] : VOCAB_NONE;
        struct slice bytes = vocab_text(step->options.vocab, previous, token);
        while (bytes.length > 0 && from > 0)
            last[--from] = bytes.bytes[--bytes.length];
    }
    step_tell(step, &mark, NULL, (struct slice){0});
    text_stream_follow(&sequence->text, (struct slice){last + from, sizeof(last) - from});
    sequence->scored = UINT32_MAX;
}

static bool token_is_stop(const struct engine_request *asked, uint32_t token)
{
    uint32_t i = 0;
    while (i < asked->stop_token_count && asked->stop_tokens[i] != token)
        i++;
    return i < asked->stop_token_count;
}

/* Takes what a token says of reasoning. Behind the mark that ends reasoning the constraint of the
 * request holds; white space in the token of the mark is none of the answer. False when the grammar
 * does not allow the rest of that token. */
static bool token_reasons(struct step *step, struct sequence *sequence, uint32_t previous,
                          uint32_t token)
{
    struct reasoning_budget *budget = &sequence->budget;
    step_metrics_closed(step, token == reasoning_budget_next(budget) && budget->forced == 0);
    step_token_reason(step, previous, token, budget);
    if (!sequence->is_reasoning || budget->is_inside)
        return true;
    struct slice text = vocab_text(step->options.vocab, previous, token);
    text = (struct slice){text.bytes + text.length - budget->behind, budget->behind};
    while (text.length > 0 && strchr(" \n\r\t", text.bytes[0]) != NULL)
        text = (struct slice){text.bytes + 1, text.length - 1};
    budget->marks = NULL;
    sequence->is_reasoning = false;
    return text.length == 0 || guard_begin(step_guard(step, sequence), text);
}

/* Whether the answer ends with this token, which is appended. Before tokens_min it does only where
 * its grammar allowed nothing else. */
static bool token_is_end(const struct step *step, const struct sequence *sequence, uint32_t token)
{
    const struct engine_request *asked = &step->options.tickets->slots[sequence->slot].asked;
    const bool is_end = vocab_is_end(step->options.vocab, token) && !asked->ignore_end;
    if (sequence_generated(sequence) <= asked->tokens_min)
        return is_end && step_guard(step, sequence) != NULL;
    return is_end || token_is_stop(asked, token);
}

void step_token_reason(const struct step *step, uint32_t previous, uint32_t token,
                       struct reasoning_budget *budget)
{
    const struct vocab *vocab = step->options.vocab;
    struct slice text = {0};
    if (budget->marks == NULL)
        return;
    if (!vocab_is_control(vocab, token))
        text = vocab_text(vocab, previous, token);
    reasoning_budget_take(budget, token, text);
}

static bool token_is_mark(const struct step *step, uint32_t token)
{
    uint32_t i = 0;
    while (i < step->options.mark_count && step->options.marks[i] != token)
        i++;
    return i < step->options.mark_count;
}

/* Appends a token and emits it; false when the sequence has ended with it. The token was sampled
 * from a row of logits, or is forced; then it may have no row. */
static bool token_next(struct step *step, uint32_t index, uint32_t token, uint32_t row)
{
    struct sequence *sequence = &step->sequences.slots[index];
    struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    const struct engine_request *asked = &ticket->asked;
    const struct vocab *vocab = step->options.vocab;
    const bool is_forced = sequence->forced > 0;
    uint32_t previous = sequence->tokens[sequence->token_count - 1];
    if (asked->echo && sequence_generated(sequence) == 0)
        token_echo(step, index);
    sequence->tokens[sequence->token_count++] = token;
    sequence->forced -= is_forced;
    step_metrics_forced(step, is_forced);
    struct guard *guard = step_guard(step, sequence);
    const bool is_allowed = token_reasons(step, sequence, previous, token);
    ticket->report.completion_tokens++;
    step_charge_token(step, sequence);
    token_times(step, sequence, ticket);

    if (sequence->is_pause_told) {
        const struct outbox_record resumed = step_tell_record(step, ENGINE_EVENT_RESUMED, index);
        step_tell(step, &resumed, NULL, (struct slice){0});
        sequence->is_pause_told = false;
    }
    struct engine_logprob top[LIMIT_LOGPROBS];
    struct outbox_record record = step_tell_record(step, ENGINE_EVENT_TOKEN, index);
    record.token = token;
    if (row != ROW_NONE)
        record.top_count =
            drawer_told(&step->drawer, row, token, asked->want_logprobs ? asked->top_logprobs : 0,
                        &record.logprob, top);
    const bool is_end = token_is_end(step, sequence, token);
    bool is_hidden = is_end || (!asked->shows_control && vocab_is_control(vocab, token));
    record.is_mark = asked->wants_marks && !is_end && token_is_mark(step, token);
    sequence->text.passes_stops =
        sequence->is_reasoning || sequence_generated(sequence) <= asked->tokens_min;
    struct slice text =
        record.is_mark
            ? text_stream_mark(&sequence->text)
            : text_stream_push(&sequence->text, vocab_text(vocab, previous, token), is_hidden);
    record.text_offset = (uint32_t)text_stream_offset(&sequence->text);
    step_tell(step, &record, top, text);

    enum engine_finish finish = is_allowed ? ENGINE_FINISH_NONE : ENGINE_FINISH_GRAMMAR;
    if (guard != NULL && !is_end)
        finish = token_guard(sequence, guard, token, is_forced);
    if (finish == ENGINE_FINISH_NONE)
        finish = token_finish(sequence, ticket, is_end);
    if (finish != ENGINE_FINISH_NONE)
        step_end_own(step, index, finish);
    return finish == ENGINE_FINISH_NONE;
}

/* Echo: row `position` of the prompt gives the log-probability of the token after it. */
static void token_score(struct step *step, const struct sequence *sequence, uint32_t position,
                        uint32_t row)
{
    const struct ticket *ticket = &step->options.tickets->slots[sequence->slot];
    struct ticket_score *score = ticket_score_at(ticket, sequence->choice, position + 1);
    score->top_count = drawer_told(&step->drawer, row, sequence->tokens[position + 1],
                                   ticket->asked.top_logprobs, &score->logprob, score->top);
}

/* A published prompt ends where an answer would begin. */
static void token_published(struct step *step, uint32_t index)
{
    bool is_pinned = step_prefix_pin(step, &step->sequences.slots[index]);
    step_end_own(step, index, is_pinned ? ENGINE_FINISH_STOP : ENGINE_FINISH_ERROR);
}

/* Rows below `end` are computed, and their tokens are final. */
static void token_computed(struct step *step, struct sequence *sequence, uint32_t end)
{
    const uint32_t before = sequence->computed;
    step_charge_rows(step, sequence, before, end);
    sequence->computed = end;
    step_prefix_advance(step, sequence, before);
}

/* Emits the forced tokens that follow the rows of the part. True when a token is to be sampled
 * behind them, from logit row `*row`. */
static bool token_forced(struct step *step, const struct step_part *part, uint32_t *row)
{
    struct sequence *sequence = &step->sequences.slots[part->sequence];
    const bool has_rows = step->options.tickets->slots[sequence->slot].asked.want_logprobs;
    for (uint32_t left = part->forced; sequence->forced > 0; left--) {
        const uint32_t token = sequence->tokens[sequence->token_count];
        if (!token_next(step, part->sequence, token, has_rows ? *row : ROW_NONE) || left == 0)
            return false;
        token_computed(step, sequence, sequence->computed + 1);
        *row += has_rows;
    }
    return true;
}

/* Emits the token of the last planned row, and verifies the draft rows after it: a draft token that
 * equals the token just sampled had the right input, so its row gives the next token. Before that
 * is known nothing goes to the tree and no account is charged for a token. */
static void token_drawn(struct step *step, const struct step_part *part, uint32_t row)
{
    struct sequence *sequence = &step->sequences.slots[part->sequence];
    const struct batch *batch = &step->batch;
    struct engine_report *report = &step->options.tickets->slots[sequence->slot].report;
    uint32_t accepted = 0;
    if (!token_forced(step, part, &row))
        return;
    report->drafts_rejected += part->drafts;
    step_charge_drafts(step, sequence, (int32_t)part->drafts);
    for (;;) {
        const uint32_t drawn = step->drawer.tokens[row];
        const bool was_reasoning = sequence->is_reasoning; /* drafts behind it have no masks */
        if (!token_next(step, part->sequence, drawn, row) || accepted == part->drafts ||
            was_reasoning != sequence->is_reasoning ||
            batch->tokens[batch->logit_row[row + 1]] != drawn)
            break;
        row++;
        accepted++;
        report->drafts_accepted++;
        report->drafts_rejected--;
        step_charge_drafts(step, sequence, -1);
        token_computed(step, sequence, sequence->computed + 1);
    }
    if (part->drafts > 0)
        step_draft_judged(step, part->sequence, part->drafts, accepted);
    if (step->draft.places != NULL)
        sequence_trim(sequence, &step->pool);
}

/* Rows of a text that is embedded; with its last one it ends. */
static void token_embedded(struct step *step, const struct step_part *part, uint32_t position,
                           uint32_t end)
{
    struct sequence *sequence = &step->sequences.slots[part->sequence];
    if (step->options.is_encoder && end < sequence->token_count)
        return; /* nothing is computed yet */
    if (step->options.is_encoder)
        position = sequence_logits_from(sequence);
    for (uint32_t row = part->logits_first; position < end; row++, position++) {
        step_embed_row(step, part->sequence, position, row);
        if (sequence->scored != UINT32_MAX)
            sequence->scored = position + 1;
    }
    if (end < sequence->token_count)
        return;
    step_embed_tell(step, part->sequence);
    step_end_own(step, part->sequence, ENGINE_FINISH_STOP);
}

void step_token_results(struct step *step, const struct step_part *part)
{
    struct sequence *sequence = &step->sequences.slots[part->sequence];
    uint32_t from = sequence_logits_from(sequence);
    uint32_t position = sequence->computed > from ? sequence->computed : from;
    uint32_t end = sequence->computed + part->rows;
    uint32_t last = sequence->token_count - 1;
    token_computed(step, sequence, end);
    if (step->options.tickets->slots[sequence->slot].asked.pooling != ENGINE_POOLING_NONE) {
        token_embedded(step, part, position, end);
        return;
    }
    for (uint32_t row = part->logits_first; position < end; row++, position++) {
        if (position == last && step->options.tickets->slots[sequence->slot].asked.is_published) {
            token_published(step, part->sequence);
            return;
        }
        if (position == last && step->options.tickets->slots[sequence->slot].asked.is_scored) {
            token_echo(step, part->sequence);
            step_end_own(step, part->sequence, ENGINE_FINISH_LENGTH);
            return;
        }
        if (position == last) {
            token_drawn(step, part, row);
            return;
        }
        token_score(step, sequence, position, row);
        sequence->scored = position + 1;
    }
}
