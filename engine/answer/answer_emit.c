#include "engine/answer/answer_emit.h"

#include "config/base/limits_tools.h"

/* A run of so many bytes is given out at the next character: a token may release more newlines, or
 * more escaped bytes, than a run should hold. */
enum { RUN_BYTES = LIMIT_CALL_HELD_BYTES, RUN_BYTES_MAX = 4 * RUN_BYTES };

static bool is_inside_character(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

void answer_emit_init(struct answer_emit *emit,
                      void (*take)(void *context, const struct answer_part *part), void *context)
{
    *emit = (struct answer_emit){.take = take, .context = context};
    buffer_init(&emit->run, RUN_BYTES_MAX);
    buffer_init(&emit->held, LIMIT_CALL_HELD_BYTES);
}

void answer_emit_deinit(struct answer_emit *emit)
{
    buffer_deinit(&emit->run);
    buffer_deinit(&emit->held);
}

enum status answer_emit_status(const struct answer_emit *emit)
{
    return emit->run.status != STATUS_OK ? emit->run.status : emit->held.status;
}

static void emit_part(struct answer_emit *emit, enum answer_part_kind kind, struct slice text)
{
    const struct answer_part part = {
        .kind = kind, .call = emit->calls > 0 ? emit->calls - 1 : 0, .text = text};
    emit->take(emit->context, &part);
}

void answer_emit_flush(struct answer_emit *emit)
{
    if (emit->run.length == 0)
        return;
    emit_part(emit, emit->kind, buffer_slice(&emit->run));
    emit->run.length = 0;
}

void answer_emit_text(struct answer_emit *emit, enum answer_part_kind kind, struct slice text)
{
    if (text.length == 0)
        return;
    if (emit->kind != kind ||
        (emit->run.length >= RUN_BYTES && !is_inside_character(text.bytes[0])))
        answer_emit_flush(emit);
    emit->kind = kind;
    if (kind == ANSWER_CALL_ARGUMENTS)
        emit->has_arguments = true;
    buffer_append_slice(&emit->run, text);
}

void answer_emit_byte(struct answer_emit *emit, enum answer_part_kind kind, char byte)
{
    answer_emit_text(emit, kind, (struct slice){&byte, 1});
}

void answer_emit_escaped(struct answer_emit *emit, char byte)
{
    static const char hex[] = "0123456789abcdef";
    static const char from[] = "\"\\\b\f\n\r\t";
    static const char to[] = "\"\\bfnrt";
    const char *at = byte == 0 ? NULL : strchr(from, byte);
    if (at != NULL) {
        const char pair[2] = {'\\', to[at - from]};
        answer_emit_text(emit, ANSWER_CALL_ARGUMENTS, (struct slice){pair, 2});
    } else if ((unsigned char)byte < 0x20) {
        const char unit[6] = {'\\', 'u', '0', '0', hex[byte >> 4 & 15], hex[byte & 15]};
        answer_emit_text(emit, ANSWER_CALL_ARGUMENTS, (struct slice){unit, 6});
    } else {
        answer_emit_byte(emit, ANSWER_CALL_ARGUMENTS, byte);
    }
}

bool answer_emit_hold(struct answer_emit *emit, struct slice bytes)
{
    if (bytes.length > LIMIT_CALL_HELD_BYTES - emit->held.length)
        return false;
    buffer_append_slice(&emit->held, bytes);
    return true;
}

void answer_emit_release(struct answer_emit *emit)
{
    answer_emit_text(emit, ANSWER_CONTENT, buffer_slice(&emit->held));
    emit->held.length = 0;
}

bool answer_emit_is_name(struct slice name)
{
    for (size_t i = 0; i < name.length; i++) {
        char c = name.bytes[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_letter && c != '_' && c != '-' && c != '.')
            return false;
    }
    return name.length > 0 && name.length <= LIMIT_TOOL_NAME_BYTES;
}

bool answer_emit_begin(struct answer_emit *emit, struct slice name)
{
    if (!answer_emit_is_name(name) || emit->calls == LIMIT_CALLS)
        return false;
    answer_emit_flush(emit);
    emit->calls++;
    emit->is_open = true;
    emit->has_arguments = false;
    emit_part(emit, ANSWER_CALL_BEGIN, (struct slice){0});
    emit_part(emit, ANSWER_CALL_NAME, name);
    emit->held.length = 0;
    return true;
}

void answer_emit_end(struct answer_emit *emit, bool is_whole)
{
    if (is_whole && !emit->has_arguments)
        answer_emit_text(emit, ANSWER_CALL_ARGUMENTS, SLICE("{}"));
    answer_emit_flush(emit);
    emit_part(emit, ANSWER_CALL_END, (struct slice){0});
    emit->is_open = false;
}
