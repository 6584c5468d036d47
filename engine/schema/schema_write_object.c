#include "engine/schema/schema_write_object.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_any.h"
#include "engine/schema/schema_text.h"

enum { FIRST, NEXT, PLACES }; /* no member was written before; some was */

struct object {
    struct schema_writer *writer;
    struct schema *schema;
    struct grammar_builder *builder;
    const struct schema_members *members;
    uint32_t *left;   /* members that some value matches, by index */
    uint32_t count;   /* of these */
    bool has_classes; /* other members may come, too */
    grammar_symbol close;
    grammar_symbol *names[PLACES]; /* lexemes of the members left */
    grammar_symbol *values;
    grammar_symbol others[PLACES]; /* one member without a place of its own */
    grammar_symbol more;           /* any number of these */
    grammar_symbol rest[PLACES];   /* what may follow, from some member on */
    grammar_symbol named[PLACES];  /* the same, where it does not begin with one of the others */
};

static const struct grammar_when always = {GRAMMAR_ALWAYS, 0};

/* --- parts --- */

static enum status class_member(struct object *object, const struct schema_key_class *class,
                                bool has_comma, grammar_symbol *out)
{
    struct schema *schema = object->schema;
    grammar_symbol parts[2];
    parts[0] = schema_write_part_lexeme(schema, schema_text_name(schema, class->names, has_comma));
    TRY(schema_write_part_set(object->writer, class->set, &parts[1]));
    *out = grammar_sequence(object->builder, parts, 2);
    return STATUS_OK;
}

static enum status make_others(struct object *object)
{
    const struct schema_members *members = object->members;
    for (int place = FIRST; place < PLACES; place++) {
        if (members->has_some) {
            TRY(class_member(object, &members->some, place == NEXT, &object->others[place]));
            continue;
        }
        object->others[place] = grammar_rule(object->builder);
        for (uint32_t i = 0; i < members->class_count; i++) {
            grammar_symbol member;
            if (!schema_write_part_can_be(object->schema, members->classes[i].set))
                continue;
            object->has_classes = true;
            TRY(class_member(object, &members->classes[i], place == NEXT, &member));
            grammar_rule_add(object->builder, object->others[place], &member, 1);
        }
    }
    return STATUS_OK;
}

static enum status make_members(struct object *object)
{
    struct schema *schema = object->schema;
    const struct schema_members *members = object->members;
    size_t bytes = (members->count + 1) * sizeof(grammar_symbol);
    object->left = schema_take(schema, bytes);
    object->values = schema_take(schema, bytes);
    object->names[FIRST] = schema_take(schema, bytes);
    object->names[NEXT] = schema_take(schema, bytes);
    if (object->left == NULL || object->values == NULL || object->names[FIRST] == NULL ||
        object->names[NEXT] == NULL)
        return schema_no_room(schema);
    bool is_first = true; /* no required member stands before */
    for (uint32_t i = 0; i < members->count; i++) {
        const struct schema_member_of *member = &members->named[i];
        if (!schema_write_part_can_be(schema, member->set))
            continue;
        regex_node_id name =
            regex_text(schema->regexes, json_read_text(schema_value(schema, member->name)));
        uint32_t at = object->count++;
        object->left[at] = i;
        for (int place = is_first ? FIRST : NEXT; place < PLACES; place++)
            object->names[place][at] =
                schema_write_part_lexeme(schema, schema_text_name(schema, name, place == NEXT));
        is_first = is_first && !member->is_required;
        TRY(schema_write_part_set(object->writer, member->set, &object->values[at]));
        TRY(schema_spend(schema, 8));
    }
    return STATUS_OK;
}

static bool is_required(const struct object *object, uint32_t at)
{
    return object->members->named[object->left[at]].is_required;
}

/* --- without counts --- */

static void add(struct object *object, grammar_symbol rule, const grammar_symbol *symbols,
                size_t count)
{
    grammar_rule_add(object->builder, rule, symbols, count);
}

/* Whether members keep the order of the schema. Only where a request leaves objects open are other
 * orders written: elsewhere more names are forced, and small models follow the schema better. */
static bool is_ordered(const struct object *object)
{
    const struct constraint_options *options = object->schema->options;
    return options->strict || options->disable_additional_properties || object->members->has_some;
}

/* Whether names that `properties` does not have may stand between those that it has. */
static bool has_between(const struct object *object)
{
    return object->has_classes && !is_ordered(object);
}

/* What may follow at `place`: the same as in `named`, or other members before it. */
static grammar_symbol plain_rest(struct object *object, int place)
{
    grammar_symbol rule = grammar_rule(object->builder);
    add(object, rule, &object->named[place], 1);
    add(object, rule,
        (const grammar_symbol[]){object->others[place], object->more, object->named[NEXT]}, 3);
    return rule;
}

/* The end of the object: other members, and the brace. */
static void plain_end(struct object *object)
{
    for (int place = NEXT; place >= FIRST; place--) {
        object->named[place] = object->close;
        object->rest[place] = object->close;
        if (object->members->has_some)
            object->rest[place] = grammar_sequence(
                object->builder, (const grammar_symbol[]){object->others[place], object->close}, 2);
        else if (object->has_classes)
            object->rest[place] = plain_rest(object, place);
    }
}

/* Puts the optional member before what follows. `is_first`: no required member stands before it. */
static void plain_member(struct object *object, uint32_t at, bool is_first)
{
    const bool is_between = has_between(object);
    const grammar_symbol after = object->rest[NEXT];
    for (int place = NEXT; place >= (is_first ? FIRST : NEXT); place--) {
        grammar_symbol rule = grammar_rule(object->builder);
        add(object, rule,
            (const grammar_symbol[]){object->names[place][at], object->values[at], after}, 3);
        add(object, rule, is_between ? &object->named[place] : &object->rest[place], 1);
        object->named[place] = rule;
        object->rest[place] = is_between ? plain_rest(object, place) : rule;
    }
}

/* Puts a run of required members, of which the first is at `from`, before what follows. */
static enum status plain_run(struct object *object, uint32_t from, uint32_t to, bool is_first)
{
    uint32_t count = 2 * (to - from) + 1;
    grammar_symbol *symbols = schema_take(object->schema, count * sizeof *symbols);
    if (symbols == NULL)
        return schema_no_room(object->schema);
    for (uint32_t i = from; i < to; i++) {
        symbols[2 * (i - from)] = object->names[NEXT][i];
        symbols[2 * (i - from) + 1] = object->values[i];
    }
    symbols[count - 1] = object->rest[NEXT];
    for (int place = PLACES - 1; place >= (is_first ? FIRST : NEXT); place--) {
        symbols[0] = object->names[place][from];
        object->rest[place] = grammar_sequence(object->builder, symbols, count);
        object->named[place] = object->rest[place];
    }
    return STATUS_OK;
}

static enum status write_plain(struct object *object, grammar_symbol open, grammar_symbol rule)
{
    uint32_t first_required = 0;
    while (first_required < object->count && !is_required(object, first_required))
        first_required++;
    plain_end(object);
    for (uint32_t at = object->count; at > 0;) {
        uint32_t from = at - 1;
        if (!is_required(object, from)) {
            plain_member(object, from, from <= first_required);
        } else {
            while (from > 0 && is_required(object, from - 1))
                from--;
            TRY(plain_run(object, from, at, from <= first_required));
        }
        at = from;
    }
    add(object, rule, (const grammar_symbol[]){open, object->rest[FIRST]}, 2);
    return STATUS_OK;
}

/* --- with counts --- */

static struct grammar_when at_least(uint32_t count)
{
    return count == 0 ? always : (struct grammar_when){GRAMMAR_LEAST, count};
}

/* Adds an alternative that leaves room for `needed` members, of which one is its own. */
static void count_add_within(struct object *object, grammar_symbol rule, uint32_t needed,
                             const struct grammar_use *uses, size_t count)
{
    uint32_t max = object->members->max;
    struct grammar_when when = {GRAMMAR_MOST, max - needed};
    if (max >= needed)
        grammar_counted_add(object->builder, rule, max == UINT32_MAX ? always : when, uses, count);
}

static void count_add(struct object *object, grammar_symbol rule, struct grammar_when when,
                      const struct grammar_use *uses, size_t count)
{
    grammar_counted_add(object->builder, rule, when, uses, count);
}

/* The end. An additional name may be repeated, so all of them count as one towards the minimum: the
 * first one is begun only where it is enough. */
static void count_end(struct object *object)
{
    uint32_t min = object->members->min;
    const struct grammar_use close = schema_write_part_plain(object->close);
    grammar_symbol behind = grammar_rule(object->builder); /* another member was written */
    count_add(object, behind, always, &close, 1);
    if (!object->members->has_some) {
        const struct grammar_use more[] = {schema_write_part_plain(object->others[NEXT]),
                                           schema_write_part_count(behind, 1)};
        count_add_within(object, behind, 1, more, 2);
    }
    for (int place = FIRST; place < PLACES; place++) {
        grammar_symbol rule = grammar_rule(object->builder);
        grammar_symbol other = grammar_rule(object->builder);
        const struct grammar_use begin[] = {schema_write_part_plain(object->others[place]),
                                            schema_write_part_count(behind, 1)};
        const struct grammar_use use = schema_write_part_count(other, 0);
        if (!object->members->has_some)
            count_add(object, rule, at_least(min), &close, 1);
        if (object->has_classes || object->members->has_some) {
            count_add(object, rule, at_least(min > 0 ? min - 1 : 0), &use, 1);
            count_add_within(object, other, 1, begin, 2);
        }
        object->rest[place] = rule;
    }
}

/* Puts the member before what follows. `possible` more members can come behind it, and `needed` of
 * them must. */
static void count_member(struct object *object, uint32_t at, uint32_t possible, uint32_t needed)
{
    uint32_t min = object->members->min;
    for (int place = FIRST; place < PLACES; place++) {
        grammar_symbol rule = grammar_rule(object->builder);
        const struct grammar_use with[] = {schema_write_part_plain(object->names[place][at]),
                                           schema_write_part_plain(object->values[at]),
                                           schema_write_part_count(object->rest[NEXT], 1)};
        const struct grammar_use without = schema_write_part_count(object->rest[place], 0);
        if (with[0].symbol != GRAMMAR_NOTHING)
            count_add_within(object, rule, needed + 1, with, 3);
        if (!is_required(object, at))
            count_add(object, rule, at_least(min > possible ? min - possible : 0), &without, 1);
        object->rest[place] = rule;
    }
}

static void write_counted(struct object *object, grammar_symbol open, grammar_symbol rule)
{
    uint32_t possible = object->has_classes || object->members->has_some;
    uint32_t needed = object->members->has_some;
    count_end(object);
    for (uint32_t at = object->count; at > 0; at--) {
        count_member(object, at - 1, possible, needed);
        possible++;
        needed += is_required(object, at - 1);
    }
    const struct grammar_use uses[] = {schema_write_part_plain(open),
                                       {object->rest[FIRST], GRAMMAR_PASS_VALUE, 0}};
    count_add(object, rule, always, uses, 2);
}

/* --- in another order ---
 *
 * An optional member may come at its place in the schema or later. It has a bit of the count, which
 * is set when it is written. Required members keep their order. Where one of them is next and no
 * optional member stands before it, nothing else may come, so its name is forced. With `from` the
 * next required member:
 *
 *     named = (an optional member before `from`, whose bit is clear) rest
 *           | (the required members from `from` on) (rest from behind them on)
 *     rest  = named | others named
 *
 * The lexer has states for each set of names that may come next, so their number is bounded. */

/* Adds the optional members before `from`, and `run`, which follows without them. */
static void order_named(struct object *object, grammar_symbol rule, int place, uint32_t from,
                        const struct grammar_use *run, size_t run_count)
{
    uint64_t bit = 1;
    for (uint32_t i = 0; i < from; i++) {
        if (is_required(object, i))
            continue;
        const struct grammar_use uses[] = {schema_write_part_plain(object->names[place][i]),
                                           schema_write_part_plain(object->values[i]),
                                           {object->rest[NEXT], GRAMMAR_PASS_OR, bit}};
        count_add(object, rule, (struct grammar_when){GRAMMAR_CLEAR, bit}, uses, 3);
        bit <<= 1;
    }
    count_add(object, rule, always, run, run_count);
}

/* Adds `named`, and others before it. */
static void order_rest(struct object *object, grammar_symbol rule, int place)
{
    const struct grammar_use named = schema_write_part_count(object->named[NEXT], 0);
    const struct grammar_use behind[] = {schema_write_part_plain(object->others[place]),
                                         schema_write_part_plain(object->more), named};
    if (place == NEXT)
        count_add(object, rule, always, &named, 1);
    count_add(object, rule, always, behind, 3);
}

static uint32_t optional_before(const struct object *object, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < end; i++)
        count += !is_required(object, i);
    return count;
}

/* Makes `rest` of the place before the required members `from` … `to` - 1. At the end of the object
 * both are the number of members. */
static enum status order_place(struct object *object, uint32_t from, uint32_t to, bool is_first)
{
    const uint32_t count = 2 * (to - from) + 1;
    const bool is_loose = object->has_classes && (from == to || optional_before(object, from) > 0);
    struct grammar_use *run = schema_take(object->schema, count * sizeof *run);
    if (run == NULL)
        return schema_no_room(object->schema);
    for (uint32_t i = from; i < to; i++) {
        run[2 * (i - from)] = schema_write_part_plain(object->names[NEXT][i]);
        run[2 * (i - from) + 1] = schema_write_part_plain(object->values[i]);
    }
    run[count - 1] = from < to ? schema_write_part_count(object->rest[NEXT], 0)
                               : schema_write_part_plain(object->close);
    object->named[NEXT] = grammar_rule(object->builder);
    object->rest[NEXT] = is_loose ? grammar_rule(object->builder) : object->named[NEXT];
    order_named(object, object->named[NEXT], NEXT, from, run, count);
    if (is_loose)
        order_rest(object, object->rest[NEXT], NEXT);
    if (is_first) {
        object->rest[FIRST] = grammar_rule(object->builder);
        if (from < to)
            run[0] = schema_write_part_plain(object->names[FIRST][from]);
        order_named(object, object->rest[FIRST], FIRST, from, run, count);
        if (is_loose)
            order_rest(object, object->rest[FIRST], FIRST);
    }
    return STATUS_OK;
}

/* From the end on: the end itself, then each run of required members. */
static enum status write_in_any_order(struct object *object, grammar_symbol open,
                                      grammar_symbol rule)
{
    uint32_t first_required = 0;
    while (first_required < object->count && !is_required(object, first_required))
        first_required++;
    TRY(order_place(object, object->count, object->count, first_required == object->count));
    for (uint32_t to = object->count; to > first_required;) {
        uint32_t from = to;
        while (from > 0 && is_required(object, from - 1))
            from--;
        if (from < to)
            TRY(order_place(object, from, to, from == first_required));
        to = from < to ? from : to - 1;
    }
    const struct grammar_use uses[] = {schema_write_part_plain(open),
                                       {object->rest[FIRST], GRAMMAR_PASS_VALUE, 0}};
    count_add(object, rule, always, uses, 2);
    return STATUS_OK;
}

/* Whether an optional member may come later than at its place. If so, takes the sets of names that
 * may come next from those that the compilation has left. */
static bool takes_any_order(struct object *object)
{
    const uint32_t optional = optional_before(object, object->count);
    uint32_t sets = 0;
    if (is_ordered(object) || optional == 0 || optional > LIMIT_SCHEMA_ANY_ORDER)
        return false;
    for (uint32_t i = 0; i <= object->count; i++)
        if (i == object->count ||
            (is_required(object, i) && (i == 0 || !is_required(object, i - 1))))
            sets += 1U << optional_before(object, i);
    if (sets > object->schema->order_sets)
        return false;
    object->schema->order_sets -= sets;
    return true;
}

/* Whether the bounds say more than the members do. */
static bool needs_count(const struct object *object)
{
    const struct schema_members *members = object->members;
    uint32_t required = members->has_some;
    for (uint32_t at = 0; at < object->count; at++)
        required += is_required(object, at);
    bool has_most = members->max != UINT32_MAX &&
                    (object->has_classes || members->max < object->count + members->has_some);
    return members->min > required || has_most;
}

enum status schema_write_object(struct schema_writer *writer, const struct schema_members *members,
                                grammar_symbol *out)
{
    struct schema *schema = writer->schema;
    struct object object = {
        .writer = writer, .schema = schema, .builder = schema->builder, .members = members};
    if (members->is_free) {
        *out = schema_any_object(schema);
        return STATUS_OK;
    }
    object.close = schema_write_part_mark(schema, '}');
    grammar_symbol open = schema_write_part_mark(schema, '{');
    *out = grammar_rule(schema->builder);
    TRY(make_members(&object));
    TRY(make_others(&object));
    object.more = grammar_repeat(schema->builder, object.others[NEXT], 0, GRAMMAR_UNBOUNDED);
    if (needs_count(&object))
        write_counted(&object, open, *out);
    else if (takes_any_order(&object))
        TRY(write_in_any_order(&object, open, *out));
    else
        TRY(write_plain(&object, open, *out));
    return grammar_builder_status(schema->builder);
}
