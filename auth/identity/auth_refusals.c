#include "auth/identity/auth_refusals.h"

#include "config/base/status.h"

static const struct {
    const char *method;
    const char *word;
} words[AUTH_REFUSALS] = {
#define AUTH_JWT_REASON(name, word, text) {"token", word},
#include "auth/credential/auth_jwt_reasons.def"
#undef AUTH_JWT_REASON
#define AUTH_REFUSAL(name, method, word) {method, word},
#include "auth/identity/auth_refusals.def"
#undef AUTH_REFUSAL
};

const char *auth_refusals_method(enum auth_refusal refusal)
{
    ASSERT((unsigned)refusal < AUTH_REFUSALS);
    return words[refusal].method;
}

const char *auth_refusals_word(enum auth_refusal refusal)
{
    ASSERT((unsigned)refusal < AUTH_REFUSALS);
    return words[refusal].word;
}
