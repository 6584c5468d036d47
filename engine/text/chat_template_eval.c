#include "engine/text/chat_template_eval.h"

#include <math.h>

#include "config/base/mem.h"
#include "engine/text/template_filter.h"
#include "engine/text/template_function.h"
#include "engine/text/template_input.h"
#include "engine/text/template_method.h"
#include "engine/text/template_parts.h"
#include "engine/text/template_test.h"
#include "engine/text/template_text.h"

/* What open macros, loops and blocks may hold together: so much for each macro inside another. */
enum {
    EVAL_FRAMES = 8 * LIMIT_TEMPLATE_CALLS,  /* scopes */
    EVAL_SLOTS = 128 * LIMIT_TEMPLATE_CALLS, /* variables */
    EVAL_STACK = 16 * LIMIT_TEMPLATE_CALLS,  /* operands */
    EVAL_CAPTURES = 4 * LIMIT_TEMPLATE_CALLS /* texts that are collected */
};

/* A scope that runs: its variables, and the frame of the scope around it. */
struct eval_frame {
    uint32_t first; /* in slots */
    uint32_t around;
    uint32_t serial; /* tells it from an earlier one in the same place */
};

struct eval_loop {
    const struct template_value *values;
    uint32_t count;
    uint32_t index;
    uint32_t frame;
    uint32_t scope;
    bool is_collecting;
    uint32_t kept;
    struct template_value collected;
};

/* A macro that runs. */
struct eval_call {
    uint32_t next; /* instruction after it */
    uint32_t frame_count;
    uint32_t frame;
};

struct eval {
    struct template_run run;
    const struct chat_template_program *program;
    const struct chat_template_code *code; /* the current instruction */
    uint32_t next;
    struct template_writer *writer; /* the innermost of `writers` */
    uint32_t writer_count;
    uint32_t value_count;
    uint32_t slot_count;
    uint32_t frame_count;
    uint32_t frame; /* the innermost scope's */
    uint32_t loop_count;
    uint32_t call_count;
    uint32_t serial;
    struct template_writer writers[EVAL_CAPTURES];
    struct template_value values[EVAL_STACK];
    struct template_value slots[EVAL_SLOTS];
    struct eval_frame frames[EVAL_FRAMES];
    struct eval_loop loops[EVAL_FRAMES];
    struct eval_call calls[LIMIT_TEMPLATE_CALLS];
};

#define EVAL_FAIL(eval, status, ...) TEMPLATE_FAIL(&(eval)->run, status, __VA_ARGS__)

static const struct template_value EVAL_UNDEFINED = {.kind = TEMPLATE_UNDEFINED};

/* --- the stack --- */

static enum status eval_push(struct eval *eval, struct template_value value)
{
    if (eval->value_count == EVAL_STACK)
        EVAL_FAIL(eval, STATUS_TEMPLATE_LIMIT, "an expression is too deep");
    eval->values[eval->value_count++] = value;
    return STATUS_OK;
}

static struct template_value eval_pop(struct eval *eval)
{
    ASSERT(eval->value_count > 0);
    return eval->values[--eval->value_count];
}

static struct slice eval_literal(const struct eval *eval)
{
    uint32_t length = eval->code->b;
    const char *bytes = eval->program->literals.bytes;
    return (struct slice){length > 0 ? bytes + eval->code->a : NULL, length};
}

static void eval_jump(struct eval *eval)
{
    eval->next = (uint32_t)(eval->code - eval->program->code) + eval->code->a;
}

/* --- scopes --- */

/* Fills the variables of a scope that begins: undefined, or copies of those around it. */
static enum status frame_fill(struct eval *eval, uint32_t frame, uint32_t scope)
{
    const struct chat_template_program *program = eval->program;
    uint32_t first = eval->frames[frame].first;
    uint32_t slots = program->scopes[scope].slots;
    TRY(template_run_charge(&eval->run, slots * sizeof(struct template_value)));
    for (uint32_t i = 0; i < slots; i++)
        eval->slots[first + i] = EVAL_UNDEFINED;
    for (uint32_t i = 0; i < program->copy_count; i++) {
        const struct chat_template_copy *copy = &program->copies[i];
        if (copy->scope != scope)
            continue;
        uint32_t from = frame;
        for (uint32_t k = 0; k < copy->outwards; k++)
            from = eval->frames[from].around;
        eval->slots[first + copy->slot] = eval->slots[eval->frames[from].first + copy->from];
    }
    return STATUS_OK;
}

static enum status frame_open(struct eval *eval, uint32_t scope, uint32_t around)
{
    uint32_t slots = eval->program->scopes[scope].slots;
    if (eval->frame_count == EVAL_FRAMES || slots > EVAL_SLOTS - eval->slot_count)
        EVAL_FAIL(eval, STATUS_TEMPLATE_LIMIT, "loops and macros are nested too deep");
    uint32_t frame = eval->frame_count++;
    eval->frames[frame] = (struct eval_frame){eval->slot_count, around, ++eval->serial};
    eval->slot_count += slots;
    eval->frame = frame;
    return frame_fill(eval, frame, scope);
}

/* Ends all scopes from `frame` on; `now` is the innermost one then. */
static void frame_close(struct eval *eval, uint32_t frame, uint32_t now)
{
    if (frame < eval->frame_count)
        eval->slot_count = eval->frames[frame].first;
    eval->frame_count = frame;
    eval->frame = now;
}

static struct template_value *eval_slot(struct eval *eval, uint32_t outwards, uint32_t slot)
{
    uint32_t frame = eval->frame;
    for (uint32_t i = 0; i < outwards; i++)
        frame = eval->frames[frame].around;
    return &eval->slots[eval->frames[frame].first + slot];
}

/* --- output --- */

static enum status run_print(struct eval *eval)
{
    struct template_value string;
    TRY(template_text_of(&eval->run, eval_pop(eval), &string));
    return template_string_write_value(eval->writer, string);
}

static enum status run_capture(struct eval *eval)
{
    if (eval->writer_count == EVAL_CAPTURES)
        EVAL_FAIL(eval, STATUS_TEMPLATE_LIMIT, "macros and blocks are nested too deep");
    eval->writer = &eval->writers[eval->writer_count++];
    template_string_begin(eval->writer, &eval->run);
    return STATUS_OK;
}

static enum status run_captured(struct eval *eval)
{
    struct template_value string;
    ASSERT(eval->writer_count > 1);
    TRY(template_string_finish(eval->writer, &string));
    template_string_drop(eval->writer);
    eval->writer = &eval->writers[--eval->writer_count - 1];
    return eval_push(eval, string);
}

/* --- operators --- */

static bool number_is_float(struct template_value a, struct template_value b)
{
    return a.kind == TEMPLATE_FLOAT || b.kind == TEMPLATE_FLOAT;
}

static double number_of(struct template_value value)
{
    return value.kind == TEMPLATE_FLOAT ? value.number : (double)value.integer;
}

static enum status arithmetic_float(struct eval *eval, double a, double b,
                                    struct template_value *out)
{
    uint32_t kind = eval->code->kind;
    bool divides = kind == CHAT_TEMPLATE_CODE_DIVIDE || kind == CHAT_TEMPLATE_CODE_FLOOR ||
                   kind == CHAT_TEMPLATE_CODE_MODULO;
    if (divides && b == 0)
        EVAL_FAIL(eval, STATUS_INVALID, "a number is divided by zero");
    out->kind = TEMPLATE_FLOAT;
    switch (kind) {
    case CHAT_TEMPLATE_CODE_ADD:
        out->number = a + b;
        return STATUS_OK;
    case CHAT_TEMPLATE_CODE_SUBTRACT:
        out->number = a - b;
        return STATUS_OK;
    case CHAT_TEMPLATE_CODE_MULTIPLY:
        out->number = a * b;
        return STATUS_OK;
    case CHAT_TEMPLATE_CODE_DIVIDE:
        out->number = a / b;
        return STATUS_OK;
    default:
        EVAL_FAIL(eval, STATUS_INVALID, "//, %% and ** are for whole numbers only");
    }
}

/* Rounds down, as Python does; the remainder has the sign of the divisor. */
static bool divide_integers(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    if (b == -1) { /* INT64_MIN / -1 traps */
        *rest = 0;
        return __builtin_sub_overflow(0, a, quotient);
    }
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *rest += b;
        --*quotient;
    }
    return false;
}

static bool power_integers(int64_t a, int64_t b, int64_t *out)
{
    *out = 1;
    for (int64_t i = 0; i < b && (a > 1 || a < -1); i++) {
        if (__builtin_mul_overflow(*out, a, out))
            return true;
    }
    if (a == 0 && b > 0)
        *out = 0;
    else if (a == -1 && (b & 1) != 0)
        *out = -1;
    return false;
}

static enum status arithmetic_integer(struct eval *eval, int64_t a, int64_t b,
                                      struct template_value *out)
{
    int64_t unused;
    bool is_wrong;
    uint32_t kind = eval->code->kind;
    bool divides = kind == CHAT_TEMPLATE_CODE_FLOOR || kind == CHAT_TEMPLATE_CODE_MODULO;
    if (divides && b == 0)
        EVAL_FAIL(eval, STATUS_INVALID, "a number is divided by zero");
    out->kind = TEMPLATE_INTEGER;
    switch (kind) {
    case CHAT_TEMPLATE_CODE_ADD:
        is_wrong = __builtin_add_overflow(a, b, &out->integer);
        break;
    case CHAT_TEMPLATE_CODE_SUBTRACT:
        is_wrong = __builtin_sub_overflow(a, b, &out->integer);
        break;
    case CHAT_TEMPLATE_CODE_MULTIPLY:
        is_wrong = __builtin_mul_overflow(a, b, &out->integer);
        break;
    case CHAT_TEMPLATE_CODE_FLOOR:
        is_wrong = divide_integers(a, b, &out->integer, &unused);
        break;
    case CHAT_TEMPLATE_CODE_MODULO:
        is_wrong = divide_integers(a, b, &unused, &out->integer) && false;
        break;
    default:
        is_wrong = b < 0 || power_integers(a, b, &out->integer);
        break;
    }
    if (is_wrong)
        EVAL_FAIL(eval, STATUS_INVALID, "a number is too large");
    return STATUS_OK;
}

/* list + list, and list * n. */
static enum status arithmetic_list(struct eval *eval, struct template_value left,
                                   const struct template_value *right, int64_t times,
                                   struct template_value *out)
{
    uint64_t more = right != NULL ? right->count : 0;
    times = times < 0 ? 0 : times;
    if (times > LIMIT_TEMPLATE_RANGE)
        EVAL_FAIL(eval, STATUS_TEMPLATE_LIMIT, "a list is too long");
    TRY(template_value_open(&eval->run, left.kind, left.count * (uint64_t)times + more, out));
    out->is_own = left.is_own && (right == NULL || right->is_own);
    struct template_value *to = out->items->values;
    for (int64_t i = 0; i < times && left.count > 0; i++) {
        memcpy(to, left.items->values, left.count * sizeof(*to));
        to += left.count;
    }
    if (more > 0)
        memcpy(to, right->items->values, more * sizeof(*to));
    return template_value_close(&eval->run, out);
}

static enum status multiply_string(struct eval *eval, struct template_value string, int64_t times,
                                   struct template_value *out)
{
    struct template_writer writer;
    enum status status = STATUS_OK;
    template_string_begin(&writer, &eval->run);
    for (int64_t i = 0; i < times && status == STATUS_OK && string.count > 0; i++)
        status = template_string_write_value(&writer, string);
    if (status == STATUS_OK)
        status = template_string_finish(&writer, out);
    template_string_drop(&writer);
    return status;
}

/* A string behind the filter safe is added to others as they are, and others are escaped. */
static enum status add_strings(struct eval *eval, struct template_value a, struct template_value b,
                               struct template_value *out)
{
    bool is_safe = a.is_safe || b.is_safe;
    if (is_safe && !a.is_safe)
        TRY(template_string_escape(&eval->run, a, &a));
    if (is_safe && !b.is_safe)
        TRY(template_string_escape(&eval->run, b, &b));
    TRY(template_string_add(&eval->run, a, b, out));
    out->is_safe = is_safe;
    return STATUS_OK;
}

static enum status run_arithmetic(struct eval *eval, struct template_value a,
                                  struct template_value b, struct template_value *out)
{
    uint32_t kind = eval->code->kind;
    bool is_list = a.kind == TEMPLATE_LIST || a.kind == TEMPLATE_TUPLE;
    bool is_whole = b.kind == TEMPLATE_INTEGER || b.kind == TEMPLATE_BOOL;
    if (kind == CHAT_TEMPLATE_CODE_ADD && a.kind == TEMPLATE_STRING && b.kind == TEMPLATE_STRING)
        return add_strings(eval, a, b, out);
    if (kind == CHAT_TEMPLATE_CODE_ADD && is_list && a.kind == b.kind)
        return arithmetic_list(eval, a, &b, 1, out);
    if (kind == CHAT_TEMPLATE_CODE_MULTIPLY && a.kind == TEMPLATE_STRING && is_whole)
        return multiply_string(eval, a, b.integer, out);
    if (kind == CHAT_TEMPLATE_CODE_MULTIPLY && is_list && is_whole)
        return arithmetic_list(eval, a, NULL, b.integer, out);
    if (!template_value_is_small_number(a) || !template_value_is_small_number(b))
        EVAL_FAIL(eval, STATUS_INVALID, "%s and %s cannot be calculated with",
                  template_value_kind_name(a), template_value_kind_name(b));
    out->is_own = a.is_own && b.is_own;
    if (number_is_float(a, b) || kind == CHAT_TEMPLATE_CODE_DIVIDE)
        return arithmetic_float(eval, number_of(a), number_of(b), out);
    return arithmetic_integer(eval, a.integer, b.integer, out);
}

static enum status run_concat(struct eval *eval, struct template_value a, struct template_value b,
                              struct template_value *out)
{
    struct template_value texts[2];
    TRY(template_text_of(&eval->run, a, &texts[0]));
    TRY(template_text_of(&eval->run, b, &texts[1]));
    return template_string_add(&eval->run, texts[0], texts[1], out);
}

static enum status compare(struct eval *eval, uint32_t kind, struct template_value a,
                           struct template_value b, bool *is_true)
{
    int order = 0;
    switch (kind) {
    case CHAT_TEMPLATE_CODE_EQUAL:
    case CHAT_TEMPLATE_CODE_NOT_EQUAL:
        TRY(template_parts_equal(&eval->run, a, b, is_true));
        *is_true = *is_true == (kind == CHAT_TEMPLATE_CODE_EQUAL);
        return STATUS_OK;
    case CHAT_TEMPLATE_CODE_IN:
    case CHAT_TEMPLATE_CODE_NOT_IN:
        TRY(template_parts_in(&eval->run, a, b, is_true));
        *is_true = *is_true == (kind == CHAT_TEMPLATE_CODE_IN);
        return STATUS_OK;
    default:
        break;
    }
    TRY(template_parts_order(&eval->run, a, b, &order));
    *is_true = kind == CHAT_TEMPLATE_CODE_LESS         ? order < 0
               : kind == CHAT_TEMPLATE_CODE_LESS_EQUAL ? order <= 0
               : kind == CHAT_TEMPLATE_CODE_GREATER    ? order > 0
                                                       : order >= 0;
    return STATUS_OK;
}

static enum status run_binary(struct eval *eval)
{
    struct template_value right = eval_pop(eval);
    struct template_value left = eval_pop(eval);
    struct template_value value = EVAL_UNDEFINED;
    bool is_true = false;
    uint32_t kind = eval->code->kind;
    if (kind == CHAT_TEMPLATE_CODE_CONCAT) {
        TRY(run_concat(eval, left, right, &value));
    } else if (kind < CHAT_TEMPLATE_CODE_CONCAT) {
        TRY(run_arithmetic(eval, left, right, &value));
    } else {
        TRY(compare(eval, kind, left, right, &is_true));
        value = template_value_bool(is_true);
    }
    return eval_push(eval, value);
}

static enum status run_chain(struct eval *eval)
{
    struct template_value right = eval_pop(eval);
    struct template_value left = eval_pop(eval);
    bool is_true = false;
    TRY(compare(eval, eval->code->b, left, right, &is_true));
    if (is_true)
        return eval_push(eval, right);
    eval_jump(eval);
    return eval_push(eval, template_value_bool(false));
}

static enum status run_unary(struct eval *eval)
{
    struct template_value value = eval_pop(eval);
    if (eval->code->kind == CHAT_TEMPLATE_CODE_NOT)
        return eval_push(eval, template_value_bool(!template_value_is_true(value)));
    if (!template_value_is_small_number(value))
        EVAL_FAIL(eval, STATUS_INVALID, "%s has no sign", template_value_kind_name(value));
    struct template_value zero = template_value_integer(0);
    struct template_value out = {.kind = TEMPLATE_FLOAT, .is_own = value.is_own};
    if (value.kind == TEMPLATE_FLOAT) {
        out.number = eval->code->kind == CHAT_TEMPLATE_CODE_NEGATE ? -value.number : value.number;
        return eval_push(eval, out);
    }
    out.kind = TEMPLATE_INTEGER;
    out.integer = value.integer;
    if (eval->code->kind == CHAT_TEMPLATE_CODE_NEGATE &&
        __builtin_sub_overflow(zero.integer, value.integer, &out.integer))
        EVAL_FAIL(eval, STATUS_INVALID, "a number is too large");
    return eval_push(eval, out);
}

/* --- values --- */

static enum status run_constant(struct eval *eval)
{
    const struct chat_template_code *code = eval->code;
    uint64_t bits = code->a | (uint64_t)code->b << 32;
    struct template_value value = {.is_own = true};
    switch (code->kind) {
    case CHAT_TEMPLATE_CODE_STRING:
        TRY(template_string_make(&eval->run, eval_literal(eval), true, &value));
        break;
    case CHAT_TEMPLATE_CODE_INTEGER:
        value.kind = TEMPLATE_INTEGER;
        value.integer = (int64_t)bits;
        break;
    case CHAT_TEMPLATE_CODE_FLOAT:
        value.kind = TEMPLATE_FLOAT;
        memcpy(&value.number, &bits, sizeof bits);
        break;
    case CHAT_TEMPLATE_CODE_BOOL:
        value = template_value_bool(code->a != 0);
        break;
    case CHAT_TEMPLATE_CODE_NONE:
        value.kind = TEMPLATE_NONE;
        break;
    default:
        value = EVAL_UNDEFINED;
        break;
    }
    return eval_push(eval, value);
}

/* A later pair of the same key replaces the value of the first, as in Python. */
static enum status make_dict(struct eval *eval, const struct template_value *pairs, uint32_t count,
                             struct template_value *out)
{
    TRY(template_value_open(&eval->run, TEMPLATE_DICT, count, out));
    uint32_t made = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct template_value *found = NULL;
        struct template_value key = pairs[2 * i];
        if (key.kind == TEMPLATE_LIST || key.kind == TEMPLATE_DICT)
            EVAL_FAIL(eval, STATUS_INVALID, "%s cannot be a key", template_value_kind_name(key));
        out->count = made;
        TRY(template_parts_find(&eval->run, *out, key, &found));
        uint32_t at = found != NULL ? (uint32_t)(found - out->items->values) : 2 * made + 1;
        made += found == NULL;
        if (found == NULL)
            out->items->values[at - 1] = key;
        out->items->values[at] = pairs[2 * i + 1];
    }
    out->count = made;
    out->items->count = 2 * made;
    return template_value_close(&eval->run, out);
}

static enum status run_container(struct eval *eval)
{
    uint32_t kind = eval->code->kind;
    uint32_t values = eval->code->a * (kind == CHAT_TEMPLATE_CODE_DICT ? 2 : 1);
    struct template_value out;
    ASSERT(eval->value_count >= values);
    eval->value_count -= values;
    const struct template_value *from = &eval->values[eval->value_count];
    if (kind == CHAT_TEMPLATE_CODE_DICT)
        TRY(make_dict(eval, from, eval->code->a, &out));
    else
        TRY(template_value_make(&eval->run,
                                kind == CHAT_TEMPLATE_CODE_LIST ? TEMPLATE_LIST : TEMPLATE_TUPLE,
                                from, values, &out));
    return eval_push(eval, out);
}

static enum status run_unpack(struct eval *eval)
{
    const struct template_value *values = NULL;
    uint32_t count = 0;
    TRY(template_parts_elements(&eval->run, eval_pop(eval), &values, &count));
    if (count != eval->code->a)
        EVAL_FAIL(eval, STATUS_INVALID, "%u values are put into %u variables", count,
                  eval->code->a);
    for (uint32_t i = count; i > 0; i--)
        TRY(eval_push(eval, values[i - 1]));
    return STATUS_OK;
}

/* What a loop knows of itself. */
static enum status loop_attribute(struct eval *eval, struct template_value value, struct slice name,
                                  struct template_value *out)
{
    *out = EVAL_UNDEFINED;
    if (value.count >= eval->loop_count ||
        eval->frames[eval->loops[value.count].frame].serial != value.frame.serial)
        EVAL_FAIL(eval, STATUS_INVALID, "a loop is used after its end");
    const struct eval_loop *loop = &eval->loops[value.count];
    int64_t index = loop->index;
    int64_t count = loop->count;
    if (slice_is(name, "index"))
        *out = template_value_integer(index + 1);
    else if (slice_is(name, "index0"))
        *out = template_value_integer(index);
    else if (slice_is(name, "revindex"))
        *out = template_value_integer(count - index);
    else if (slice_is(name, "revindex0"))
        *out = template_value_integer(count - index - 1);
    else if (slice_is(name, "length"))
        *out = template_value_integer(count);
    else if (slice_is(name, "first"))
        *out = template_value_bool(index == 0);
    else if (slice_is(name, "last"))
        *out = template_value_bool(index + 1 == count);
    else if (slice_is(name, "previtem") && index > 0)
        *out = loop->values[index - 1];
    else if (slice_is(name, "nextitem") && index + 1 < count)
        *out = loop->values[index + 1];
    return STATUS_OK;
}

/* x['name']: a key, or else what x.name is, as in jinja2. */
static enum status part_item(struct eval *eval, struct template_value value,
                             struct template_value key, struct template_value *out)
{
    struct slice name;
    TRY(template_parts_item(&eval->run, value, key, out));
    if (out->kind != TEMPLATE_UNDEFINED || key.kind != TEMPLATE_STRING)
        return STATUS_OK;
    TRY(template_string_flat(&eval->run, key, &name));
    return template_method_attribute(&eval->run, value, name, out);
}

static enum status run_part(struct eval *eval)
{
    struct template_value key = EVAL_UNDEFINED;
    struct template_value out = EVAL_UNDEFINED;
    if (eval->code->kind == CHAT_TEMPLATE_CODE_ITEM)
        key = eval_pop(eval);
    struct template_value value = eval_pop(eval);
    if (eval->code->kind == CHAT_TEMPLATE_CODE_ITEM)
        TRY(part_item(eval, value, key, &out));
    else if (value.kind == TEMPLATE_LOOP)
        TRY(loop_attribute(eval, value, eval_literal(eval), &out));
    else
        TRY(template_method_attribute(&eval->run, value, eval_literal(eval), &out));
    return eval_push(eval, out);
}

static enum status run_slice(struct eval *eval)
{
    struct template_value parts[3] = {0};
    struct template_value out;
    for (uint32_t i = 3; i > 0; i--) {
        if ((eval->code->a & (1u << (i - 1))) != 0)
            parts[i - 1] = eval_pop(eval);
    }
    TRY(template_parts_slice(&eval->run, eval_pop(eval), parts, &out));
    return eval_push(eval, out);
}

static enum status run_set_part(struct eval *eval)
{
    struct template_value name;
    struct template_value names = eval_pop(eval);
    TRY(template_string_make(&eval->run, eval_literal(eval), true, &name));
    return template_parts_set(&eval->run, names, name, eval_pop(eval));
}

/* --- calls --- */

/* The arguments on top of the stack. They stay there; `*below` is the stack's height without. */
static struct template_call call_arguments(const struct eval *eval, uint32_t *below)
{
    uint32_t packed = eval->code->b;
    uint32_t named = packed >> CHAT_TEMPLATE_CODE_NAMED;
    uint32_t by_place = packed & ((1u << CHAT_TEMPLATE_CODE_NAMED) - 1);
    ASSERT(eval->value_count >= by_place + 2 * named);
    *below = eval->value_count - by_place - 2 * named;
    return (struct template_call){.values = &eval->values[*below],
                                  .count = by_place,
                                  .named = &eval->values[*below + by_place],
                                  .named_count = named};
}

/* Puts an argument with a name into the slot of its parameter. */
static enum status macro_named(struct eval *eval, const struct chat_template_macro *macro,
                               struct template_value name, struct template_value value)
{
    const struct chat_template_program *program = eval->program;
    for (uint32_t i = 0; i < macro->params; i++) {
        const struct chat_template_word *word = &program->params[macro->first_param + i];
        struct slice text = {program->literals.bytes + word->offset, word->length};
        if (!template_string_is(&eval->run, name, text))
            continue;
        struct template_value *slot = eval_slot(eval, 0, i + 1);
        if (slot->kind != TEMPLATE_ABSENT)
            EVAL_FAIL(eval, STATUS_INVALID, "a macro gets an argument twice");
        *slot = value;
        return STATUS_OK;
    }
    if (!template_string_is(&eval->run, name, SLICE("caller")))
        EVAL_FAIL(eval, STATUS_INVALID, "a macro has no parameter of that name");
    *eval_slot(eval, 0, CHAT_TEMPLATE_CODE_SLOT_CALLER) = value;
    return STATUS_OK;
}

static enum status call_macro(struct eval *eval, struct template_value callee,
                              const struct template_call *call)
{
    const struct chat_template_macro *macro = &eval->program->macros[callee.count];
    uint32_t around = callee.frame.index;
    if (around >= eval->frame_count || eval->frames[around].serial != callee.frame.serial)
        EVAL_FAIL(eval, STATUS_INVALID, "a block is called after its end");
    if (eval->call_count == LIMIT_TEMPLATE_CALLS)
        EVAL_FAIL(eval, STATUS_TEMPLATE_LIMIT, "macros call each other more than %d deep",
                  LIMIT_TEMPLATE_CALLS);
    if (call->count > macro->params)
        EVAL_FAIL(eval, STATUS_INVALID, "a macro gets too many arguments");
    eval->calls[eval->call_count++] =
        (struct eval_call){eval->next, eval->frame_count, eval->frame};
    TRY(frame_open(eval, macro->scope, around));
    for (uint32_t i = 0; i < macro->params; i++)
        *eval_slot(eval, 0, i + 1) =
            i < call->count ? call->values[i] : (struct template_value){.kind = TEMPLATE_ABSENT};
    for (uint32_t i = 0; i < call->named_count; i++)
        TRY(macro_named(eval, macro, call->named[2 * i], call->named[2 * i + 1]));
    eval->next = macro->entry;
    return run_capture(eval);
}

static enum status run_return(struct eval *eval)
{
    ASSERT(eval->call_count > 0);
    struct eval_call call = eval->calls[--eval->call_count];
    frame_close(eval, call.frame_count, call.frame);
    eval->next = call.next;
    return run_captured(eval);
}

static enum status run_call(struct eval *eval)
{
    uint32_t below;
    struct template_call call = call_arguments(eval, &below);
    ASSERT(below > 0);
    struct template_value callee = eval->values[below - 1];
    struct template_value out = EVAL_UNDEFINED;
    switch (callee.kind) {
    case TEMPLATE_MACRO:
        TRY(call_macro(eval, callee, &call));
        eval->value_count = below - 1;
        return STATUS_OK;
    case TEMPLATE_FUNCTION:
        TRY(template_function_call(&eval->run, callee.count, &call, &out));
        break;
    case TEMPLATE_METHOD:
        TRY(template_method_call(&eval->run, callee, &call, &out));
        break;
    default:
        EVAL_FAIL(eval, STATUS_INVALID, "%s cannot be called", template_value_kind_name(callee));
    }
    eval->value_count = below - 1;
    return eval_push(eval, out);
}

static enum status run_filter(struct eval *eval)
{
    uint32_t below;
    struct template_call call = call_arguments(eval, &below);
    struct template_value out = EVAL_UNDEFINED;
    ASSERT(below > 0);
    TRY(template_filter_call(&eval->run, eval->code->a, eval->values[below - 1], &call, &out));
    eval->value_count = below - 1;
    return eval_push(eval, out);
}

static enum status run_test(struct eval *eval)
{
    uint32_t below;
    struct template_call call = call_arguments(eval, &below);
    bool is_true = false;
    ASSERT(below > 0);
    TRY(template_test_call(&eval->run, eval->code->a, eval->values[below - 1], &call, &is_true));
    eval->value_count = below - 1;
    return eval_push(eval, template_value_bool(is_true));
}

/* --- loops --- */

/* Begins a round: the scope's variables, `loop`, and the element on the stack. */
static enum status loop_round(struct eval *eval, struct eval_loop *loop)
{
    TRY(frame_fill(eval, loop->frame, loop->scope));
    eval->slots[eval->frames[loop->frame].first + CHAT_TEMPLATE_CODE_SLOT_LOOP] =
        (struct template_value){.kind = TEMPLATE_LOOP,
                                .is_own = true,
                                .count = (uint32_t)(loop - eval->loops),
                                .frame = {loop->frame, eval->frames[loop->frame].serial}};
    return eval_push(eval, loop->values[loop->index]);
}

static enum status run_for(struct eval *eval)
{
    bool is_collecting = eval->code->kind == CHAT_TEMPLATE_CODE_FILTER_FOR;
    struct template_value list = eval_pop(eval);
    struct eval_loop loop = {.scope = eval->code->b, .is_collecting = is_collecting};
    TRY(template_parts_elements(&eval->run, list, &loop.values, &loop.count));
    if (is_collecting)
        TRY(template_value_open(&eval->run, TEMPLATE_LIST, loop.count, &loop.collected));
    loop.collected.is_own = list.is_own;
    if (loop.count == 0) {
        eval_jump(eval);
        return is_collecting ? eval_push(eval, loop.collected) : STATUS_OK;
    }
    if (eval->loop_count == EVAL_FRAMES)
        EVAL_FAIL(eval, STATUS_TEMPLATE_LIMIT, "loops are nested too deep");
    loop.frame = eval->frame_count;
    TRY(frame_open(eval, loop.scope, eval->frame));
    eval->loops[eval->loop_count] = loop;
    return loop_round(eval, &eval->loops[eval->loop_count++]);
}

static void loop_end(struct eval *eval)
{
    const struct eval_loop *loop = &eval->loops[--eval->loop_count];
    frame_close(eval, loop->frame, eval->frames[loop->frame].around);
}

static enum status run_next(struct eval *eval)
{
    ASSERT(eval->loop_count > 0);
    struct eval_loop *loop = &eval->loops[eval->loop_count - 1];
    /* A `continue` may come from inside of a block. */
    frame_close(eval, loop->frame + 1, loop->frame);
    loop->index++;
    if (loop->index < loop->count) {
        eval_jump(eval);
        return loop_round(eval, loop);
    }
    struct template_value collected = loop->collected;
    bool is_collecting = loop->is_collecting;
    collected.count = loop->kept;
    loop_end(eval);
    if (!is_collecting)
        return STATUS_OK;
    collected.items->count = collected.count;
    TRY(template_value_close(&eval->run, &collected));
    return eval_push(eval, collected);
}

static void run_collect(struct eval *eval)
{
    ASSERT(eval->loop_count > 0);
    struct eval_loop *loop = &eval->loops[eval->loop_count - 1];
    if (template_value_is_true(eval_pop(eval)))
        loop->collected.items->values[loop->kept++] = loop->values[loop->index];
}

/* --- control --- */

static enum status run_jump(struct eval *eval)
{
    uint32_t kind = eval->code->kind;
    if (kind == CHAT_TEMPLATE_CODE_JUMP_GIVEN) {
        if (eval_slot(eval, 0, eval->code->b)->kind != TEMPLATE_ABSENT)
            eval_jump(eval);
        return STATUS_OK;
    }
    if (kind != CHAT_TEMPLATE_CODE_JUMP) {
        struct template_value top = eval_pop(eval);
        bool wanted = kind == CHAT_TEMPLATE_CODE_JUMP_TRUE_KEEP;
        if (template_value_is_true(top) != wanted)
            return STATUS_OK;
        if (kind != CHAT_TEMPLATE_CODE_JUMP_FALSE)
            TRY(eval_push(eval, top));
    }
    eval_jump(eval);
    return STATUS_OK;
}

static enum status run_control(struct eval *eval)
{
    const struct chat_template_code *code = eval->code;
    switch (code->kind) {
    case CHAT_TEMPLATE_CODE_FOR:
    case CHAT_TEMPLATE_CODE_FILTER_FOR:
        return run_for(eval);
    case CHAT_TEMPLATE_CODE_NEXT:
        return run_next(eval);
    case CHAT_TEMPLATE_CODE_BREAK:
        loop_end(eval);
        eval_jump(eval);
        return STATUS_OK;
    case CHAT_TEMPLATE_CODE_COLLECT:
        run_collect(eval);
        return STATUS_OK;
    case CHAT_TEMPLATE_CODE_OPEN:
        return frame_open(eval, code->b, eval->frame);
    case CHAT_TEMPLATE_CODE_CLOSE:
        frame_close(eval, eval->frame, eval->frames[eval->frame].around);
        return STATUS_OK;
    case CHAT_TEMPLATE_CODE_CAPTURE:
        return run_capture(eval);
    case CHAT_TEMPLATE_CODE_CAPTURED:
        return run_captured(eval);
    case CHAT_TEMPLATE_CODE_MACRO:
        return eval_push(eval, (struct template_value){
                                   .kind = TEMPLATE_MACRO,
                                   .is_own = true,
                                   .count = code->a,
                                   .frame = {eval->frame, eval->frames[eval->frame].serial}});
    case CHAT_TEMPLATE_CODE_RETURN:
        return run_return(eval);
    default:
        return run_jump(eval);
    }
}

static enum status run_instruction(struct eval *eval)
{
    const struct chat_template_code *code = eval->code;
    switch (code->kind) {
    case CHAT_TEMPLATE_CODE_TEXT:
        return template_string_write(eval->writer, eval_literal(eval), true);
    case CHAT_TEMPLATE_CODE_PRINT:
        return run_print(eval);
    case CHAT_TEMPLATE_CODE_STRING:
    case CHAT_TEMPLATE_CODE_INTEGER:
    case CHAT_TEMPLATE_CODE_FLOAT:
    case CHAT_TEMPLATE_CODE_BOOL:
    case CHAT_TEMPLATE_CODE_NONE:
    case CHAT_TEMPLATE_CODE_UNDEFINED:
        return run_constant(eval);
    case CHAT_TEMPLATE_CODE_NAME:
        return eval_push(eval, *eval_slot(eval, code->a, code->b));
    case CHAT_TEMPLATE_CODE_SET:
        *eval_slot(eval, 0, code->b) = eval_pop(eval);
        return STATUS_OK;
    case CHAT_TEMPLATE_CODE_SET_PART:
        return run_set_part(eval);
    case CHAT_TEMPLATE_CODE_UNPACK:
        return run_unpack(eval);
    case CHAT_TEMPLATE_CODE_LIST:
    case CHAT_TEMPLATE_CODE_TUPLE:
    case CHAT_TEMPLATE_CODE_DICT:
        return run_container(eval);
    case CHAT_TEMPLATE_CODE_ATTRIBUTE:
    case CHAT_TEMPLATE_CODE_ITEM:
        return run_part(eval);
    case CHAT_TEMPLATE_CODE_SLICE:
        return run_slice(eval);
    case CHAT_TEMPLATE_CODE_NOT:
    case CHAT_TEMPLATE_CODE_NEGATE:
    case CHAT_TEMPLATE_CODE_PLUS:
        return run_unary(eval);
    case CHAT_TEMPLATE_CODE_CHAIN:
        return run_chain(eval);
    case CHAT_TEMPLATE_CODE_TEST:
        return run_test(eval);
    case CHAT_TEMPLATE_CODE_FILTER:
        return run_filter(eval);
    case CHAT_TEMPLATE_CODE_CALL:
        return run_call(eval);
    default:
        return code->kind < CHAT_TEMPLATE_CODE_CHAIN ? run_binary(eval) : run_control(eval);
    }
}

/* --- the run --- */

/* A client's JSON, or none. */
static enum status given_json(struct eval *eval, struct slice text, struct template_value *out)
{
    *out = (struct template_value){.kind = TEMPLATE_NONE};
    return text.length > 0 ? template_input_json(&eval->run, text, false, out) : STATUS_OK;
}

/* Variables that the request names; functions have theirs already. */
static enum status given_values(struct eval *eval, struct slice text)
{
    const struct chat_template_program *program = eval->program;
    struct template_value values;
    TRY(given_json(eval, text, &values));
    for (uint32_t i = CHAT_TEMPLATE_CODE_NAME_GIVEN; i < program->scopes[0].slots; i++) {
        const struct chat_template_word *word = &program->names[i];
        struct slice name = {program->literals.bytes + word->offset, word->length};
        uint32_t function = template_function_find(name);
        const struct template_value *found = NULL;
        if (function != TEMPLATE_FUNCTION_NONE)
            eval->slots[i] = (struct template_value){
                .kind = TEMPLATE_FUNCTION, .is_own = true, .count = function};
        else if (values.kind == TEMPLATE_DICT)
            TRY(template_parts_find_name(&eval->run, values, name, &found));
        if (found != NULL)
            eval->slots[i] = *found;
    }
    return STATUS_OK;
}

static enum status run_given(struct eval *eval, const struct chat_template_args *args)
{
    struct template_value *slots = eval->slots;
    eval->run.line = 1;
    TRY(frame_open(eval, 0, 0));
    TRY(template_input_messages(&eval->run, args, &slots[CHAT_TEMPLATE_CODE_NAME_MESSAGES]));
    slots[CHAT_TEMPLATE_CODE_NAME_PROMPT] = template_value_bool(args->add_generation_prompt);
    TRY(template_string_make(&eval->run, args->bos_token, true,
                             &slots[CHAT_TEMPLATE_CODE_NAME_BOS]));
    TRY(template_string_make(&eval->run, args->eos_token, true,
                             &slots[CHAT_TEMPLATE_CODE_NAME_EOS]));
    TRY(given_json(eval, args->tools, &slots[CHAT_TEMPLATE_CODE_NAME_TOOLS]));
    TRY(given_json(eval, args->documents, &slots[CHAT_TEMPLATE_CODE_NAME_DOCUMENTS]));
    return given_values(eval, args->values);
}

static enum status run_program(struct eval *eval)
{
    const struct chat_template_code *code = eval->program->code;
    for (uint32_t at = 0; code[at].kind != CHAT_TEMPLATE_CODE_END; at = eval->next) {
        eval->code = &code[at];
        eval->next = at + 1;
        eval->run.line = eval->code->line;
        TRY(template_run_charge(&eval->run, 0));
        TRY(run_instruction(eval));
    }
    ASSERT(eval->value_count == 0);
    ASSERT(eval->loop_count == 0);
    ASSERT(eval->writer_count == 1);
    return STATUS_OK;
}

/* Gives the writer's bytes away, with the spans that are the template's. */
static enum status run_finish(struct eval *eval, struct chat_template_text *out)
{
    struct template_writer *writer = &eval->writers[0];
    size_t begin = 0;
    out->spans = mem_zalloc(writer->origin_count + 1, sizeof(*out->spans));
    if (out->spans == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the chat template");
    for (size_t i = 0; i < writer->origin_count; i++) {
        struct template_origin origin = writer->origins[i];
        if (origin.is_own)
            out->spans[out->span_count++] = (struct tokenizer_span){begin, origin.end - begin};
        begin = origin.end;
    }
    out->bytes = writer->bytes;
    buffer_init(&writer->bytes, 0);
    return STATUS_OK;
}

enum status chat_template_eval_run(const struct chat_template_program *program,
                                   const struct chat_template_args *args,
                                   struct chat_template_text *out, uint64_t *steps)
{
    *out = (struct chat_template_text){0};
    buffer_init(&out->bytes, LIMIT_TEMPLATE_OUTPUT_BYTES);
    struct eval *eval = mem_zalloc(1, sizeof(*eval));
    if (eval == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the chat template");
    eval->program = program;
    eval->run.clock = args->clock != NULL ? args->clock : clock_system();
    enum status status = run_capture(eval);
    if (status == STATUS_OK)
        status = run_given(eval, args);
    if (status == STATUS_OK)
        status = run_program(eval);
    if (status == STATUS_OK)
        status = run_finish(eval, out);
    if (steps != NULL)
        *steps = eval->run.steps;
    while (eval->writer_count > 0) {
        struct template_writer *writer = &eval->writers[--eval->writer_count];
        buffer_deinit(&writer->bytes);
        mem_free(writer->origins);
    }
    template_run_deinit(&eval->run);
    mem_free(eval);
    return status;
}
