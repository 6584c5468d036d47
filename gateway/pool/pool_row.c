#include "gateway/pool/pool_row.h"

#include <stdio.h>
#include <string.h>

#include "config/base/slice.h"

enum { WEIGHT_MOST = 1000 };

static enum status read_text(struct slice value, const char *name, char *out, size_t capacity)
{
    if (value.length == 0 || value.length >= capacity)
        FAIL(STATUS_INVALID, "--upstream: %s is empty or too long", name);
    memcpy(out, value.bytes, value.length);
    out[value.length] = '\0';
    return STATUS_OK;
}

static enum status read_number(struct slice value, const char *name, uint32_t least, uint32_t most,
                               uint32_t *out)
{
    uint32_t number = 0;
    bool is_sound = value.length > 0 && value.length < 8;
    for (size_t i = 0; i < value.length && is_sound; i++) {
        is_sound = value.bytes[i] >= '0' && value.bytes[i] <= '9';
        number = number * 10 + (uint32_t)(value.bytes[i] - '0');
    }
    if (!is_sound || number < least || number > most)
        FAIL(STATUS_INVALID, "--upstream: %s must be a number from %u to %u", name, least, most);
    *out = number;
    return STATUS_OK;
}

static enum status read_member(struct pool_row *row, struct slice name, struct slice value)
{
    if (slice_is(name, "url"))
        return read_text(value, "url", row->url, sizeof row->url);
    if (slice_is(name, "model"))
        return read_text(value, "model", row->model, sizeof row->model);
    if (slice_is(name, "name"))
        return read_text(value, "name", row->name, sizeof row->name);
    if (slice_is(name, "kind"))
        return read_text(value, "kind", row->kind, sizeof row->kind);
    if (slice_is(name, "key_file"))
        return read_text(value, "key_file", row->key_file, sizeof row->key_file);
    if (slice_is(name, "requests"))
        return read_number(value, "requests", 1, LIMIT_UPSTREAM_REQUESTS, &row->requests);
    if (slice_is(name, "weight"))
        return read_number(value, "weight", 1, WEIGHT_MOST, &row->weight);
    FAIL(STATUS_INVALID,
         "--upstream: %.*s is not known: url, model, name, kind, key_file, requests, weight",
         (int)(name.length < 32 ? name.length : 32), name.bytes);
}

static enum status read_members(struct pool_row *row, struct slice text)
{
    while (text.length > 0) {
        const char *comma = memchr(text.bytes, ',', text.length);
        const size_t length = comma != NULL ? (size_t)(comma - text.bytes) : text.length;
        const char *equals = memchr(text.bytes, '=', length);
        if (equals == NULL)
            FAIL(STATUS_INVALID, "--upstream: an element is a URL, or url=…,model=…,…");
        const struct slice name = {text.bytes, (size_t)(equals - text.bytes)};
        TRY(read_member(row, name, (struct slice){equals + 1, length - name.length - 1}));
        const size_t taken = comma != NULL ? length + 1 : length;
        text = (struct slice){text.bytes + taken, text.length - taken};
    }
    return STATUS_OK;
}

static bool is_name(const char *name)
{
    for (; *name != '\0'; name++) {
        if (!((*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
              (*name >= '0' && *name <= '9') || strchr(".:_-[]", *name) != NULL))
            return false;
    }
    return true;
}

static enum status read_row(struct pool_row *row, struct slice text)
{
    if (slice_starts_with(text, SLICE("url=")) || memchr(text.bytes, ',', text.length) != NULL)
        TRY(read_members(row, text));
    else
        TRY(read_text(text, "url", row->url, sizeof row->url));
    if (row->url[0] == '\0')
        FAIL(STATUS_INVALID, "--upstream: an element has no url");
    const char *host = strstr(row->url, "://");
    host = host != NULL ? host + 3 : row->url;
    if (row->name[0] == '\0')
        snprintf(row->name, sizeof row->name, "%.*s", (int)strcspn(host, "/?"), host);
    if (!is_name(row->name))
        FAIL(STATUS_INVALID, "--upstream: a name has letters, digits and .:_- alone");
    return STATUS_OK;
}

enum status pool_rows_read(const char *list, const struct pool_row *defaults, struct pool_row *out,
                           uint32_t *count)
{
    *count = 0;
    while (*(list += strspn(list, " ")) != '\0') {
        const size_t length = strcspn(list, " ");
        if (*count == LIMIT_POOL_ENGINES)
            FAIL(STATUS_LIMIT, "--upstream: there can be %d engines at most", LIMIT_POOL_ENGINES);
        struct pool_row *row = &out[*count];
        *row = *defaults;
        TRY(read_row(row, (struct slice){list, length}));
        for (uint32_t i = 0; i < *count; i++) {
            if (strcmp(out[i].name, row->name) == 0 || strcmp(out[i].url, row->url) == 0)
                FAIL(STATUS_EXISTS, "--upstream: two engines have the name %s or its URL",
                     row->name);
        }
        ++*count;
        list += length;
    }
    return STATUS_OK;
}
