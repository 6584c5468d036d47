#include "engine/text/chat_template_eval.h"

#include "config/base/mem.h"
#include "engine/text/chat_filter.h"
#include "engine/text/chat_template_run.h"

/* --- values --- */

static enum status eval_push(struct eval *eval, struct eval_value value)
{
    if (eval->value_count == EVAL_STACK)
        EVAL_FAIL(eval, STATUS_LIMIT, "an expression is too deep");
    eval->values[eval->value_count++] = value;
    return STATUS_OK;
}

static struct eval_value eval_pop(struct eval *eval)
{
    ASSERT(eval->value_count > 0);
    return eval->values[--eval->value_count];
}

static struct eval_value eval_bool(bool is_true)
{
    return (struct eval_value){.kind = EVAL_BOOL, .integer = is_true};
}

static bool eval_is_number(struct eval_value value)
{
    return value.kind == EVAL_INTEGER || value.kind == EVAL_BOOL;
}

static bool eval_is_true(const struct eval *eval, struct eval_value value)
{
    switch (value.kind) {
    case EVAL_BOOL:
    case EVAL_INTEGER:
        return value.integer != 0;
    case EVAL_STRING:
        return value.count > 0; /* no piece is empty */
    case EVAL_MESSAGES:
        return eval->args->message_count > 0;
    case EVAL_MESSAGE:
        return true;
    default:
        return false;
    }
}

static struct slice eval_literal(const struct eval *eval)
{
    uint32_t length = eval->code->b;
    const char *bytes = eval->program->literals.bytes;
    return (struct slice){length > 0 ? bytes + eval->code->a : NULL, length};
}

/* --- output --- */

static enum status print_piece(struct eval *eval, struct eval_piece piece)
{
    size_t offset = eval->out->length;
    if (piece.text.length > LIMIT_TEMPLATE_OUTPUT_BYTES - offset)
        EVAL_FAIL(eval, STATUS_LIMIT, "the output is too long");
    TRY(chat_template_run_charge(eval, piece.text.length));
    buffer_append_slice(eval->out, piece.text);
    TRY(eval->out->status);
    if (!piece.is_own)
        return STATUS_OK;
    struct tokenizer_span *last = eval->span_count > 0 ? &eval->spans[eval->span_count - 1] : NULL;
    if (last != NULL && last->offset + last->length == offset) {
        last->length += piece.text.length;
        return STATUS_OK;
    }
    if (eval->span_count == eval->span_capacity)
        EVAL_FAIL(eval, STATUS_LIMIT, "text and messages alternate too often");
    eval->spans[eval->span_count++] = (struct tokenizer_span){offset, piece.text.length};
    return STATUS_OK;
}

static enum status run_print(struct eval *eval)
{
    struct eval_value string;
    TRY(chat_template_run_to_string(eval, eval_pop(eval), &string));
    for (uint32_t i = 0; i < string.count; i++)
        TRY(print_piece(eval, eval->pieces[string.first + i]));
    return STATUS_OK;
}

static enum status run_text(struct eval *eval)
{
    struct slice text = eval_literal(eval);
    return text.length > 0 ? print_piece(eval, (struct eval_piece){text, true}) : STATUS_OK;
}

/* --- operators --- */

/* Appends the list of `right` to that of `left`. Lists that follow each other, as
 * operands just pushed do, are joined without a copy; a left list at the end of all
 * pieces is not copied either. */
static enum status join_strings(struct eval *eval, struct eval_value left, struct eval_value right,
                                struct eval_value *out)
{
    *out = left;
    if (left.count == 0 || right.count == 0) {
        *out = left.count == 0 ? right : left;
        return STATUS_OK;
    }
    if (right.count > UINT32_MAX - left.count)
        EVAL_FAIL(eval, STATUS_LIMIT, "a string has too many parts");
    out->count = left.count + right.count;
    if (left.first + left.count == right.first)
        return STATUS_OK;
    if (left.first + left.count != eval->piece_count) {
        out->first = eval->piece_count;
        for (uint32_t i = 0; i < left.count; i++) {
            TRY(chat_template_run_charge(eval, 0));
            TRY(chat_template_run_add_piece(eval, eval->pieces[left.first + i]));
        }
    }
    for (uint32_t i = 0; i < right.count; i++) {
        TRY(chat_template_run_charge(eval, 0));
        TRY(chat_template_run_add_piece(eval, eval->pieces[right.first + i]));
    }
    return STATUS_OK;
}

static enum status run_join(struct eval *eval, struct eval_value left, struct eval_value right,
                            struct eval_value *out)
{
    struct eval_value texts[2];
    TRY(chat_template_run_to_string(eval, left, &texts[0]));
    TRY(chat_template_run_to_string(eval, right, &texts[1]));
    return join_strings(eval, texts[0], texts[1], out);
}

static enum status run_arithmetic(struct eval *eval, struct eval_value left,
                                  struct eval_value right, struct eval_value *out)
{
    uint32_t kind = eval->code->kind;
    if (kind == CHAT_TEMPLATE_CODE_ADD && left.kind == EVAL_STRING && right.kind == EVAL_STRING)
        return join_strings(eval, left, right, out);
    if (!eval_is_number(left) || !eval_is_number(right))
        EVAL_FAIL(eval, STATUS_INVALID, "only numbers, or for + two strings, can be calculated");
    int64_t result;
    bool is_wrong;
    if (kind == CHAT_TEMPLATE_CODE_ADD) {
        is_wrong = __builtin_add_overflow(left.integer, right.integer, &result);
    } else if (kind == CHAT_TEMPLATE_CODE_SUBTRACT) {
        is_wrong = __builtin_sub_overflow(left.integer, right.integer, &result);
    } else {
        is_wrong = right.integer == 0;
        /* Python's remainder has the sign of the divisor. -1 is separate: INT64_MIN % -1 traps. */
        result = is_wrong || right.integer == -1 ? 0 : left.integer % right.integer;
        if (result != 0 && (result < 0) != (right.integer < 0))
            result += right.integer;
    }
    if (is_wrong)
        EVAL_FAIL(eval, STATUS_INVALID, "a number is too large, or divided by zero");
    *out = eval_integer(result);
    return STATUS_OK;
}

/* Compares the bytes of two strings: -1, 0 or 1. In UTF-8 that is the order of code points. */
static enum status compare_strings(struct eval *eval, struct eval_value left,
                                   struct eval_value right, int *order)
{
    uint32_t a = 0;
    uint32_t b = 0;
    size_t a_done = 0; /* bytes of the current piece that are compared */
    size_t b_done = 0;
    *order = 0;
    while (a < left.count && b < right.count) {
        struct slice x = eval->pieces[left.first + a].text;
        struct slice y = eval->pieces[right.first + b].text;
        size_t length = x.length - a_done;
        if (length > y.length - b_done)
            length = y.length - b_done;
        TRY(chat_template_run_charge(eval, length));
        int differs = memcmp(x.bytes + a_done, y.bytes + b_done, length);
        if (differs != 0) {
            *order = differs < 0 ? -1 : 1;
            return STATUS_OK;
        }
        a_done += length;
        b_done += length;
        if (a_done == x.length) {
            a++;
            a_done = 0;
        }
        if (b_done == y.length) {
            b++;
            b_done = 0;
        }
    }
    *order = (a < left.count) - (b < right.count);
    return STATUS_OK;
}

static enum status run_equal(struct eval *eval, struct eval_value left, struct eval_value right,
                             bool *is_equal)
{
    if (left.kind == EVAL_STRING && right.kind == EVAL_STRING) {
        int order;
        TRY(compare_strings(eval, left, right, &order));
        *is_equal = order == 0;
        return STATUS_OK;
    }
    if (eval_is_number(left) && eval_is_number(right)) { /* True == 1, as in Python */
        *is_equal = left.integer == right.integer;
        return STATUS_OK;
    }
    bool is_container = left.kind == EVAL_MESSAGE || left.kind == EVAL_MESSAGES;
    if (is_container && left.kind == right.kind)
        EVAL_FAIL(eval, STATUS_INVALID, "messages cannot be compared");
    *is_equal = left.kind == right.kind;
    return STATUS_OK;
}

static enum status run_order(struct eval *eval, struct eval_value left, struct eval_value right,
                             struct eval_value *out)
{
    int order = 0;
    if (left.kind == EVAL_STRING && right.kind == EVAL_STRING)
        TRY(compare_strings(eval, left, right, &order));
    else if (eval_is_number(left) && eval_is_number(right))
        order = (left.integer > right.integer) - (left.integer < right.integer);
    else
        EVAL_FAIL(eval, STATUS_INVALID, "only two numbers or two strings have an order");
    uint32_t kind = eval->code->kind;
    bool is_less = kind == CHAT_TEMPLATE_CODE_LESS || kind == CHAT_TEMPLATE_CODE_LESS_EQUAL;
    bool or_equal =
        kind == CHAT_TEMPLATE_CODE_LESS_EQUAL || kind == CHAT_TEMPLATE_CODE_GREATER_EQUAL;
    *out = eval_bool((or_equal && order == 0) || (is_less ? order < 0 : order > 0));
    return STATUS_OK;
}

/* Copies a string into one run of bytes; initialises `out`. */
static enum status in_flatten(struct eval *eval, struct eval_value string, struct buffer *out)
{
    buffer_init(out, LIMIT_TEMPLATE_OUTPUT_BYTES);
    for (uint32_t i = 0; i < string.count; i++) {
        struct slice text = eval->pieces[string.first + i].text;
        TRY(chat_template_run_charge(eval, text.length));
        buffer_append_slice(out, text);
    }
    return out->status;
}

static enum status in_string(struct eval *eval, struct eval_value needle, struct eval_value hay,
                             bool *is_in)
{
    struct buffer small;
    struct buffer large = {0};
    enum status status = in_flatten(eval, needle, &small);
    if (status == STATUS_OK)
        status = in_flatten(eval, hay, &large);
    *is_in = false;
    if (status == STATUS_OK)
        *is_in = small.length == 0 ||
                 (large.length >= small.length &&
                  memmem(large.bytes, large.length, small.bytes, small.length) != NULL);
    buffer_deinit(&small);
    buffer_deinit(&large);
    return status;
}

static bool string_is(const struct eval *eval, struct eval_value string, const char *text)
{
    struct slice want = slice_of(text);
    if (chat_template_run_length(eval, string) != want.length)
        return false;
    for (uint32_t i = 0; i < string.count; i++) {
        struct slice piece = eval->pieces[string.first + i].text;
        if (memcmp(piece.bytes, want.bytes, piece.length) != 0)
            return false;
        want.bytes += piece.length;
    }
    return true;
}

static enum status run_in(struct eval *eval, struct eval_value left, struct eval_value right,
                          bool *is_in)
{
    if (left.kind == EVAL_STRING && right.kind == EVAL_STRING)
        return in_string(eval, left, right, is_in);
    if (left.kind == EVAL_STRING && right.kind == EVAL_MESSAGE) {
        TRY(chat_template_run_charge(eval, left.count * (size_t)EVAL_STEP_BYTES));
        *is_in = string_is(eval, left, "role") || string_is(eval, left, "content");
        return STATUS_OK;
    }
    bool is_scalar = left.kind != EVAL_MESSAGE && left.kind != EVAL_MESSAGES;
    bool is_empty = right.kind == EVAL_UNDEFINED;
    *is_in = false; /* the list of messages holds only messages, and only strings are keys */
    if (is_empty || (is_scalar && (right.kind == EVAL_MESSAGES || right.kind == EVAL_MESSAGE)))
        return STATUS_OK;
    EVAL_FAIL(eval, STATUS_INVALID, "'in' looks for a string in a string or a message");
}

static enum status run_index(struct eval *eval)
{
    struct eval_value key = eval_pop(eval);
    struct eval_value container = eval_pop(eval);
    struct eval_value value = {.kind = EVAL_UNDEFINED};
    if (container.kind == EVAL_MESSAGES && eval_is_number(key)) {
        int64_t count = (int64_t)eval->args->message_count;
        int64_t index = key.integer < 0 ? key.integer + count : key.integer;
        if (index >= 0 && index < count)
            value = (struct eval_value){.kind = EVAL_MESSAGE, .integer = index};
    } else if (container.kind == EVAL_MESSAGE && key.kind == EVAL_STRING) {
        const struct chat_message *message = &eval->args->messages[container.integer];
        TRY(chat_template_run_charge(eval, key.count * (size_t)EVAL_STEP_BYTES));
        if (string_is(eval, key, "role"))
            TRY(chat_template_run_string(eval, message->role, false, &value));
        else if (string_is(eval, key, "content"))
            TRY(chat_template_run_string(eval, message->content, false, &value));
    } else {
        EVAL_FAIL(eval, STATUS_INVALID, "only messages have parts");
    }
    return eval_push(eval, value);
}

static enum status run_binary(struct eval *eval)
{
    struct eval_value right = eval_pop(eval);
    struct eval_value left = eval_pop(eval);
    struct eval_value value = {.kind = EVAL_UNDEFINED};
    bool is_true = false;
    uint32_t kind = eval->code->kind;
    switch (kind) {
    case CHAT_TEMPLATE_CODE_JOIN:
        TRY(run_join(eval, left, right, &value));
        break;
    case CHAT_TEMPLATE_CODE_EQUAL:
    case CHAT_TEMPLATE_CODE_NOT_EQUAL:
        TRY(run_equal(eval, left, right, &is_true));
        value = eval_bool(is_true == (kind == CHAT_TEMPLATE_CODE_EQUAL));
        break;
    case CHAT_TEMPLATE_CODE_IN:
    case CHAT_TEMPLATE_CODE_NOT_IN:
        TRY(run_in(eval, left, right, &is_true));
        value = eval_bool(is_true == (kind == CHAT_TEMPLATE_CODE_IN));
        break;
    case CHAT_TEMPLATE_CODE_ADD:
    case CHAT_TEMPLATE_CODE_SUBTRACT:
    case CHAT_TEMPLATE_CODE_MODULO:
        TRY(run_arithmetic(eval, left, right, &value));
        break;
    default:
        TRY(run_order(eval, left, right, &value));
        break;
    }
    return eval_push(eval, value);
}

/* --- filters and tests --- */

static enum status run_filter(struct eval *eval)
{
    static enum status (*const filters[])(struct eval *, struct eval_value, struct eval_value *) = {
#define CHAT_FILTER(NAME, name) [CHAT_TEMPLATE_CODE_FILTER_##NAME] = chat_filter_##name,
#include "engine/text/chat_filters.def"
#undef CHAT_FILTER
    };
    struct eval_value result = {.kind = EVAL_UNDEFINED};
    TRY(filters[eval->code->a](eval, eval_pop(eval), &result));
    return eval_push(eval, result);
}

static enum status run_test(struct eval *eval)
{
    struct eval_value value = eval_pop(eval);
    bool is_true = false;
    switch (eval->code->a) {
    case CHAT_TEMPLATE_CODE_TEST_DEFINED:
        is_true = value.kind != EVAL_UNDEFINED;
        break;
    case CHAT_TEMPLATE_CODE_TEST_UNDEFINED:
        is_true = value.kind == EVAL_UNDEFINED;
        break;
    case CHAT_TEMPLATE_CODE_TEST_NONE:
        is_true = value.kind == EVAL_NONE;
        break;
    default:
        is_true = value.kind == EVAL_STRING;
        break;
    }
    return eval_push(eval, eval_bool(is_true == (eval->code->b == 0)));
}

/* --- control --- */

static void loop_round(struct eval *eval, const struct eval_loop *loop)
{
    memcpy(eval->variables, loop->saved, sizeof(eval->variables));
    eval->variables[loop->variable] =
        (struct eval_value){.kind = EVAL_MESSAGE, .integer = loop->index};
}

/* Begins a loop. `*next` is the next instruction. */
static enum status run_for(struct eval *eval, uint32_t *next)
{
    struct eval_value list = eval_pop(eval);
    if (list.kind != EVAL_MESSAGES)
        EVAL_FAIL(eval, STATUS_INVALID, "a for goes over the messages only");
    if (eval->args->message_count == 0) {
        *next = eval->code->a;
        return STATUS_OK;
    }
    ASSERT(eval->loop_count < LIMIT_TEMPLATE_DEPTH); /* the parser bounds the depth */
    struct eval_loop *loop = &eval->loops[eval->loop_count++];
    loop->variable = eval->code->b;
    loop->index = 0;
    loop->count = (uint32_t)eval->args->message_count;
    memcpy(loop->saved, eval->variables, sizeof(eval->variables));
    loop_round(eval, loop);
    return chat_template_run_charge(eval, sizeof(eval->variables));
}

static enum status run_next(struct eval *eval, uint32_t *next)
{
    ASSERT(eval->loop_count > 0);
    struct eval_loop *loop = &eval->loops[eval->loop_count - 1];
    TRY(chat_template_run_charge(eval, sizeof(eval->variables)));
    loop->index++;
    if (loop->index < loop->count) {
        loop_round(eval, loop);
        *next = eval->code->a;
        return STATUS_OK;
    }
    memcpy(eval->variables, loop->saved, sizeof(eval->variables));
    eval->loop_count--;
    return STATUS_OK;
}

static enum status run_loop(struct eval *eval)
{
    ASSERT(eval->loop_count > 0);
    const struct eval_loop *loop = &eval->loops[eval->loop_count - 1];
    switch (eval->code->a) {
    case CHAT_TEMPLATE_CODE_LOOP_INDEX:
        return eval_push(eval, eval_integer((int64_t)loop->index + 1));
    case CHAT_TEMPLATE_CODE_LOOP_INDEX0:
        return eval_push(eval, eval_integer(loop->index));
    case CHAT_TEMPLATE_CODE_LOOP_FIRST:
        return eval_push(eval, eval_bool(loop->index == 0));
    case CHAT_TEMPLATE_CODE_LOOP_LAST:
        return eval_push(eval, eval_bool(loop->index + 1 == loop->count));
    default:
        return eval_push(eval, eval_integer(loop->count));
    }
}

/* The template refuses the messages. The error note has its own words but none of the messages'. */
static enum status run_raise(struct eval *eval)
{
    struct eval_value string;
    char text[STATUS_MESSAGE_BYTES / 2];
    size_t length = 0;
    TRY(chat_template_run_to_string(eval, eval_pop(eval), &string));
    for (uint32_t i = 0; i < string.count; i++) {
        struct eval_piece piece = eval->pieces[string.first + i];
        size_t room = sizeof(text) - 1 - length;
        size_t bytes = piece.text.length < room ? piece.text.length : room;
        if (!piece.is_own)
            continue;
        memcpy(text + length, piece.text.bytes, bytes);
        length += bytes;
    }
    text[length] = '\0';
    EVAL_FAIL(eval, STATUS_INVALID, text);
}

static enum status run_jump(struct eval *eval, uint32_t *next)
{
    uint32_t kind = eval->code->kind;
    bool goes = true;
    if (kind != CHAT_TEMPLATE_CODE_JUMP) {
        struct eval_value top = eval_pop(eval);
        goes = eval_is_true(eval, top) == (kind == CHAT_TEMPLATE_CODE_JUMP_TRUE_KEEP);
        if (goes && kind != CHAT_TEMPLATE_CODE_JUMP_FALSE)
            TRY(eval_push(eval, top));
    }
    if (goes)
        *next = eval->code->a;
    return STATUS_OK;
}

static enum status run_constant(struct eval *eval)
{
    struct eval_value value = {.kind = EVAL_NONE};
    if (eval->code->kind == CHAT_TEMPLATE_CODE_STRING)
        TRY(chat_template_run_string(eval, eval_literal(eval), true, &value));
    else if (eval->code->kind == CHAT_TEMPLATE_CODE_INTEGER)
        value = eval_integer((int32_t)eval->code->a);
    else if (eval->code->kind == CHAT_TEMPLATE_CODE_BOOL)
        value = eval_bool(eval->code->a != 0);
    return eval_push(eval, value);
}

static enum status run_instruction(struct eval *eval, uint32_t *next)
{
    switch (eval->code->kind) {
    case CHAT_TEMPLATE_CODE_TEXT:
        return run_text(eval);
    case CHAT_TEMPLATE_CODE_PRINT:
        return run_print(eval);
    case CHAT_TEMPLATE_CODE_STRING:
    case CHAT_TEMPLATE_CODE_INTEGER:
    case CHAT_TEMPLATE_CODE_BOOL:
    case CHAT_TEMPLATE_CODE_NONE:
        return run_constant(eval);
    case CHAT_TEMPLATE_CODE_NAME:
        return eval_push(eval, eval->variables[eval->code->a]);
    case CHAT_TEMPLATE_CODE_SET:
        eval->variables[eval->code->a] = eval_pop(eval);
        return STATUS_OK;
    case CHAT_TEMPLATE_CODE_LOOP:
        return run_loop(eval);
    case CHAT_TEMPLATE_CODE_INDEX:
        return run_index(eval);
    case CHAT_TEMPLATE_CODE_NOT:
        return eval_push(eval, eval_bool(!eval_is_true(eval, eval_pop(eval))));
    case CHAT_TEMPLATE_CODE_TEST:
        return run_test(eval);
    case CHAT_TEMPLATE_CODE_FILTER:
        return run_filter(eval);
    case CHAT_TEMPLATE_CODE_RAISE:
        return run_raise(eval);
    case CHAT_TEMPLATE_CODE_JUMP:
    case CHAT_TEMPLATE_CODE_JUMP_FALSE:
    case CHAT_TEMPLATE_CODE_JUMP_FALSE_KEEP:
    case CHAT_TEMPLATE_CODE_JUMP_TRUE_KEEP:
        return run_jump(eval, next);
    case CHAT_TEMPLATE_CODE_FOR:
        return run_for(eval, next);
    case CHAT_TEMPLATE_CODE_NEXT:
        return run_next(eval, next);
    default:
        return run_binary(eval);
    }
}

static enum status run_program(struct eval *eval)
{
    struct eval_value *variables = eval->variables;
    const struct chat_template_args *args = eval->args;
    eval->code = eval->program->code;
    variables[CHAT_TEMPLATE_CODE_NAME_MESSAGES].kind = EVAL_MESSAGES;
    variables[CHAT_TEMPLATE_CODE_NAME_PROMPT] = eval_bool(args->add_generation_prompt);
    TRY(chat_template_run_string(eval, args->bos_token, true,
                                 &variables[CHAT_TEMPLATE_CODE_NAME_BOS]));
    TRY(chat_template_run_string(eval, args->eos_token, true,
                                 &variables[CHAT_TEMPLATE_CODE_NAME_EOS]));
    variables[CHAT_TEMPLATE_CODE_NAME_TOOLS].kind = EVAL_NONE;
    variables[CHAT_TEMPLATE_CODE_NAME_DOCUMENTS].kind = EVAL_NONE;
    for (uint32_t at = 0; eval->program->code[at].kind != CHAT_TEMPLATE_CODE_END;) {
        uint32_t next = at + 1;
        eval->code = &eval->program->code[at];
        TRY(chat_template_run_charge(eval, 0));
        TRY(run_instruction(eval, &next));
        at = next;
    }
    ASSERT(eval->value_count == 0);
    return STATUS_OK;
}

enum status chat_template_eval_run(const struct chat_template_program *program,
                                   const struct chat_template_args *args, struct buffer *out,
                                   struct tokenizer_span *spans, size_t span_capacity,
                                   size_t *span_count, uint64_t *steps)
{
    *span_count = 0;
    buffer_clear(out);
    if (args->message_count > LIMIT_MESSAGES)
        FAIL(STATUS_LIMIT, "more than %d messages", LIMIT_MESSAGES);
    struct eval *eval = mem_zalloc(1, sizeof(*eval));
    if (eval == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the chat template");
    eval->program = program;
    eval->args = args;
    eval->out = out;
    eval->spans = spans;
    eval->span_capacity = span_capacity;
    enum status status = run_program(eval);
    if (status == STATUS_OK)
        *span_count = eval->span_count;
    if (steps != NULL)
        *steps = eval->steps;
    mem_free(eval->pieces);
    mem_free(eval->numbers);
    mem_free(eval);
    return status;
}
