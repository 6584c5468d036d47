#include "engine/schema/schema_number.h"

#include "engine/schema/schema_text.h"

enum {
    WHOLE = LIMIT_JSON_INTEGER_DIGITS,
    PARTS = LIMIT_JSON_FRACTION_DIGITS,
    DIVISOR_MOST = 1000, /* of a fraction: its remainders are told apart one by one */
};

static const schema_decimal least = -SCHEMA_DECIMAL_MOST;
static const schema_decimal most = SCHEMA_DECIMAL_MOST;

static bool has_bounds(const struct schema_range *range)
{
    return range->low != least || range->high != most;
}

static enum schema_decimal_fit read_number(const struct schema *schema, uint32_t index,
                                           schema_decimal *out)
{
    return schema_decimal_read(json_read_text(schema_value(schema, index)), out);
}

uint8_t schema_number_types(const struct schema *schema, uint32_t index)
{
    schema_decimal value;
    switch (read_number(schema, index, &value)) {
    case SCHEMA_DECIMAL_EXACT:
        return schema_decimal_is_integer(value) ? SCHEMA_INTEGER : SCHEMA_FRACTION;
    case SCHEMA_DECIMAL_CUT:
        return SCHEMA_FRACTION;
    default:
        return SCHEMA_NUMBER;
    }
}

/* --- texts above and below a bound --- */

static regex_node_id digits(struct schema *schema, uint32_t min, uint32_t max)
{
    return regex_repeat(schema->regexes, schema->text->digit, min, max);
}

/* Integers without a sign that are greater than the one of these digits. */
static regex_node_id whole_above(struct schema *schema, const char *value, size_t length)
{
    struct regex_pool *pool = schema->regexes;
    regex_node_id result = REGEX_NONE;
    if (length < WHOLE)
        result = regex_cat(pool, schema_text_digits(schema, 1, 9),
                           digits(schema, (uint32_t)length, WHOLE - 1));
    for (size_t i = 0; i < length; i++) {
        if (value[i] == '9')
            continue;
        regex_node_id same = regex_text(pool, (struct slice){value, i});
        regex_node_id more = schema_text_digits(schema, value[i] + 1 - '0', 9);
        uint32_t rest = (uint32_t)(length - i - 1);
        result = regex_or(pool, result,
                          schema_text_cat3(schema, same, more, digits(schema, rest, rest)));
    }
    return result;
}

/* The digits behind the point, as many as PARTS or fewer, of fractions above the one of these
 * digits, or of at least it. */
static regex_node_id parts_above(struct schema *schema, const char *parts, size_t count,
                                 bool is_open)
{
    struct regex_pool *pool = schema->regexes;
    uint32_t rest = (uint32_t)(PARTS - count);
    regex_node_id result = digits(schema, 0, rest);
    if (is_open) {
        regex_node_id zeros = regex_repeat(pool, schema->text->zero, 0, rest);
        result = regex_and(pool, result, regex_not(pool, zeros));
    }
    for (size_t i = count; i > 0; i--) {
        regex_node_id digit = regex_text(pool, (struct slice){&parts[i - 1], 1});
        result = regex_cat(pool, digit, result);
        if (parts[i - 1] == '9')
            continue;
        regex_node_id more = schema_text_digits(schema, parts[i - 1] + 1 - '0', 9);
        result =
            regex_or(pool, result, regex_cat(pool, more, digits(schema, 0, PARTS - (uint32_t)i)));
    }
    return result;
}

static regex_node_id with_point(struct schema *schema, regex_node_id parts)
{
    struct regex_pool *pool = schema->regexes;
    return regex_cat(pool, schema_text_of(schema, "."),
                     regex_and(pool, parts, digits(schema, 1, PARTS)));
}

/* A value as it is written, at least 0. */
struct plain {
    char text[SCHEMA_DECIMAL_BYTES];
    size_t whole;      /* digits before the point */
    size_t part_at;    /* where those behind it begin */
    size_t part_count; /* of these; the last one is not 0 */
};

static struct plain plain_of(schema_decimal value)
{
    struct plain plain = {.whole = 0};
    const size_t length = schema_decimal_write(value, plain.text);
    while (plain.whole < length && plain.text[plain.whole] != '.')
        plain.whole++;
    plain.part_at = plain.whole < length ? plain.whole + 1 : length;
    plain.part_count = length - plain.part_at;
    return plain;
}

/* Plain texts without a sign whose value is above `value`, or at least that. */
static regex_node_id above(struct schema *schema, schema_decimal value, bool is_open)
{
    struct regex_pool *pool = schema->regexes;
    if (value < 0)
        return schema->text->plain_magnitude;
    if (value >= SCHEMA_DECIMAL_MOST / 10)
        return REGEX_NONE;
    const struct plain plain = plain_of(value);
    regex_node_id any_parts =
        regex_or(pool, REGEX_EMPTY, with_point(schema, digits(schema, 0, PARTS)));
    regex_node_id greater =
        regex_cat(pool, whole_above(schema, plain.text, plain.whole), any_parts);
    regex_node_id behind = with_point(
        schema, parts_above(schema, plain.text + plain.part_at, plain.part_count, is_open));
    if (plain.part_count == 0 && !is_open)
        behind = regex_or(pool, behind, REGEX_EMPTY);
    regex_node_id same = regex_text(pool, (struct slice){plain.text, plain.whole});
    return regex_or(pool, greater, regex_cat(pool, same, behind));
}

/* Integers without a sign that are less than the one of these digits. */
static regex_node_id whole_below(struct schema *schema, const char *value, size_t length)
{
    struct regex_pool *pool = schema->regexes;
    regex_node_id result = REGEX_NONE;
    if (length > 1)
        result = regex_or(pool, schema->text->zero,
                          regex_cat(pool, schema_text_digits(schema, 1, 9),
                                    digits(schema, 0, (uint32_t)length - 2)));
    for (size_t i = 0; i < length; i++) {
        int first = i == 0 && length > 1 ? 1 : 0;
        if (value[i] - '0' <= first)
            continue;
        regex_node_id same = regex_text(pool, (struct slice){value, i});
        regex_node_id less = schema_text_digits(schema, first, value[i] - '0' - 1);
        uint32_t rest = (uint32_t)(length - i - 1);
        result = regex_or(pool, result,
                          schema_text_cat3(schema, same, less, digits(schema, rest, rest)));
    }
    return result;
}

/* The digits behind the point, as many as PARTS or fewer, of fractions below the one of these
 * digits, of which the last is not 0, or of at most it. */
static regex_node_id parts_below(struct schema *schema, const char *parts, size_t count,
                                 bool is_open)
{
    struct regex_pool *pool = schema->regexes;
    uint32_t rest = (uint32_t)(PARTS - count);
    regex_node_id result = is_open ? REGEX_NONE : regex_repeat(pool, schema->text->zero, 0, rest);
    for (size_t i = count; i > 0; i--) {
        regex_node_id digit = regex_text(pool, (struct slice){&parts[i - 1], 1});
        result = regex_or(pool, REGEX_EMPTY, regex_cat(pool, digit, result));
        if (parts[i - 1] == '0')
            continue;
        regex_node_id less = schema_text_digits(schema, 0, parts[i - 1] - '0' - 1);
        result =
            regex_or(pool, result, regex_cat(pool, less, digits(schema, 0, PARTS - (uint32_t)i)));
    }
    return result;
}

/* Plain texts without a sign whose value is below `value`, or at most that. They are not written as
 * those that are not above it: the lexer sees at once that a text is out of bounds, also where it
 * must be a multiple, too. */
static regex_node_id below(struct schema *schema, schema_decimal value, bool is_open)
{
    struct regex_pool *pool = schema->regexes;
    if (value < 0)
        return REGEX_NONE;
    if (value >= SCHEMA_DECIMAL_MOST / 10)
        return schema->text->plain_magnitude;
    const struct plain plain = plain_of(value);
    regex_node_id any_parts =
        regex_or(pool, REGEX_EMPTY, with_point(schema, digits(schema, 0, PARTS)));
    regex_node_id less = regex_cat(pool, whole_below(schema, plain.text, plain.whole), any_parts);
    regex_node_id behind = with_point(
        schema, parts_below(schema, plain.text + plain.part_at, plain.part_count, is_open));
    if (plain.part_count != 0 || !is_open)
        behind = regex_or(pool, behind, REGEX_EMPTY);
    regex_node_id same = regex_text(pool, (struct slice){plain.text, plain.whole});
    return regex_or(pool, less, regex_cat(pool, same, behind));
}

/* Plain texts, with their sign, within the bounds, of which there is at least one. */
static regex_node_id within(struct schema *schema, const struct schema_range *range)
{
    struct regex_pool *pool = schema->regexes;
    regex_node_id plus = REGEX_ALL;
    regex_node_id minus = REGEX_ALL;
    if (range->low != least) {
        plus = regex_and(pool, plus, above(schema, range->low, range->is_low_open));
        minus = regex_and(pool, minus, below(schema, -range->low, range->is_low_open));
    }
    if (range->high != most) {
        plus = regex_and(pool, plus, below(schema, range->high, range->is_high_open));
        minus = regex_and(pool, minus, above(schema, -range->high, range->is_high_open));
    }
    return regex_or(pool, plus, regex_cat(pool, schema_text_of(schema, "-"), minus));
}

regex_node_id schema_number_text(struct schema *schema, uint32_t index)
{
    schema_decimal value;
    char text[SCHEMA_DECIMAL_BYTES];
    struct slice written = json_read_text(schema_value(schema, index));
    if (read_number(schema, index, &value) == SCHEMA_DECIMAL_EXACT)
        written = (struct slice){text, schema_decimal_write(value, text)};
    return regex_text(schema->regexes, written);
}

regex_node_id schema_number_equal(struct schema *schema, uint32_t index)
{
    struct schema_range range = {0};
    if (read_number(schema, index, &range.low) != SCHEMA_DECIMAL_EXACT)
        return REGEX_NONE;
    range.high = range.low;
    return within(schema, &range);
}

/* --- keywords --- */

void schema_number_and(struct schema *schema, struct schema_shape *shape, regex_node_id regex)
{
    shape->number = shape->number == SCHEMA_REGEX_UNKNOWN
                        ? regex
                        : regex_and(schema->regexes, shape->number, regex);
}

void schema_number_and_not(struct schema *schema, struct schema_shape *shape, regex_node_id regex)
{
    regex_node_id others = regex_not(schema->regexes, regex);
    schema_number_and(schema, shape,
                      regex_and(schema->regexes, schema->text->plain_number, others));
}

static void raise_low(struct schema_range *range, schema_decimal value, bool is_open)
{
    if (value < range->low)
        return;
    range->is_low_open = is_open || (value == range->low && range->is_low_open);
    range->low = value;
}

static void lower_high(struct schema_range *range, schema_decimal value, bool is_open)
{
    if (value > range->high)
        return;
    range->is_high_open = is_open || (value == range->high && range->is_high_open);
    range->high = value;
}

void schema_number_bits(struct schema_shape *shape, uint32_t bits)
{
    schema_decimal bound = (schema_decimal)1 << (bits - 1);
    if (bound > SCHEMA_DECIMAL_MOST / SCHEMA_DECIMAL_ONE / 100) /* beyond all plain integers */
        bound = SCHEMA_DECIMAL_MOST / SCHEMA_DECIMAL_ONE / 100;
    raise_low(&shape->range, -bound * SCHEMA_DECIMAL_ONE, false);
    lower_high(&shape->range, (bound - 1) * SCHEMA_DECIMAL_ONE, false);
}

struct bound {
    schema_decimal value;
    bool is_open;
};

/* Reads a bound so that it says the same of all plain numbers. */
static enum status read_bound(struct schema *schema, uint32_t index, bool is_low, bool is_open,
                              struct bound *out)
{
    enum json_read_kind kind = schema_kind(schema, index);
    if (kind != JSON_READ_INTEGER && kind != JSON_READ_FLOAT)
        return schema_fail(schema, STATUS_INVALID, index, NULL, "A number is needed.");
    *out = (struct bound){.is_open = is_open};
    if (read_number(schema, index, &out->value) == SCHEMA_DECIMAL_CUT) {
        bool is_positive = schema_value(schema, index)->bytes[0] != '-';
        out->is_open = is_positive == is_low;
    }
    return STATUS_OK;
}

static bool is_boolean(const struct schema *schema, uint32_t index)
{
    enum json_read_kind kind = schema_kind(schema, index);
    return kind == JSON_READ_TRUE || kind == JSON_READ_FALSE;
}

/* In draft 4 `exclusiveMinimum: true` stands beside `minimum`. */
static bool is_exclusive(const struct schema *schema, uint32_t object, const char *name)
{
    uint32_t index = schema_member(schema, object, name);
    return index != 0 && schema_kind(schema, index) == JSON_READ_TRUE;
}

static enum status apply_low(struct schema_work *work, struct schema_branch *branch, uint32_t index,
                             bool is_open, bool deny)
{
    struct bound bound;
    TRY(read_bound(work->schema, index, true, is_open, &bound));
    if (deny)
        lower_high(&branch->shape.range, bound.value, !bound.is_open);
    else
        raise_low(&branch->shape.range, bound.value, bound.is_open);
    return STATUS_OK;
}

static enum status apply_high(struct schema_work *work, struct schema_branch *branch,
                              uint32_t index, bool is_open, bool deny)
{
    struct bound bound;
    TRY(read_bound(work->schema, index, false, is_open, &bound));
    if (deny)
        raise_low(&branch->shape.range, bound.value, !bound.is_open);
    else
        lower_high(&branch->shape.range, bound.value, bound.is_open);
    return STATUS_OK;
}

enum status schema_number_minimum(struct schema_work *work, struct schema_branch *branch,
                                  const struct schema_use *use)
{
    return apply_low(work, branch, use->value,
                     is_exclusive(work->schema, use->object, "exclusiveMinimum"), false);
}

enum status schema_number_minimum_not(struct schema_work *work, struct schema_branch *branch,
                                      const struct schema_use *use)
{
    return apply_low(work, branch, use->value,
                     is_exclusive(work->schema, use->object, "exclusiveMinimum"), true);
}

enum status schema_number_maximum(struct schema_work *work, struct schema_branch *branch,
                                  const struct schema_use *use)
{
    return apply_high(work, branch, use->value,
                      is_exclusive(work->schema, use->object, "exclusiveMaximum"), false);
}

enum status schema_number_maximum_not(struct schema_work *work, struct schema_branch *branch,
                                      const struct schema_use *use)
{
    return apply_high(work, branch, use->value,
                      is_exclusive(work->schema, use->object, "exclusiveMaximum"), true);
}

enum status schema_number_exclusive_minimum(struct schema_work *work, struct schema_branch *branch,
                                            const struct schema_use *use)
{
    if (is_boolean(work->schema, use->value))
        return STATUS_OK;
    return apply_low(work, branch, use->value, true, false);
}

enum status schema_number_exclusive_minimum_not(struct schema_work *work,
                                                struct schema_branch *branch,
                                                const struct schema_use *use)
{
    branch->is_dead = is_boolean(work->schema, use->value);
    return branch->is_dead ? STATUS_OK : apply_low(work, branch, use->value, true, true);
}

enum status schema_number_exclusive_maximum(struct schema_work *work, struct schema_branch *branch,
                                            const struct schema_use *use)
{
    if (is_boolean(work->schema, use->value))
        return STATUS_OK;
    return apply_high(work, branch, use->value, true, false);
}

enum status schema_number_exclusive_maximum_not(struct schema_work *work,
                                                struct schema_branch *branch,
                                                const struct schema_use *use)
{
    branch->is_dead = is_boolean(work->schema, use->value);
    return branch->is_dead ? STATUS_OK : apply_high(work, branch, use->value, true, true);
}

/* --- multipleOf --- */

/* Plain numbers that are multiples of the integer. */
static regex_node_id multiples(struct schema *schema, uint32_t divisor)
{
    struct regex_pool *pool = schema->regexes;
    regex_node_id magnitude = regex_and(pool, schema->text->any_integer, digits(schema, 1, WHOLE));
    regex_node_id whole = /* -0 among them, which any_integer does not write */
        regex_cat(pool, regex_or(pool, REGEX_EMPTY, schema_text_of(schema, "-")),
                  regex_and(pool, magnitude, regex_mod(pool, divisor, 0)));
    regex_node_id zeros = regex_cat(pool, schema_text_of(schema, "."),
                                    regex_repeat(pool, schema->text->zero, 1, PARTS));
    return regex_cat(pool, whole, regex_or(pool, REGEX_EMPTY, zeros));
}

static uint32_t shared_divisor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Magnitudes with `count` digits behind the point whose digits, read as one integer, are a multiple
 * of `divisor`: the remainder of the whole part decides that of the digits behind the point. */
static regex_node_id joint_multiples(struct schema *schema, uint32_t divisor, uint32_t count)
{
    struct regex_pool *pool = schema->regexes;
    regex_node_id whole = regex_and(pool, schema->text->any_integer, digits(schema, 1, WHOLE));
    regex_node_id point = count == 0 ? REGEX_EMPTY : schema_text_of(schema, ".");
    regex_node_id parts = digits(schema, count, count);
    if (divisor == 1)
        return schema_text_cat3(schema, whole, point, parts);
    uint32_t power = 1;
    for (uint32_t i = 0; i < count; i++)
        power = power * 10 % divisor;
    regex_node_id result = REGEX_NONE;
    for (uint32_t rest = 0; rest < divisor; rest++) {
        uint32_t needed = (divisor - rest * power % divisor) % divisor;
        if (count == 0 && needed != 0)
            continue;
        regex_node_id a = regex_and(pool, whole, regex_mod(pool, divisor, rest));
        regex_node_id b =
            count == 0 ? REGEX_EMPTY : regex_and(pool, parts, regex_mod(pool, divisor, needed));
        result = regex_or(pool, result, schema_text_cat3(schema, a, point, b));
    }
    return result;
}

/* Plain numbers that are multiples of divisor ÷ 10^count. */
static regex_node_id fraction_multiples(struct schema *schema, uint32_t divisor, uint32_t count)
{
    struct regex_pool *pool = schema->regexes;
    regex_node_id zeros = regex_repeat(pool, schema->text->zero, 0, PARTS - count);
    regex_node_id result = regex_cat(pool, joint_multiples(schema, divisor, count), zeros);
    uint32_t power = 1;
    for (uint32_t i = count; i > 0; i--) { /* with fewer digits than that */
        power *= 10;
        regex_node_id fewer =
            joint_multiples(schema, divisor / shared_divisor(divisor, power), i - 1);
        result = regex_or(pool, result, fewer);
    }
    regex_node_id sign = regex_or(pool, REGEX_EMPTY, schema_text_of(schema, "-"));
    return regex_cat(pool, sign, result);
}

static enum status read_multiples(struct schema *schema, uint32_t index, regex_node_id *out)
{
    schema_decimal value = 0;
    enum json_read_kind kind = schema_kind(schema, index);
    bool is_number = kind == JSON_READ_INTEGER || kind == JSON_READ_FLOAT;
    enum schema_decimal_fit fit =
        is_number ? read_number(schema, index, &value) : SCHEMA_DECIMAL_EXACT;
    if (value <= 0 && fit != SCHEMA_DECIMAL_CUT)
        return schema_fail(schema, STATUS_INVALID, index, NULL, "A number above 0 is needed.");
    uint32_t count = LIMIT_JSON_FRACTION_DIGITS;
    while (count > 0 && value % 10 == 0) {
        value /= 10;
        count--;
    }
    schema_decimal divisor_most = count == 0 ? INT32_MAX : DIVISOR_MOST;
    if (fit != SCHEMA_DECIMAL_EXACT || value > divisor_most || count > 8)
        return schema_fail(schema, STATUS_UNSUPPORTED, index, NULL,
                           "The number has too many digits for multipleOf.");
    TRY(schema_spend(schema, count == 0 ? 1 : (uint32_t)value * 4));
    *out = count == 0 ? multiples(schema, (uint32_t)value)
                      : fraction_multiples(schema, (uint32_t)value, count);
    return STATUS_OK;
}

enum status schema_number_multiple_of(struct schema_work *work, struct schema_branch *branch,
                                      const struct schema_use *use)
{
    regex_node_id regex;
    TRY(read_multiples(work->schema, use->value, &regex));
    schema_number_and(work->schema, &branch->shape, regex);
    return STATUS_OK;
}

enum status schema_number_multiple_of_not(struct schema_work *work, struct schema_branch *branch,
                                          const struct schema_use *use)
{
    regex_node_id regex;
    TRY(read_multiples(work->schema, use->value, &regex));
    schema_number_and_not(work->schema, &branch->shape, regex);
    return STATUS_OK;
}

/* --- the text of a shape's numbers --- */

static regex_node_id regex_of(struct schema *schema, const struct schema_shape *shape,
                              uint8_t types)
{
    struct regex_pool *pool = schema->regexes;
    const struct schema_text *text = schema->text;
    bool is_bound = has_bounds(&shape->range);
    regex_node_id regex = types == SCHEMA_NUMBER    ? text->any_number
                          : types == SCHEMA_INTEGER ? text->any_integer
                                                    : text->plain_fraction;
    if (is_bound)
        regex = types == SCHEMA_NUMBER ? within(schema, &shape->range)
                                       : regex_and(pool, regex, within(schema, &shape->range));
    if (shape->number == SCHEMA_REGEX_UNKNOWN)
        return regex;
    if (types == SCHEMA_NUMBER && !is_bound)
        return shape->number; /* an enum may hold numbers that are not plain */
    return regex_and(pool, regex, shape->number);
}

regex_node_id schema_number_regex(struct schema *schema, const struct schema_shape *shape)
{
    uint8_t types = shape->types & SCHEMA_NUMBER;
    return types == 0 ? REGEX_NONE : regex_of(schema, shape, types);
}

enum status schema_number_settle(struct schema *schema, struct schema_shape *shape)
{
    const struct schema_range *range = &shape->range;
    if ((shape->types & SCHEMA_NUMBER) == 0)
        return STATUS_OK;
    if (range->low > range->high ||
        (range->low == range->high && (range->is_low_open || range->is_high_open))) {
        shape->types &= (uint8_t)~SCHEMA_NUMBER;
        return STATUS_OK;
    }
    if (shape->number == SCHEMA_REGEX_UNKNOWN && !has_bounds(range))
        return STATUS_OK;
    for (uint8_t type = SCHEMA_INTEGER; type <= SCHEMA_FRACTION; type = (uint8_t)(type * 2)) {
        if ((shape->types & type) == 0)
            continue;
        TRY(schema_spend(schema, 16));
        if (schema_text_is_empty(schema, regex_of(schema, shape, type)))
            shape->types &= (uint8_t)~type;
    }
    return STATUS_OK;
}
