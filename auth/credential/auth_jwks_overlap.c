#include "auth/credential/auth_jwks_overlap.h"

#include <jansson.h>
#include <stdlib.h>

static json_t *keys_of(json_t *set)
{
    return json_object_get(set, "keys");
}

/* Removes certificates, which are long and not used, and an issuer's own AUTH_JWKS_UNTIL. */
static void strip(json_t *key)
{
    static const char *const members[] = {AUTH_JWKS_UNTIL, "x5c", "x5t", "x5t#S256", "x5u"};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        json_object_del(key, members[i]);
}

static bool has_kid(const json_t *keys, const char *kid)
{
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *its = json_string_value(json_object_get(json_array_get(keys, i), "kid"));
        if (its != NULL && strcmp(its, kid) == 0)
            return true;
    }
    return false;
}

/* Appends a key of the earlier set, unless the new set has its name or its end has come. */
static void keep(json_t *keys, json_t *key, int64_t now_s, int64_t overlap_s)
{
    const char *kid = json_string_value(json_object_get(key, "kid"));
    const json_t *ends = json_object_get(key, AUTH_JWKS_UNTIL);
    int64_t until_s = ends != NULL ? json_integer_value(ends) : now_s + overlap_s;
    if (kid == NULL || has_kid(keys, kid) || until_s <= now_s)
        return;
    json_object_set_new(key, AUTH_JWKS_UNTIL, json_integer(until_s));
    json_array_append(keys, key);
}

enum status auth_jwks_overlap(struct slice kept, struct slice fetched, int64_t now_s,
                              int64_t overlap_s, struct buffer *out)
{
    json_t *new = json_loadb(fetched.bytes, fetched.length, 0, NULL);
    json_t *old = kept.length > 0 ? json_loadb(kept.bytes, kept.length, 0, NULL) : NULL;
    for (size_t i = 0; i < json_array_size(keys_of(new)); i++)
        strip(json_array_get(keys_of(new), i));
    for (size_t i = 0; i < json_array_size(keys_of(old)); i++)
        keep(keys_of(new), json_array_get(keys_of(old), i), now_s, overlap_s);
    char *text = new != NULL ? json_dumps(new, JSON_COMPACT) : NULL;
    if (text != NULL)
        buffer_append_text(out, text);
    enum status status = text != NULL ? out->status : STATUS_NO_MEMORY;
    free(text);
    json_decref(old);
    json_decref(new);
    return status;
}
