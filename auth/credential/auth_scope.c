#include "auth/credential/auth_scope.h"

static const struct {
    const char *word;
    uint32_t scope;
} scope_words[] = {
    {"admin:read", AUTH_SCOPE_ADMIN_READ},     {"admin:write", AUTH_SCOPE_ADMIN_WRITE},
    {"admin:keys", AUTH_SCOPE_ADMIN_KEYS},     {"usage:read", AUTH_SCOPE_USAGE_READ},
    {"metrics:read", AUTH_SCOPE_METRICS_READ}, {"inference", AUTH_SCOPE_INFERENCE},
    {"priority", AUTH_SCOPE_PRIORITY},
};

uint32_t auth_scope_find(struct slice word)
{
    for (size_t i = 0; i < sizeof scope_words / sizeof scope_words[0]; i++) {
        if (slice_is(word, scope_words[i].word))
            return scope_words[i].scope;
    }
    return 0;
}

void auth_scopes_append(uint32_t scopes, struct buffer *out)
{
    bool is_first = true;
    buffer_append_char(out, '[');
    for (size_t i = 0; i < sizeof scope_words / sizeof scope_words[0]; i++) {
        if ((scopes & scope_words[i].scope) == 0)
            continue;
        buffer_printf(out, "%s\"%s\"", is_first ? "" : ",", scope_words[i].word);
        is_first = false;
    }
    buffer_append_char(out, ']');
}

const char *auth_scope_word(uint32_t scope)
{
    for (size_t i = 0; i < sizeof scope_words / sizeof scope_words[0]; i++) {
        if (scope_words[i].scope == scope)
            return scope_words[i].word;
    }
    ASSERT(false);
    return "";
}

void auth_scopes_append_words(uint32_t scopes, struct buffer *out)
{
    bool is_first = true;
    for (size_t i = 0; i < sizeof scope_words / sizeof scope_words[0]; i++) {
        if ((scopes & scope_words[i].scope) == 0)
            continue;
        buffer_printf(out, "%s%s", is_first ? "" : " ", scope_words[i].word);
        is_first = false;
    }
}
