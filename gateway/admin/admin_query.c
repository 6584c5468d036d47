#include "gateway/admin/admin_query.h"

#include <stdio.h>

#include "config/base/decimal.h"
#include "gateway/http/query_string.h"

static enum status read_limit(struct slice value, struct admin_query *out)
{
    uint64_t limit = 0;
    if (decimal_read(value, ADMIN_QUERY_LIMIT_MAX, &limit) == DECIMAL_MALFORMED && value.length > 0)
        FAIL_PARAM(STATUS_INVALID, "limit", "limit must be a whole number.");
    if (limit < 1) /* or too large, or empty, which leave it 0 */
        FAIL_PARAM(STATUS_OUT_OF_RANGE, "limit", "limit must be from 1 to %d.",
                   ADMIN_QUERY_LIMIT_MAX);
    out->limit = limit;
    return STATUS_OK;
}

/* Ids and types have letters, digits, underscores and dots, so nothing needs decoding. */
static enum status read_word(struct slice value, const char *name, char out[LIMIT_ID_BYTES])
{
    bool is_word = value.length < LIMIT_ID_BYTES;
    for (size_t i = 0; is_word && i < value.length; i++) {
        char c = value.bytes[i];
        is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '.';
    }
    if (!is_word)
        FAIL_PARAM(STATUS_INVALID, name, "%s must be an id, as lists show them.", name);
    if (value.length != 0)
        memcpy(out, value.bytes, value.length);
    out[value.length] = '\0';
    return STATUS_OK;
}

static enum status read_after(struct slice value, struct admin_query *out)
{
    return read_word(value, "after", out->after);
}

static enum status read_actor(struct slice value, struct admin_query *out)
{
    return read_word(value, "actor", out->actor);
}

static enum status read_subject(struct slice value, struct admin_query *out)
{
    return read_word(value, "subject", out->subject);
}

static enum status read_type(struct slice value, struct admin_query *out)
{
    return read_word(value, "type", out->type);
}

static enum status read_time(struct slice value, const char *name, int64_t *out)
{
    uint64_t number = 0;
    const enum decimal result = decimal_read(value, LIMIT_TIME_S, &number);
    if (result == DECIMAL_MALFORMED && value.length > 0)
        FAIL_PARAM(STATUS_INVALID, name, "%s must be Unix seconds.", name);
    if (result != DECIMAL_READ)
        FAIL_PARAM(STATUS_OUT_OF_RANGE, name, "%s must be Unix seconds.", name);
    *out = (int64_t)number;
    return STATUS_OK;
}

static enum status read_since(struct slice value, struct admin_query *out)
{
    return read_time(value, "since", &out->since_s);
}

static enum status read_until(struct slice value, struct admin_query *out)
{
    return read_time(value, "until", &out->until_s);
}

static enum status read_order(struct slice value, struct admin_query *out)
{
    out->is_descending = slice_is(value, "desc");
    if (!out->is_descending && !slice_is(value, "asc"))
        FAIL_PARAM(STATUS_INVALID, "order", "order must be asc or desc.");
    return STATUS_OK;
}

static enum status read_dry_run(struct slice value, struct admin_query *out)
{
    out->is_dry_run = slice_is(value, "true");
    if (!out->is_dry_run && !slice_is(value, "false"))
        FAIL_PARAM(STATUS_INVALID, "dry_run", "dry_run must be true or false.");
    return STATUS_OK;
}

static const struct {
    const char *name;
    unsigned kind;
    enum status (*read)(struct slice value, struct admin_query *out);
} names[] = {
    {"limit", ADMIN_QUERY_LIST, read_limit},  {"after", ADMIN_QUERY_LIST, read_after},
    {"order", ADMIN_QUERY_LIST, read_order},  {"dry_run", ADMIN_QUERY_CHANGE, read_dry_run},
    {"actor", ADMIN_QUERY_AUDIT, read_actor}, {"subject", ADMIN_QUERY_AUDIT, read_subject},
    {"type", ADMIN_QUERY_AUDIT, read_type},   {"since", ADMIN_QUERY_AUDIT, read_since},
    {"until", ADMIN_QUERY_AUDIT, read_until},
};

static enum status read_pair(struct slice name, struct slice value, unsigned kinds, unsigned *seen,
                             struct admin_query *out)
{
    char shown[64];
    int length = name.length < sizeof shown ? (int)name.length : (int)sizeof shown - 1;
    snprintf(shown, sizeof shown, "%.*s", length, name.bytes);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if ((names[i].kind & kinds) == 0 || !slice_is(name, names[i].name))
            continue;
        if ((*seen & 1u << i) != 0)
            FAIL_PARAM(STATUS_UNSUPPORTED, shown, "%s is given twice in the query.", shown);
        *seen |= 1u << i;
        return names[i].read(value, out);
    }
    FAIL_PARAM(STATUS_UNSUPPORTED, shown, "There is no parameter %s here.", shown);
}

enum status admin_query_read(struct slice query, unsigned kinds, struct admin_query *out)
{
    *out = (struct admin_query){.limit = ADMIN_QUERY_LIMIT_DEFAULT};
    unsigned seen = 0;
    struct query_string_pair pair;
    while (query_string_next(&query, &pair)) {
        if (!query_string_is_empty(&pair))
            TRY(read_pair(pair.name, pair.value, kinds, &seen, out));
    }
    return STATUS_OK;
}
