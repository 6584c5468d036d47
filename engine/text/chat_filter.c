#include "engine/text/chat_filter.h"

#include "config/base/utf8.h"

/* White space as in Python's str.strip(). */
static bool trim_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Bytes of white space at the start of `text`. */
static size_t trim_front(struct slice text)
{
    size_t at = 0;
    while (at < text.length) {
        size_t run = utf8_sequence_length(text.bytes + at, text.length - at);
        if (run == 0 || !trim_is_space(utf8_decode(text.bytes + at, run)))
            break;
        at += run;
    }
    return at;
}

/* Bytes of white space at the end of `text`. */
static size_t trim_back(struct slice text)
{
    size_t end = text.length;
    while (end > 0) {
        size_t run = 1;
        while (run < 4 && run < end && ((unsigned char)text.bytes[end - run] & 0xc0) == 0x80)
            run++;
        if (utf8_sequence_length(text.bytes + end - run, run) != run ||
            !trim_is_space(utf8_decode(text.bytes + end - run, run)))
            break;
        end -= run;
    }
    return text.length - end;
}

/* Drops white space at both ends: copies the list, then shortens its first and last pieces. */
enum status chat_filter_trim(struct eval *eval, struct eval_value value, struct eval_value *out)
{
    struct eval_value string;
    TRY(chat_template_run_to_string(eval, value, &string));
    *out = (struct eval_value){.kind = EVAL_STRING, .first = eval->piece_count};
    TRY(chat_template_run_charge(eval, chat_template_run_length(eval, string)));
    for (uint32_t i = 0; i < string.count; i++) {
        struct eval_piece piece = eval->pieces[string.first + i];
        TRY(chat_template_run_charge(eval, 0));
        if (out->count == 0) {
            size_t blank = trim_front(piece.text);
            piece.text.bytes += blank;
            piece.text.length -= blank;
        }
        if (piece.text.length == 0)
            continue;
        TRY(chat_template_run_add_piece(eval, piece));
        out->count++;
    }
    while (out->count > 0) {
        struct slice *last = &eval->pieces[out->first + out->count - 1].text;
        last->length -= trim_back(*last);
        if (last->length > 0)
            break;
        out->count--;
    }
    return STATUS_OK;
}

/* Counts code points: bytes that do not continue a character. */
static enum status length_of_string(struct eval *eval, struct eval_value string,
                                    struct eval_value *out)
{
    int64_t length = 0;
    for (uint32_t i = 0; i < string.count; i++) {
        struct slice text = eval->pieces[string.first + i].text;
        TRY(chat_template_run_charge(eval, text.length));
        for (size_t k = 0; k < text.length; k++)
            length += ((unsigned char)text.bytes[k] & 0xc0) != 0x80;
    }
    *out = eval_integer(length);
    return STATUS_OK;
}

enum status chat_filter_length(struct eval *eval, struct eval_value value, struct eval_value *out)
{
    enum { MESSAGE_KEYS = 2 }; /* role and content */
    switch (value.kind) {
    case EVAL_STRING:
        return length_of_string(eval, value, out);
    case EVAL_MESSAGES:
        *out = eval_integer((int64_t)eval->args->message_count);
        return STATUS_OK;
    case EVAL_MESSAGE:
        *out = eval_integer(MESSAGE_KEYS);
        return STATUS_OK;
    case EVAL_UNDEFINED:
        *out = eval_integer(0);
        return STATUS_OK;
    default:
        EVAL_FAIL(eval, STATUS_INVALID, "this value has no length");
    }
}
