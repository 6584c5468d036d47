#include "engine/schema/schema_ref.h"

#include "config/base/decimal.h"
#include "config/base/hex.h"
#include "config/base/limits_schema.h"
#include "config/base/mem.h"

/* A resource with its URI, or an anchor with URI, "#" and name. */
struct schema_ref {
    struct slice uri;
    uint32_t index;
    bool is_anchor;
};

struct parts {
    struct slice uri; /* without fragment */
    struct slice fragment;
    bool has_fragment;
};

static struct slice cut(struct slice text, size_t from, size_t to)
{
    return (struct slice){text.bytes + from, to - from};
}

static size_t find_char(struct slice text, size_t from, const char *any)
{
    for (size_t i = from; i < text.length; i++) {
        if (strchr(any, text.bytes[i]) != NULL && text.bytes[i] != '\0')
            return i;
    }
    return text.length;
}

static struct parts split_uri(struct slice text)
{
    size_t at = find_char(text, 0, "#");
    if (at == text.length)
        return (struct parts){.uri = text};
    return (struct parts){cut(text, 0, at), cut(text, at + 1, text.length), true};
}

static enum status join(struct schema *schema, struct slice a, struct slice b, struct slice *out)
{
    char *bytes = schema_take(schema, a.length + b.length + 1);
    if (bytes == NULL)
        return schema_no_room(schema);
    if (a.length > 0)
        memcpy(bytes, a.bytes, a.length);
    if (b.length > 0)
        memcpy(bytes + a.length, b.bytes, b.length);
    *out = (struct slice){bytes, a.length + b.length};
    return schema_spend(schema, 1 + (uint32_t)((a.length + b.length) / 64));
}

static bool has_scheme(struct slice uri)
{
    size_t at = find_char(uri, 0, ":/?#");
    return at > 0 && at < uri.length && uri.bytes[at] == ':';
}

/* Where the path of a URI begins. */
static size_t path_start(struct slice uri)
{
    size_t at = has_scheme(uri) ? find_char(uri, 0, ":") + 1 : 0;
    if (at + 1 < uri.length && uri.bytes[at] == '/' && uri.bytes[at + 1] == '/')
        at = find_char(uri, at + 2, "/?");
    return at;
}

/* Takes "./" and "x/../" out of a path, in place. */
static void remove_dots(struct slice *uri)
{
    char *bytes = (char *)(uintptr_t)uri->bytes;
    size_t start = path_start(*uri);
    size_t written = start;
    for (size_t i = start; i < uri->length;) {
        size_t end = i + 1;
        while (end < uri->length && bytes[end] != '/')
            end++;
        struct slice segment = cut(*uri, i + (bytes[i] == '/'), end);
        if (slice_is(segment, "..")) {
            while (written > start && bytes[--written] != '/')
                ;
        } else if (!slice_is(segment, ".")) {
            memmove(bytes + written, bytes + i, end - i);
            written += end - i;
        }
        i = end;
    }
    uri->length = written;
}

/* Resolves `text`, which has no fragment, against `base`. */
static enum status resolve(struct schema *schema, struct slice base, struct slice text,
                           struct slice *out)
{
    if (text.length == 0 || has_scheme(text)) {
        *out = text.length == 0 ? base : text;
        return STATUS_OK;
    }
    size_t path = path_start(base);
    size_t keep = path;
    if (text.length > 1 && text.bytes[0] == '/' && text.bytes[1] == '/')
        keep = has_scheme(base) ? find_char(base, 0, ":") + 1 : 0;
    else if (text.bytes[0] != '/')
        for (size_t i = path; i < base.length && base.bytes[i] != '?'; i++)
            keep = base.bytes[i] == '/' ? i + 1 : keep;
    TRY(join(schema, cut(base, 0, keep), text, out));
    remove_dots(out);
    return STATUS_OK;
}

/* --- names --- */

static enum status add_ref(struct schema *schema, struct slice uri, uint32_t index, bool is_anchor)
{
    if ((schema->ref_count & (schema->ref_count - 1)) == 0) { /* the room is a power of two */
        size_t room = schema->ref_count == 0 ? 1 : (size_t)schema->ref_count * 2;
        struct schema_ref *refs = schema_take(schema, room * sizeof *refs);
        if (refs == NULL)
            return schema_no_room(schema);
        if (schema->ref_count > 0)
            memcpy(refs, schema->refs, schema->ref_count * sizeof *refs);
        schema->refs = refs;
    }
    schema->refs[schema->ref_count++] = (struct schema_ref){uri, index, is_anchor};
    return STATUS_OK;
}

static enum status add_anchor(struct schema *schema, struct slice base, struct slice name,
                              uint32_t index)
{
    struct slice uri;
    TRY(join(schema, base, SLICE("#"), &uri));
    TRY(join(schema, uri, name, &uri));
    return add_ref(schema, uri, index, true);
}

/* The names of one object. `*base` becomes its own URI if it has one. */
static enum status add_names(struct schema *schema, uint32_t object, struct slice *base)
{
    static const char *const ids[] = {"$id", "id"};
    static const char *const anchors[] = {"$anchor", "$dynamicAnchor"};
    for (size_t i = 0; i < 2; i++) {
        uint32_t id = schema_member(schema, object, ids[i]);
        if (id == 0 || schema_kind(schema, id) != JSON_READ_STRING)
            continue;
        struct parts parts = split_uri(json_read_text(schema_value(schema, id)));
        if (parts.uri.length > 0) {
            TRY(resolve(schema, *base, parts.uri, base));
            TRY(add_ref(schema, *base, object, false));
        }
        if (parts.fragment.length > 0) /* before 2019-09 */
            TRY(add_anchor(schema, *base, parts.fragment, object));
        break;
    }
    for (size_t i = 0; i < 2; i++) {
        uint32_t anchor = schema_member(schema, object, anchors[i]);
        if (anchor != 0 && schema_kind(schema, anchor) == JSON_READ_STRING)
            TRY(add_anchor(schema, *base, json_read_text(schema_value(schema, anchor)), object));
    }
    return STATUS_OK;
}

/* What stands at a place of the text. */
enum role {
    ROLE_NONE, /* no schema, and nothing in it is one: the value of an enum, for example */
    ROLE_SCHEMA,
    ROLE_SCHEMAS /* an array or an object of schemas */
};

static bool is_one_of(struct slice name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_is(name, names[i]))
            return true;
    }
    return false;
}

/* What the member `name` of a schema holds. */
static enum role role_of(struct slice name, bool is_array)
{
    static const char *const maps[] = {"properties",  "patternProperties", "$defs",
                                       "definitions", "dependentSchemas",  "dependencies"};
    static const char *const lists[] = {"allOf", "anyOf", "oneOf", "prefixItems", "items"};
    static const char *const schemas[] = {"items",
                                          "additionalItems",
                                          "additionalProperties",
                                          "unevaluatedItems",
                                          "unevaluatedProperties",
                                          "contains",
                                          "not",
                                          "if",
                                          "then",
                                          "else",
                                          "propertyNames"};
    if (is_array)
        return is_one_of(name, lists, sizeof lists / sizeof lists[0]) ? ROLE_SCHEMAS : ROLE_NONE;
    if (is_one_of(name, maps, sizeof maps / sizeof maps[0]))
        return ROLE_SCHEMAS;
    return is_one_of(name, schemas, sizeof schemas / sizeof schemas[0]) ? ROLE_SCHEMA : ROLE_NONE;
}

/* An array or object around the value that is looked at. */
struct place {
    uint32_t end; /* behind it */
    enum role role;
    bool is_object;
    bool is_named; /* the next value is that of a member, whose name is at `name` */
    uint32_t name;
    struct slice base;
};

/* Looks at one array or object, and says what it is in `inner`. */
static enum status enter(struct schema *schema, const struct place *outer, uint32_t index,
                         struct place *inner)
{
    bool is_object = schema_kind(schema, index) == JSON_READ_OBJECT;
    *inner = (struct place){.end = schema_value(schema, index)->next,
                            .role = outer->role == ROLE_SCHEMAS ? ROLE_SCHEMA : ROLE_NONE,
                            .is_object = is_object,
                            .base = outer->base};
    if (outer->role == ROLE_SCHEMA)
        inner->role = role_of(json_read_text(schema_value(schema, outer->name)), !is_object);
    if (inner->role == ROLE_SCHEMA && is_object)
        return add_names(schema, index, &inner->base);
    return STATUS_OK;
}

enum status schema_ref_begin(struct schema *schema)
{
    struct place open[LIMIT_SCHEMA_DEPTH + 1];
    uint32_t depth = 0;
    open[0] = (struct place){.end = schema->json.count, .role = ROLE_SCHEMAS, .base = SLICE("")};
    TRY(add_ref(schema, open[0].base, 0, false));
    for (uint32_t i = 0; i < schema->json.count; i++) {
        while (i >= open[depth].end)
            depth--;
        TRY(schema_spend(schema, 1));
        struct place *outer = &open[depth];
        if (outer->is_object && !outer->is_named) {
            outer->is_named = true;
            outer->name = i;
            continue;
        }
        outer->is_named = false;
        if (schema_kind(schema, i) < JSON_READ_ARRAY)
            continue;
        ASSERT(depth < LIMIT_SCHEMA_DEPTH);
        TRY(enter(schema, outer, i, &open[depth + 1]));
        depth++;
    }
    return STATUS_OK;
}

/* The resource around a value: the last one that began before it and is not over. */
static const struct schema_ref *resource_of(const struct schema *schema, uint32_t index)
{
    const struct schema_ref *found = &schema->refs[0];
    for (uint32_t i = 0; i < schema->ref_count; i++) {
        const struct schema_ref *ref = &schema->refs[i];
        if (!ref->is_anchor && ref->index <= index &&
            schema_value(schema, ref->index)->next > index)
            found = ref;
    }
    return found;
}

static const struct schema_ref *find_ref(const struct schema *schema, struct slice uri,
                                         bool is_anchor)
{
    for (uint32_t i = 0; i < schema->ref_count; i++) {
        if (schema->refs[i].is_anchor == is_anchor && slice_equals(schema->refs[i].uri, uri))
            return &schema->refs[i];
    }
    return NULL;
}

/* --- pointers --- */

/* Undoes %41, ~0 and ~1 of one part of a pointer, in place. */
static struct slice unescape(char *bytes, size_t length)
{
    size_t written = 0;
    for (size_t i = 0; i < length; i++) {
        int high = i + 2 < length && bytes[i] == '%' ? hex_digit(bytes[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(bytes[i + 2]) : -1;
        if (low >= 0) {
            bytes[i + 2] = (char)(high * 16 + low);
            i += 2;
        }
        bytes[written++] = bytes[i];
    }
    length = written;
    written = 0;
    for (size_t i = 0; i < length; i++) {
        bool is_escape = bytes[i] == '~' && i + 1 < length;
        if (is_escape)
            i++;
        bytes[written++] = (char)(!is_escape ? bytes[i] : bytes[i] == '1' ? '/' : '~');
    }
    return (struct slice){bytes, written};
}

/* Returns the index of the part of a value, or 0. */
static uint32_t step(const struct schema *schema, uint32_t at, struct slice part)
{
    if (schema_kind(schema, at) == JSON_READ_OBJECT)
        return schema_member_slice(schema, at, part);
    uint64_t number;
    if (schema_kind(schema, at) != JSON_READ_ARRAY ||
        decimal_read(part, UINT32_MAX, &number) != DECIMAL_READ ||
        number >= schema_value(schema, at)->count)
        return 0;
    at++;
    for (; number > 0; number--)
        at = schema_value(schema, at)->next;
    return at;
}

/* Follows a pointer; `*at` becomes 0 where it leads nowhere, but for the whole text. */
static enum status follow(struct schema *schema, struct slice pointer, uint32_t *at, bool *found)
{
    *found = true;
    for (size_t i = 0; i < pointer.length && *found;) {
        size_t end = find_char(pointer, i + 1, "/");
        struct slice part;
        TRY(join(schema, cut(pointer, i + 1, end), SLICE(""), &part));
        uint32_t next = step(schema, *at, unescape((char *)(uintptr_t)part.bytes, part.length));
        *found = next != 0;
        *at = next;
        i = end;
    }
    return STATUS_OK;
}

/* Before draft 2019-09, what stands beside `$ref` has no effect. */
static bool is_new_draft(const struct schema *schema)
{
    uint32_t index = schema_member(schema, 0, "$schema");
    if (index == 0 || schema_kind(schema, index) != JSON_READ_STRING)
        return false;
    struct slice text = json_read_text(schema_value(schema, index));
    return memmem(text.bytes, text.length, "2019-09", 7) != NULL ||
           memmem(text.bytes, text.length, "2020-12", 7) != NULL;
}

enum status schema_ref_find(struct schema *schema, uint32_t object, uint32_t value, uint32_t *out)
{
    if (schema_kind(schema, value) != JSON_READ_STRING)
        return schema_fail(schema, STATUS_INVALID, value, NULL, "A reference is a text.");
    if (object != 0 && schema_member(schema, object, "$id") != 0 && !is_new_draft(schema))
        return schema_fail(schema, STATUS_UNSUPPORTED, value, NULL,
                           "What $id beside $ref means depends on the draft, which $schema must "
                           "name.");
    struct parts parts = split_uri(json_read_text(schema_value(schema, value)));
    struct slice uri;
    TRY(resolve(schema, resource_of(schema, value)->uri, parts.uri, &uri));
    const struct schema_ref *resource = find_ref(schema, uri, false);
    if (resource == NULL)
        return schema_fail(schema, STATUS_UNSUPPORTED, value, NULL,
                           "A reference must stay within the schema.");
    bool found = true;
    *out = resource->index;
    if (parts.fragment.length > 0 && parts.fragment.bytes[0] == '/') {
        TRY(follow(schema, parts.fragment, out, &found));
    } else if (parts.fragment.length > 0) {
        TRY(join(schema, uri, SLICE("#"), &uri));
        TRY(join(schema, uri, parts.fragment, &uri));
        const struct schema_ref *anchor = find_ref(schema, uri, true);
        found = anchor != NULL;
        *out = found ? anchor->index : 0;
    }
    if (!found)
        return schema_fail(schema, STATUS_INVALID, value, NULL, "The reference leads nowhere.");
    return schema_spend(schema, 4 + schema->ref_count / 8);
}
