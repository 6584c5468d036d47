#include "engine/answer/answer_split.h"

#include <string.h>

#include "config/base/limits_tools.h"

enum phase {
    PHASE_CONTENT,
    PHASE_REASONING,
    PHASE_CALL,    /* a body reads */
    PHASE_RAW,     /* arguments that are no JSON */
    PHASE_BEHIND,  /* behind a call: white space is dropped */
    PHASE_HARMONY, /* the whole answer */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void answer_split_init(struct answer_split *split, const struct answer_split_options *options)
{
    *split = (struct answer_split){.options = *options};
    answer_emit_init(&split->emit, options->take, options->context);
    if (options->model->format->body == ANSWER_HARMONY) {
        split->phase = PHASE_HARMONY;
        split->body.harmony.has_calls = options->has_calls;
    } else if (options->begins_in_reasoning) {
        split->phase = PHASE_REASONING;
        split->is_at_start = true;
        split->title = ANSWER_MARK_BYTES; /* the prompt has it */
    }
}

void answer_split_deinit(struct answer_split *split)
{
    answer_emit_deinit(&split->emit);
}

static const char *mark_text(const struct answer_split *split, enum answer_mark mark)
{
    return split->options.model->format->marks[mark];
}

/* --- which marks may come --- */

#define MARK(name) (1u << ANSWER_##name)

static uint32_t watch_call(const struct answer_split *split)
{
    switch (split->options.model->format->body) {
    case ANSWER_NAMED:
        return answer_body_json_is_in_name(&split->body.json) ? MARK(SEPARATOR) | MARK(CALL_CLOSE)
                                                              : 0;
    case ANSWER_XML:
        return answer_body_xml_is_in_text(&split->body.xml) ? 0 : MARK(CALL_CLOSE);
    case ANSWER_GEMMA:
        return MARK(QUOTE) | MARK(CALL_CLOSE);
    default:
        return 0;
    }
}

static uint32_t watch(const struct answer_split *split)
{
    const struct answer_split_options *options = &split->options;
    const uint32_t calls =
        options->has_calls ? MARK(CALL_OPEN) | MARK(GROUP_OPEN) | MARK(GROUP_CLOSE) : 0;
    const uint32_t reasoning =
        options->model->has_reasoning && !options->reasons_once ? MARK(REASON_OPEN) : 0;
    switch ((enum phase)split->phase) {
    case PHASE_CONTENT:
        return calls | reasoning;
    case PHASE_REASONING:
        return MARK(REASON_CLOSE);
    case PHASE_CALL:
        return watch_call(split);
    case PHASE_RAW:
        return MARK(CALL_CLOSE);
    case PHASE_BEHIND:
        return calls | reasoning | MARK(CALL_CLOSE);
    case PHASE_HARMONY:
        break;
    }
    return MARK(START) | MARK(CHANNEL) | MARK(CONSTRAIN) | MARK(MESSAGE) | MARK(END) |
           MARK(CALL_CLOSE);
}

/* Looks for marks that are text. Returns the bytes of the mark with which the window begins, or 0;
 * `*may_come` says whether the window is the beginning of one. */
static uint32_t window_find(const struct answer_split *split, enum answer_mark *mark,
                            bool *may_come)
{
    const uint32_t watched = watch(split);
    *may_come = false;
    for (uint32_t i = 0; i < ANSWER_MARKS; i++) {
        const char *text = mark_text(split, (enum answer_mark)i);
        if ((watched >> i & 1) == 0 || text == NULL ||
            split->options.model->tokens[i] != VOCAB_NONE)
            continue;
        const uint32_t length = (uint32_t)strlen(text);
        if (split->window_length < length) {
            *may_come = *may_come || memcmp(split->window, text, split->window_length) == 0;
        } else if (memcmp(split->window, text, length) == 0) {
            *mark = (enum answer_mark)i;
            return length;
        }
    }
    return 0;
}

static void window_drop(struct answer_split *split, uint32_t length)
{
    split->window_length -= length;
    memmove(split->window, split->window + length, split->window_length);
}

/* --- content and reasoning --- */

static void text_newlines(struct answer_split *split, enum answer_part_kind kind)
{
    for (; split->newlines > 0; split->newlines--)
        answer_emit_byte(&split->emit, kind, '\n');
}

static void text_byte(struct answer_split *split, enum answer_part_kind kind, char byte)
{
    if (byte == '\n') {
        if (!split->is_at_start && split->newlines < UINT32_MAX)
            split->newlines++;
        return;
    }
    split->is_at_start = false;
    text_newlines(split, kind);
    answer_emit_byte(&split->emit, kind, byte);
}

static void text_begin(struct answer_split *split, enum phase phase, bool drops_newlines)
{
    split->phase = (uint8_t)phase;
    split->is_at_start = drops_newlines;
    split->newlines = 0;
    split->title = 0;
}

/* Drops the title of reasoning, if it is there as a whole line's beginning. */
static void reasoning_byte(struct answer_split *split, char byte)
{
    const char *title = mark_text(split, ANSWER_REASON_TITLE);
    const size_t length = title != NULL ? strlen(title) : 0;
    if (split->title < length && title[split->title] == byte) {
        split->title++;
        return;
    }
    if (split->title > 0 && split->title < length)
        answer_emit_text(&split->emit, ANSWER_REASONING, (struct slice){title, split->title});
    split->title = ANSWER_MARK_BYTES;
    text_byte(split, ANSWER_REASONING, byte);
}

/* --- calls --- */

/* Begins to read a call. What is held then is content if it turns out to be none; newlines before
 * it are held, too. */
static void call_begin(struct answer_split *split, struct slice mark)
{
    const enum answer_body body = split->options.model->format->body;
    answer_emit_flush(&split->emit);
    for (; split->newlines > 0 && answer_emit_hold(&split->emit, SLICE("\n")); split->newlines--)
        ;
    text_newlines(split, ANSWER_CONTENT); /* more than can be held */
    (void)answer_emit_hold(&split->emit, mark);
    split->phase = PHASE_CALL;
    if (body == ANSWER_XML)
        answer_body_xml_begin(&split->body.xml, &split->options.tools);
    else if (body == ANSWER_GEMMA)
        answer_body_gemma_begin(&split->body.gemma);
    else if (mark.length == 0)
        answer_body_json_begin_unmarked(&split->body.json, &split->options.tools);
    else
        answer_body_json_begin(&split->body.json, body);
}

/* Whether a call may come without a mark. */
static bool call_may_be_unmarked(const struct answer_split *split)
{
    const enum answer_body body = split->options.model->format->body;
    return split->options.has_calls && (body == ANSWER_BARE || body == ANSWER_OBJECT);
}

static void content_begin(struct answer_split *split)
{
    answer_emit_release(&split->emit);
    text_begin(split, PHASE_CONTENT, false);
}

/* What follows from a step of a body. Returns whether the byte or mark is used up. */
static bool call_step(struct answer_split *split, enum answer_step step)
{
    switch (step) {
    case ANSWER_MORE:
        return true;
    case ANSWER_DONE:
    case ANSWER_ENDED:
        if (step == ANSWER_DONE)
            split->emit.held.length = 0;
        split->phase = PHASE_BEHIND;
        return step == ANSWER_DONE;
    case ANSWER_BROKEN:
        content_begin(split);
        return false;
    case ANSWER_RAW:
        break;
    }
    split->phase = PHASE_RAW;
    return false;
}

static enum answer_step call_byte(struct answer_split *split, char byte)
{
    switch (split->options.model->format->body) {
    case ANSWER_XML:
        return answer_body_xml_byte(&split->body.xml, &split->emit, byte);
    case ANSWER_GEMMA:
        return answer_body_gemma_byte(&split->body.gemma, &split->emit, byte);
    default:
        return answer_body_json_byte(&split->body.json, &split->emit, byte);
    }
}

/* Behind a call: white space is kept back, and dropped if a call or the end follows. */
static bool behind_byte(struct answer_split *split, char byte)
{
    const enum answer_body body = split->options.model->format->body;
    bool is_fence = body == ANSWER_NAMED && byte == '`';
    bool is_between = body == ANSWER_BARE && byte == ';';
    if ((is_blank(byte) || is_fence || is_between) &&
        answer_emit_hold(&split->emit, (struct slice){&byte, 1}))
        return true;
    if (call_may_be_unmarked(split) && byte == '{') {
        call_begin(split, (struct slice){0});
        return false;
    }
    content_begin(split);
    return false;
}

static bool content_byte(struct answer_split *split, char byte)
{
    bool is_first = !split->has_begun && !is_blank(byte);
    split->has_begun = split->has_begun || is_first;
    if (is_first && byte == '{' && call_may_be_unmarked(split)) {
        call_begin(split, (struct slice){0});
        return false;
    }
    text_byte(split, ANSWER_CONTENT, byte);
    return true;
}

/* A byte that is no part of a mark. Returns whether it is used up; else it is looked at again, in
 * another phase. */
static bool plain_byte(struct answer_split *split, char byte)
{
    switch ((enum phase)split->phase) {
    case PHASE_CONTENT:
        return content_byte(split, byte);
    case PHASE_REASONING:
        reasoning_byte(split, byte);
        return true;
    case PHASE_CALL:
        return call_step(split, call_byte(split, byte));
    case PHASE_RAW:
        answer_emit_byte(&split->emit, ANSWER_CALL_ARGUMENTS, byte);
        return true;
    case PHASE_BEHIND:
        return behind_byte(split, byte);
    case PHASE_HARMONY:
        answer_body_harmony_byte(&split->body.harmony, &split->emit, byte);
        return true;
    }
    return true;
}

/* --- marks --- */

/* A mark inside a call. */
static enum answer_step mark_in_call(struct answer_split *split, enum answer_mark mark)
{
    const enum answer_body body = split->options.model->format->body;
    if (body == ANSWER_NAMED && mark == ANSWER_SEPARATOR) {
        enum answer_step step = answer_body_json_separator(&split->body.json, &split->emit);
        if (step == ANSWER_MORE)
            (void)answer_emit_hold(&split->emit, slice_of(mark_text(split, mark)));
        return step;
    }
    if (body == ANSWER_GEMMA && mark == ANSWER_QUOTE)
        return answer_body_gemma_quote(&split->body.gemma, &split->emit);
    if (body == ANSWER_XML && mark == ANSWER_CALL_CLOSE)
        return answer_body_xml_close(&split->body.xml, &split->emit);
    if (!split->emit.is_open)
        return ANSWER_BROKEN;
    answer_emit_end(&split->emit, true);
    return mark == ANSWER_CALL_CLOSE ? ANSWER_DONE : ANSWER_ENDED;
}

/* A mark outside of calls. */
static void mark_outside(struct answer_split *split, enum answer_mark mark)
{
    const bool is_content = split->phase == PHASE_CONTENT || split->phase == PHASE_BEHIND;
    const bool has_calls = split->options.has_calls;
    if (mark == ANSWER_CALL_OPEN && is_content && has_calls) {
        split->emit.held.length = 0;
        split->has_begun = true;
        call_begin(split, slice_of(mark_text(split, mark)));
    } else if (mark == ANSWER_REASON_OPEN && is_content && split->options.model->has_reasoning &&
               !split->options.reasons_once) {
        split->emit.held.length = 0;
        text_newlines(split, ANSWER_CONTENT);
        text_begin(split, PHASE_REASONING, true);
    } else if (mark == ANSWER_REASON_CLOSE && split->phase == PHASE_REASONING) {
        text_begin(split, PHASE_CONTENT, true);
    } else if ((mark == ANSWER_GROUP_OPEN && has_calls) || split->phase == PHASE_BEHIND) {
        split->emit.held.length = 0;
        split->newlines = 0;
    } else if (is_content && mark != ANSWER_GROUP_CLOSE) {
        struct slice text = slice_of(mark_text(split, mark));
        for (size_t i = 0; i < text.length; i++)
            text_byte(split, ANSWER_CONTENT, text.bytes[i]);
    }
}

static void mark_take(struct answer_split *split, enum answer_mark mark)
{
    if (split->phase == PHASE_HARMONY) {
        answer_body_harmony_mark(&split->body.harmony, &split->emit, mark);
        return;
    }
    if (split->phase == PHASE_CALL && call_step(split, mark_in_call(split, mark)))
        return;
    if (split->phase == PHASE_RAW) {
        answer_emit_end(&split->emit, true);
        split->phase = PHASE_BEHIND;
    }
    mark_outside(split, mark);
}

/* --- the stream --- */

/* Uses up the window as far as it is decided; all of it when nothing more will come. */
static void window_run(struct answer_split *split, bool is_end)
{
    while (split->window_length > 0) {
        enum answer_mark mark = ANSWER_MARKS;
        bool may_come;
        uint32_t length = window_find(split, &mark, &may_come);
        if (length > 0) {
            window_drop(split, length);
            mark_take(split, mark);
            continue;
        }
        if (may_come && !is_end)
            return;
        if (plain_byte(split, split->window[0]))
            window_drop(split, 1);
    }
}

void answer_split_text(struct answer_split *split, struct slice text)
{
    for (size_t i = 0; i < text.length; i++) {
        split->window[split->window_length++] = text.bytes[i];
        window_run(split, false);
    }
    answer_emit_flush(&split->emit);
}

void answer_split_mark(struct answer_split *split, enum answer_mark mark)
{
    window_run(split, true);
    if (mark < ANSWER_MARKS && mark_text(split, mark) != NULL)
        mark_take(split, mark);
    answer_emit_flush(&split->emit);
}

void answer_split_end(struct answer_split *split)
{
    window_run(split, true);
    switch ((enum phase)split->phase) {
    case PHASE_CONTENT:
        if (split->emit.calls == 0)
            text_newlines(split, ANSWER_CONTENT);
        break;
    case PHASE_CALL:
    case PHASE_RAW:
        if (split->emit.is_open)
            answer_emit_end(&split->emit, false);
        else
            answer_emit_release(&split->emit);
        break;
    case PHASE_HARMONY:
        answer_body_harmony_end(&split->body.harmony, &split->emit);
        break;
    case PHASE_REASONING:
    case PHASE_BEHIND:
        break;
    }
    answer_emit_flush(&split->emit);
}

bool answer_split_is_reasoning(const struct answer_split *split)
{
    if (split->phase == PHASE_HARMONY)
        return split->body.harmony.is_in_text && split->body.harmony.kind == ANSWER_REASONING;
    return split->phase == PHASE_REASONING;
}

uint32_t answer_split_calls(const struct answer_split *split)
{
    return split->emit.calls;
}

enum status answer_split_status(const struct answer_split *split)
{
    return answer_emit_status(&split->emit);
}
