#include "engine/schema/schema_members.h"

#include "config/base/limits_schema.h"
#include "engine/schema/schema_string.h"
#include "engine/schema/schema_text.h"

/* A class of names while it is being made: `claims` are those about their values, newest first. */
struct class
{
    regex_node_id names;
    const struct schema_cell *claims;
    bool is_matched; /* by a pattern of the schema that is being looked at */
    bool is_dropped;
};

struct work_out {
    struct schema *schema;
    struct schema_shape *shape;
    struct schema_members *members;
    uint32_t depth;
    const struct schema_cell **cells; /* in the order in which they were added */
    uint32_t cell_count;
    uint32_t *groups; /* schemas among the cells */
    uint32_t group_count;
    regex_node_id names; /* that every name must match */
    struct class classes[LIMIT_SCHEMA_KEY_CLASSES];
    uint32_t class_count;
    bool has_patterns;
    bool is_open; /* some schema says what other members have */
};

static struct slice text_at(const struct schema *schema, uint32_t index)
{
    return json_read_text(schema_value(schema, index));
}

/* --- sets from lists of claims --- */

/* Interns the claims of a list that is newest first. */
static enum status set_of(struct schema *schema, const struct schema_cell *claims,
                          schema_set_id *out)
{
    uint32_t count = 0;
    for (const struct schema_cell *at = claims; at != NULL; at = at->next)
        count++;
    schema_claim *list = schema_take(schema, (count + 1) * sizeof *list);
    if (list == NULL)
        return schema_no_room(schema);
    for (uint32_t i = count; i > 0; i--, claims = claims->next)
        list[i - 1] = claims->a;
    return schema_set_of(schema, list, count, out);
}

static enum status claim(struct schema *schema, const struct schema_cell **claims,
                         enum schema_claim_kind kind, uint32_t index)
{
    return schema_cell_push(schema, claims, 0, schema_claim_of(kind, index), 0);
}

/* --- collecting --- */

static enum status collect_cells(struct work_out *work)
{
    for (const struct schema_cell *at = work->shape->object; at != NULL; at = at->next)
        work->cell_count++;
    work->cells = schema_take(work->schema, (work->cell_count + 1) * sizeof(*work->cells));
    work->groups = schema_take(work->schema, (work->cell_count + 1) * sizeof(*work->groups));
    if (work->cells == NULL || work->groups == NULL)
        return schema_no_room(work->schema);
    uint32_t i = work->cell_count;
    for (const struct schema_cell *at = work->shape->object; at != NULL; at = at->next)
        work->cells[--i] = at;
    for (i = 0; i < work->cell_count; i++) {
        if (work->cells[i]->kind == SCHEMA_MEMBERS)
            work->groups[work->group_count++] = work->cells[i]->a;
    }
    return schema_spend(work->schema, work->cell_count + 1);
}

static struct schema_member_of *find_name(struct work_out *work, struct slice name)
{
    for (uint32_t i = 0; i < work->members->count; i++) {
        struct schema_member_of *member = &work->members->named[i];
        if (slice_equals(text_at(work->schema, member->name), name))
            return member;
    }
    return NULL;
}

static enum status add_name(struct work_out *work, uint32_t name, struct schema_member_of **out)
{
    struct schema_members *members = work->members;
    TRY(schema_spend(work->schema, 1 + members->count / 16));
    struct schema_member_of *member = find_name(work, text_at(work->schema, name));
    if (member == NULL) {
        if (members->count == LIMIT_SCHEMA_PROPERTIES)
            return schema_fail(work->schema, STATUS_LIMIT, name, NULL,
                               "An object has more than %d members.", LIMIT_SCHEMA_PROPERTIES);
        member = &members->named[members->count++];
        *member = (struct schema_member_of){.name = name};
    }
    if (out != NULL)
        *out = member;
    return STATUS_OK;
}

static enum status add_names_of(struct work_out *work, uint32_t object)
{
    if (object == 0)
        return STATUS_OK;
    uint32_t name = object + 1;
    for (uint32_t i = 0; i < schema_value(work->schema, object)->count; i++) {
        TRY(add_name(work, name, NULL));
        name = schema_value(work->schema, schema_value(work->schema, name)->next)->next;
    }
    return STATUS_OK;
}

static uint32_t names_most(const struct work_out *work)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < work->cell_count; i++) {
        const struct schema_cell *cell = work->cells[i];
        uint32_t object = cell->a;
        if (cell->kind == SCHEMA_MEMBERS)
            object = schema_member(work->schema, cell->a, "properties");
        if (cell->kind == SCHEMA_MEMBERS || cell->kind == SCHEMA_MEMBERS_EQUAL)
            count += object != 0 ? schema_value(work->schema, object)->count : 0;
        else
            count++;
    }
    return count < LIMIT_SCHEMA_PROPERTIES ? count : LIMIT_SCHEMA_PROPERTIES;
}

/* The names of `properties` come first, in their order, and then those of other keywords. */
static enum status collect_names(struct work_out *work)
{
    struct schema *schema = work->schema;
    work->members->named =
        schema_take(schema, (names_most(work) + 1) * sizeof(*work->members->named));
    if (work->members->named == NULL)
        return schema_no_room(schema);
    for (uint32_t i = 0; i < work->cell_count; i++) {
        const struct schema_cell *cell = work->cells[i];
        if (cell->kind == SCHEMA_MEMBERS)
            TRY(add_names_of(work, schema_member(schema, cell->a, "properties")));
        if (cell->kind == SCHEMA_MEMBERS_EQUAL)
            TRY(add_names_of(work, cell->a));
    }
    for (uint32_t i = 0; i < work->cell_count; i++) {
        const struct schema_cell *cell = work->cells[i];
        struct schema_member_of *member;
        if (cell->kind != SCHEMA_REQUIRED && cell->kind != SCHEMA_FORBIDDEN &&
            cell->kind != SCHEMA_MEMBER)
            continue;
        TRY(add_name(work, cell->a, &member));
        member->is_required = member->is_required || cell->kind == SCHEMA_REQUIRED;
    }
    return STATUS_OK;
}

/* The characters that the claims of propertyNames allow; `extra` may be 0. */
static enum status names_of(struct work_out *work, schema_claim extra, regex_node_id *out)
{
    struct schema *schema = work->schema;
    const struct schema_cell *claims = NULL;
    for (uint32_t i = 0; i < work->cell_count; i++) {
        if (work->cells[i]->kind == SCHEMA_NAMES)
            TRY(schema_cell_push(schema, &claims, 0, work->cells[i]->b, 0));
    }
    if (extra != 0)
        TRY(schema_cell_push(schema, &claims, 0, extra, 0));
    *out = schema->text->any_characters;
    if (claims == NULL)
        return STATUS_OK;
    schema_set_id set;
    bool is_empty;
    TRY(set_of(schema, claims, &set));
    if (set == SCHEMA_SET_ANY)
        return STATUS_OK;
    TRY(schema->look(schema, set, 0, &is_empty));
    *out = REGEX_NONE;
    for (const struct schema_shape *at = schema->sets[set].shapes; at != NULL; at = at->next) {
        if ((at->types & SCHEMA_STRING) != 0)
            *out = regex_or(schema->regexes, *out, schema_string_characters(schema, at));
    }
    return STATUS_OK;
}

/* --- what a schema says of a name --- */

/* Returns what the schema says of names that neither properties nor patterns match, or 0. */
static uint32_t additional(const struct schema *schema, uint32_t group)
{
    uint32_t index = schema_member(schema, group, "additionalProperties");
    return index != 0 ? index : schema_member(schema, group, "unevaluatedProperties");
}

/* Adds the claims of one schema about the value of `name`. */
static enum status claims_of_group(struct work_out *work, uint32_t group, struct slice name,
                                   const struct schema_cell **claims)
{
    struct schema *schema = work->schema;
    bool is_matched = false;
    uint32_t properties = schema_member(schema, group, "properties");
    uint32_t own = properties != 0 ? schema_member_slice(schema, properties, name) : 0;
    if (own != 0) {
        is_matched = true;
        TRY(claim(schema, claims, SCHEMA_VALID, own));
    }
    uint32_t patterns = schema_member(schema, group, "patternProperties");
    uint32_t pattern = patterns + 1;
    for (uint32_t i = 0; patterns != 0 && i < schema_value(schema, patterns)->count; i++) {
        regex_node_id regex;
        uint32_t value = schema_value(schema, pattern)->next;
        TRY(schema_string_parse(schema, pattern, &regex));
        if (regex_matches(schema->regexes, regex, name)) {
            is_matched = true;
            TRY(claim(schema, claims, SCHEMA_VALID, value));
        }
        pattern = schema_value(schema, value)->next;
    }
    uint32_t others = additional(schema, group);
    if (!is_matched && others != 0)
        TRY(claim(schema, claims, SCHEMA_VALID, others));
    return STATUS_OK;
}

static enum status name_set(struct work_out *work, struct schema_member_of *member)
{
    struct schema *schema = work->schema;
    const struct schema_cell *claims = NULL;
    struct slice name = text_at(schema, member->name);
    bool is_forbidden = work->names != schema->text->any_characters &&
                        !regex_matches(schema->regexes, work->names, name);
    for (uint32_t i = 0; i < work->cell_count; i++) {
        const struct schema_cell *cell = work->cells[i];
        TRY(schema_spend(schema, 1));
        if (cell->kind == SCHEMA_MEMBERS) {
            TRY(schema_spend(schema, 4));
            TRY(claims_of_group(work, cell->a, name, &claims));
        } else if (cell->kind == SCHEMA_MEMBERS_EQUAL) {
            uint32_t value = schema_member_slice(schema, cell->a, name);
            is_forbidden = is_forbidden || value == 0;
            member->is_required = member->is_required || value != 0;
            if (value != 0)
                TRY(claim(schema, &claims, SCHEMA_EQUAL, value));
        } else if (cell->kind == SCHEMA_FORBIDDEN && slice_equals(text_at(schema, cell->a), name)) {
            is_forbidden = true;
        } else if (cell->kind == SCHEMA_MEMBER && slice_equals(text_at(schema, cell->a), name)) {
            TRY(schema_cell_push(schema, &claims, 0, cell->b, 0));
        }
    }
    if (is_forbidden) {
        member->set = SCHEMA_SET_NONE;
        return STATUS_OK;
    }
    return set_of(schema, claims, &member->set);
}

/* --- classes of names --- */

static enum status add_class(struct work_out *work, const struct class *class)
{
    TRY(schema_spend(work->schema, 8));
    if (schema_text_is_empty(work->schema, class->names))
        return STATUS_OK;
    if (work->class_count == LIMIT_SCHEMA_KEY_CLASSES)
        return schema_fail(work->schema, STATUS_LIMIT, work->groups[0], NULL,
                           "Patterns tell more than %d sorts of names apart.",
                           LIMIT_SCHEMA_KEY_CLASSES);
    work->classes[work->class_count++] = *class;
    return STATUS_OK;
}

/* Splits each class into names that match the pattern and names that do not. */
static enum status split_classes(struct work_out *work, uint32_t pattern)
{
    struct schema *schema = work->schema;
    regex_node_id regex;
    TRY(schema_string_parse(schema, pattern, &regex));
    uint32_t count = work->class_count;
    for (uint32_t i = 0; i < count; i++) {
        struct class matched = work->classes[i];
        matched.names = regex_and(schema->regexes, matched.names, regex);
        matched.is_matched = true;
        TRY(claim(schema, &matched.claims, SCHEMA_VALID, schema_value(schema, pattern)->next));
        regex_node_id others = regex_not(schema->regexes, regex);
        work->classes[i].names = regex_and(schema->regexes, work->classes[i].names, others);
        TRY(add_class(work, &matched));
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < work->class_count; i++) {
        if (i >= count || !schema_text_is_empty(schema, work->classes[i].names))
            work->classes[kept++] = work->classes[i];
    }
    work->class_count = kept;
    return schema_spend(schema, 8 * (count + 1));
}

static enum status classes_of_group(struct work_out *work, uint32_t group)
{
    struct schema *schema = work->schema;
    for (uint32_t i = 0; i < work->class_count; i++)
        work->classes[i].is_matched = false;
    uint32_t patterns = schema_member(schema, group, "patternProperties");
    uint32_t pattern = patterns + 1;
    for (uint32_t i = 0; patterns != 0 && i < schema_value(schema, patterns)->count; i++) {
        work->has_patterns = true;
        TRY(split_classes(work, pattern));
        pattern = schema_value(schema, schema_value(schema, pattern)->next)->next;
    }
    uint32_t others = additional(schema, group);
    if (others == 0)
        return STATUS_OK;
    work->is_open = true;
    for (uint32_t i = 0; i < work->class_count; i++) {
        struct class *class = &work->classes[i];
        if (class->is_matched)
            continue;
        TRY(claim(schema, &class->claims, SCHEMA_VALID, others));
        class->is_dropped = class->is_dropped || schema_kind(schema, others) == JSON_READ_FALSE;
    }
    return STATUS_OK;
}

/* The names that have no place of their own. */
static enum status other_names(struct work_out *work, regex_node_id *out)
{
    struct schema *schema = work->schema;
    struct schema_text_many texts;
    TRY(schema_text_many_begin(schema, work->members->count, &texts));
    for (uint32_t i = 0; i < work->members->count; i++) {
        struct slice name = text_at(schema, work->members->named[i].name);
        schema_text_many_add(&texts, regex_text(schema->regexes, name));
    }
    *out = work->names;
    if (texts.count > 0)
        *out = regex_and(schema->regexes, *out,
                         regex_not(schema->regexes, schema_text_many_or(schema, &texts)));
    return STATUS_OK;
}

/* Whether members that no schema speaks of are left out. A grammar may be narrower than its schema;
 * with `strict` it is here, where properties are named. */
static bool is_closed(const struct work_out *work)
{
    const struct constraint_options *options = work->schema->options;
    return (options->strict || options->disable_additional_properties) && !work->is_open &&
           (work->members->count > 0 || work->has_patterns);
}

static bool equals_a_value(const struct work_out *work)
{
    for (uint32_t i = 0; i < work->cell_count; i++) {
        if (work->cells[i]->kind == SCHEMA_MEMBERS_EQUAL)
            return true;
    }
    return false;
}

static enum status make_classes(struct work_out *work)
{
    struct schema *schema = work->schema;
    struct class all = {0};
    bool is_empty;
    if (equals_a_value(work))
        return STATUS_OK;
    TRY(other_names(work, &all.names));
    TRY(add_class(work, &all));
    for (uint32_t i = 0; i < work->group_count; i++)
        TRY(classes_of_group(work, work->groups[i]));
    struct schema_key_class *classes =
        schema_take(schema, (work->class_count + 1) * sizeof *classes);
    if (classes == NULL)
        return schema_no_room(schema);
    work->members->classes = classes;
    for (uint32_t i = 0; i < work->class_count; i++) {
        struct schema_key_class made = {.names = work->classes[i].names};
        if (work->classes[i].is_dropped || (work->classes[i].claims == NULL && is_closed(work)))
            continue;
        TRY(set_of(schema, work->classes[i].claims, &made.set));
        TRY(schema->look(schema, made.set, work->depth + 1, &is_empty));
        if (!is_empty)
            classes[work->members->class_count++] = made;
    }
    return STATUS_OK;
}

/* --- a member that must come --- */

/* The names of which some must break a claim. */
static enum status some_names(struct work_out *work, const struct schema_cell *cell,
                              regex_node_id *out)
{
    struct schema *schema = work->schema;
    if (cell->kind == SCHEMA_SOME_NAME)
        return names_of(work, cell->b, out);
    *out = work->names;
    if (cell->kind == SCHEMA_SOME_LIKE) {
        regex_node_id regex;
        TRY(schema_string_parse(schema, cell->a, &regex));
        *out = regex_and(schema->regexes, *out, regex);
        return STATUS_OK;
    }
    for (int i = 0; i < 2; i++) {
        uint32_t object =
            schema_member(schema, cell->a, i == 0 ? "properties" : "patternProperties");
        uint32_t name = object + 1;
        for (uint32_t j = 0; object != 0 && j < schema_value(schema, object)->count; j++) {
            regex_node_id regex = regex_text(schema->regexes, text_at(schema, name));
            if (i == 1)
                TRY(schema_string_parse(schema, name, &regex));
            *out = regex_and(schema->regexes, *out, regex_not(schema->regexes, regex));
            name = schema_value(schema, schema_value(schema, name)->next)->next;
        }
    }
    return STATUS_OK;
}

/* Makes `some` from the first class in which such a member can be. Members with a place of their
 * own could be it, too; this is narrower. */
static enum status make_some(struct work_out *work)
{
    struct schema *schema = work->schema;
    struct schema_members *members = work->members;
    const struct schema_cell *cell = NULL;
    for (uint32_t i = 0; i < work->cell_count; i++) {
        enum schema_object_cell kind = (enum schema_object_cell)work->cells[i]->kind;
        if (kind != SCHEMA_SOME_LIKE && kind != SCHEMA_SOME_OTHER && kind != SCHEMA_SOME_NAME)
            continue;
        if (cell != NULL) { /* two such members are not told apart */
            schema_narrow(schema, schema_claim_index(cell->b));
            work->shape->types &= (uint8_t)~SCHEMA_OBJECT;
            return STATUS_OK;
        }
        cell = work->cells[i];
    }
    if (cell == NULL)
        return STATUS_OK;
    regex_node_id names;
    TRY(some_names(work, cell, &names));
    for (uint32_t i = 0; i < members->class_count && !members->has_some; i++) {
        const struct schema_cell *claims = NULL;
        const struct schema_set *set = &schema->sets[members->classes[i].set];
        bool is_empty;
        for (uint32_t j = 0; j < set->count; j++)
            TRY(schema_cell_push(schema, &claims, 0, set->claims[j], 0));
        if (cell->kind != SCHEMA_SOME_NAME)
            TRY(schema_cell_push(schema, &claims, 0, cell->b, 0));
        members->some.names = regex_and(schema->regexes, members->classes[i].names, names);
        TRY(schema_spend(schema, 16));
        if (schema_text_is_empty(schema, members->some.names))
            continue;
        TRY(set_of(schema, claims, &members->some.set));
        TRY(schema->look(schema, members->some.set, work->depth + 1, &is_empty));
        members->has_some = !is_empty;
    }
    if (!members->has_some)
        work->shape->types &= (uint8_t)~SCHEMA_OBJECT;
    return STATUS_OK;
}

/* --- the whole --- */

/* Whether the counts can be met. An additional name may be repeated, so it counts once at most. */
static void check_counts(struct work_out *work)
{
    struct schema_members *members = work->members;
    uint32_t required = members->has_some;
    uint32_t possible = members->class_count > 0;
    for (uint32_t i = 0; i < members->count; i++) {
        required += members->named[i].is_required;
        possible += members->named[i].set != SCHEMA_SET_NONE;
    }
    if (required > members->max)
        work->shape->types &= (uint8_t)~SCHEMA_OBJECT;
    if (possible < members->min) {
        if (members->class_count > 0)
            schema_narrow(work->schema, work->group_count > 0 ? work->groups[0] : 0);
        work->shape->types &= (uint8_t)~SCHEMA_OBJECT;
    }
}

static enum status run(struct work_out *work)
{
    struct schema *schema = work->schema;
    struct schema_members *members = work->members;
    TRY(collect_cells(work));
    TRY(collect_names(work));
    TRY(names_of(work, 0, &work->names));
    for (uint32_t i = 0; i < members->count; i++) {
        struct schema_member_of *member = &members->named[i];
        bool is_empty;
        TRY(name_set(work, member));
        TRY(schema->look(schema, member->set, work->depth + 1, &is_empty));
        if (is_empty)
            member->set = SCHEMA_SET_NONE;
        if (is_empty && member->is_required) {
            work->shape->types &= (uint8_t)~SCHEMA_OBJECT;
            return STATUS_OK;
        }
    }
    TRY(make_classes(work));
    TRY(make_some(work));
    check_counts(work);
    return STATUS_OK;
}

enum status schema_members_work_out(struct schema *schema, struct schema_shape *shape,
                                    uint32_t depth)
{
    struct schema_members *members = schema_take(schema, sizeof *members);
    if (members == NULL)
        return schema_no_room(schema);
    *members = (struct schema_members){.min = shape->members_min, .max = shape->members_max};
    members->is_free =
        shape->object == NULL && shape->members_min == 0 && shape->members_max == UINT32_MAX;
    shape->members = members;
    struct work_out work = {.schema = schema, .shape = shape, .members = members, .depth = depth};
    return run(&work);
}
