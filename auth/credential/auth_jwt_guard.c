#include "auth/credential/auth_jwt_guard.h"

#include <jansson.h>
#include <math.h>
#include <strings.h>

#include "config/base/json_scan.h"

static const struct {
    const char *word;
    const char *text;
} reasons[] = {
#define AUTH_JWT_REASON(name, word, text) {word, text},
#include "auth/credential/auth_jwt_reasons.def"
#undef AUTH_JWT_REASON
};

static const char *const algorithms[AUTH_JWT_ALGORITHMS] = {
    [AUTH_JWT_RS256] = "RS256", [AUTH_JWT_PS256] = "PS256", [AUTH_JWT_ES256] = "ES256",
    [AUTH_JWT_EDDSA] = "EdDSA", [AUTH_JWT_HS256] = "HS256",
};

/* The largest number of seconds that a double holds exactly; other software may have rounded a
 * larger one. */
static const json_int_t TIME_MOST_S = INT64_C(1) << 53;

const char *auth_jwt_guard_word(enum auth_jwt_reason reason)
{
    ASSERT((unsigned)reason < AUTH_JWT_REASONS);
    return reasons[reason].word;
}

const char *auth_jwt_guard_text(enum auth_jwt_reason reason)
{
    ASSERT((unsigned)reason < AUTH_JWT_REASONS);
    return reasons[reason].text;
}

const char *auth_jwt_guard_algorithm(enum auth_jwt_algorithm algorithm)
{
    ASSERT((unsigned)algorithm < AUTH_JWT_ALGORITHMS);
    return algorithms[algorithm];
}

bool auth_jwt_guard_find_algorithm(struct slice word, enum auth_jwt_algorithm *out)
{
    for (int i = 0; i < AUTH_JWT_ALGORITHMS; i++) {
        if (slice_is(word, algorithms[i])) {
            *out = (enum auth_jwt_algorithm)i;
            return true;
        }
    }
    return false;
}

static bool is_letter_or_digit(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool auth_jwt_guard_is_kid(struct slice kid)
{
    if (kid.length == 0 || kid.length > LIMIT_JWT_KID_BYTES)
        return false;
    for (size_t i = 0; i < kid.length; i++) {
        if (!is_letter_or_digit(kid.bytes[i]) &&
            (kid.bytes[i] == '\0' || strchr("._-+/=:", kid.bytes[i]) == NULL))
            return false;
    }
    return true;
}

/* --- base64url --- */

/* The value of a base64url character, 0 to 63; -1 for any other. */
static int decode_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool auth_jwt_guard_decode(struct slice text, void *out, size_t capacity, size_t *length)
{
    uint8_t *bytes = out;
    uint32_t bits = 0;
    unsigned have = 0;
    *length = 0;
    if (text.length % 4 == 1)
        return false;
    for (size_t i = 0; i < text.length; i++) {
        int digit = decode_digit(text.bytes[i]);
        if (digit < 0)
            return false;
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have < 8)
            continue;
        have -= 8;
        if (*length == capacity)
            return false;
        bytes[(*length)++] = (uint8_t)(bits >> have);
    }
    return (bits & ((1u << have) - 1)) == 0;
}

/* --- header and claims --- */

/* Parses a part of a token. NULL unless it is a JSON object within the bounds of json_scan, with no
 * name twice at any depth. */
static json_t *open_object(struct slice part)
{
    char text[LIMIT_JWT_BYTES];
    size_t length = 0;
    if (!auth_jwt_guard_decode(part, text, sizeof text, &length) ||
        json_scan((struct slice){text, length}, NULL, 0) != STATUS_OK)
        return NULL;
    return json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
}

static struct slice text_of(const json_t *value)
{
    if (!json_is_string(value))
        return (struct slice){NULL, 0};
    return (struct slice){json_string_value(value), json_string_length(value)};
}

static bool has_any(const json_t *object, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (json_object_get(object, names[i]) != NULL)
            return true;
    }
    return false;
}

/* Whether the typ is that of a plain token (RFC 7519) or of an OAuth access token (RFC 9068), with
 * or without "application/", in any case. Tokens of other types are for other uses (RFC 8725,
 * 3.11). */
static bool header_is_type(struct slice type)
{
    static const struct slice prefix = {"application/", 12};
    static const struct slice types[] = {{"JWT", 3}, {"at+jwt", 6}};
    if (type.length > prefix.length && strncasecmp(type.bytes, prefix.bytes, prefix.length) == 0)
        type = (struct slice){type.bytes + prefix.length, type.length - prefix.length};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (type.length == types[i].length &&
            strncasecmp(type.bytes, types[i].bytes, type.length) == 0)
            return true;
    }
    return false;
}

static enum auth_jwt_reason open_header(const json_t *header, struct auth_jwt *out)
{
    static const char *const keys[] = {"jku", "jwk", "x5u", "x5c"};
    static const char *const extensions[] = {"crit", "enc", "zip", "b64"};
    if (has_any(header, keys, sizeof keys / sizeof keys[0]))
        return AUTH_JWT_HEADER_KEY;
    if (has_any(header, extensions, sizeof extensions / sizeof extensions[0]))
        return AUTH_JWT_HEADER_CRIT;
    const json_t *type = json_object_get(header, "typ");
    if (type != NULL && !header_is_type(text_of(type)))
        return AUTH_JWT_TYPE;
    out->is_plain = type == NULL || slice_is(text_of(type), "JWT");
    if (!auth_jwt_guard_find_algorithm(text_of(json_object_get(header, "alg")), &out->algorithm))
        return AUTH_JWT_ALGORITHM;
    struct slice kid = text_of(json_object_get(header, "kid"));
    if (!auth_jwt_guard_is_kid(kid))
        return AUTH_JWT_KID;
    memcpy(out->kid, kid.bytes, kid.length);
    out->kid[kid.length] = '\0';
    return AUTH_JWT_NONE;
}

/* Splits a token into its three parts, none of which may be empty. */
static bool open_parts(struct slice token, struct slice parts[3])
{
    size_t count = 0;
    size_t start = 0;
    for (size_t i = 0; i <= token.length; i++) {
        if (i < token.length && token.bytes[i] != '.')
            continue;
        if (count == 3 || i == start)
            return false;
        parts[count++] = (struct slice){token.bytes + start, i - start};
        start = i + 1;
    }
    return count == 3;
}

enum auth_jwt_reason auth_jwt_guard_open(struct slice token, struct auth_jwt *out)
{
    struct slice parts[3];
    memset(out, 0, sizeof *out);
    if (token.length > LIMIT_JWT_BYTES)
        return AUTH_JWT_LENGTH;
    if (!open_parts(token, parts) ||
        !auth_jwt_guard_decode(parts[2], out->signature, sizeof out->signature,
                               &out->signature_bytes))
        return AUTH_JWT_FORM;
    for (size_t i = 0; i < 2; i++) { /* all parts must be base64url before one is parsed */
        char text[LIMIT_JWT_BYTES];
        size_t length;
        if (!auth_jwt_guard_decode(parts[i], text, sizeof text, &length))
            return AUTH_JWT_FORM;
    }
    json_t *header = open_object(parts[0]);
    if (header == NULL)
        return AUTH_JWT_HEADER;
    enum auth_jwt_reason reason = open_header(header, out);
    json_decref(header);
    if (reason != AUTH_JWT_NONE)
        return reason;
    out->token = token;
    out->signed_part = (struct slice){token.bytes, token.length - parts[2].length - 1};
    out->claims = (struct json_t *)open_object(parts[1]);
    return out->claims != NULL ? AUTH_JWT_NONE : AUTH_JWT_CLAIMS;
}

void auth_jwt_guard_close(struct auth_jwt *jwt)
{
    json_decref(jwt->claims);
    jwt->claims = NULL;
}

/* --- what claims say --- */

/* Reads a NumericDate (RFC 7519, section 2). One with a fraction is rounded so that the token's
 * life gets shorter. `*out` is -1 when the claim is missing. */
static bool claims_time(const struct auth_jwt *jwt, const char *name, bool is_end, json_int_t *out)
{
    const json_t *value = json_object_get(jwt->claims, name);
    *out = -1;
    if (value == NULL)
        return true;
    if (json_is_real(value)) {
        double seconds = json_real_value(value);
        if (!(seconds >= 0 && seconds <= (double)TIME_MOST_S))
            return false;
        *out = (json_int_t)(is_end ? floor(seconds) : ceil(seconds));
        return true;
    }
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= 0 && *out <= TIME_MOST_S;
}

static enum auth_jwt_reason claims_times(const struct auth_jwt *jwt, int64_t lifetime_s,
                                         int64_t now_s, int64_t *expires_s)
{
    json_int_t expires, begins, issued;
    if (!claims_time(jwt, "exp", true, &expires) || !claims_time(jwt, "nbf", false, &begins) ||
        !claims_time(jwt, "iat", false, &issued))
        return AUTH_JWT_TIME;
    if (expires < 0)
        return AUTH_JWT_EXP_MISSING;
    if (expires <= now_s)
        return AUTH_JWT_EXPIRED;
    if (begins > now_s + LIMIT_JWT_SKEW_S)
        return AUTH_JWT_NOT_YET;
    if (issued > now_s + LIMIT_JWT_SKEW_S)
        return AUTH_JWT_ISSUED_LATER;
    /* Without iat, the time that is left stands for the lifetime. */
    if (expires - (issued >= 0 ? issued : now_s) > lifetime_s)
        return AUTH_JWT_LIFETIME;
    *expires_s = expires;
    return AUTH_JWT_NONE;
}

static bool claims_is_audience(const struct auth_jwt_rules *rules, const json_t *value)
{
    struct slice text = text_of(value);
    for (size_t i = 0; i < rules->audience_count; i++) {
        if (text.bytes != NULL && slice_is(text, rules->audiences[i]))
            return true;
    }
    return false;
}

/* aud is a text or a list of texts; a list with anything else in it is refused. */
static bool claims_has_audience(const struct auth_jwt *jwt, const struct auth_jwt_rules *rules)
{
    const json_t *value = json_object_get(jwt->claims, "aud");
    if (!json_is_array(value))
        return claims_is_audience(rules, value);
    bool is_found = false;
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!json_is_string(json_array_get(value, i)))
            return false;
        is_found = is_found || claims_is_audience(rules, json_array_get(value, i));
    }
    return is_found;
}

enum auth_jwt_reason auth_jwt_guard_claims(const struct auth_jwt *jwt,
                                           const struct auth_jwt_rules *rules, int64_t now_s,
                                           int64_t *expires_s)
{
    enum auth_jwt_reason reason = claims_times(jwt, rules->lifetime_s, now_s, expires_s);
    if (reason != AUTH_JWT_NONE)
        return reason;
    return claims_has_audience(jwt, rules) ? AUTH_JWT_NONE : AUTH_JWT_AUDIENCE;
}

struct slice auth_jwt_guard_claim(const struct auth_jwt *jwt, const char *name)
{
    return text_of(json_object_get(jwt->claims, name));
}

static void words_split(struct slice text, void *context, void (*take)(void *, struct slice))
{
    size_t start = 0;
    for (size_t i = 0; i <= text.length; i++) {
        if (i < text.length && text.bytes[i] != ' ')
            continue;
        if (i > start)
            take(context, (struct slice){text.bytes + start, i - start});
        start = i + 1;
    }
}

bool auth_jwt_guard_words(const struct auth_jwt *jwt, const char *name, void *context,
                          void (*take)(void *, struct slice))
{
    const json_t *value = json_object_get(jwt->claims, name);
    if (value == NULL)
        return true;
    if (json_is_string(value)) {
        words_split(text_of(value), context, take);
        return true;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (!json_is_string(json_array_get(value, i)))
            return false;
    }
    for (size_t i = 0; i < json_array_size(value); i++)
        take(context, text_of(json_array_get(value, i)));
    return json_is_array(value);
}
