#include "gateway/admin/admin_change.h"

#include <stdio.h>

#include "auth/tenants/tenant_answer.h"
#include "gateway/admin/admin_query.h"

/* --- entity tags --- */

enum { TAG_ANY = -1, TAG_OF_NONE = -2 };

/* Takes one tag and the comma after it off `*list`: W/"3", "3" or *. `*revision` is TAG_ANY for the
 * star, and TAG_OF_NONE for a tag that is no revision. A weak tag counts only when `takes_weak`:
 * RFC 9110, section 8.8.3.2, makes If-Match compare strongly. False when the list is malformed. */
static bool tags_next(struct slice *list, bool takes_weak, int64_t *revision)
{
    const char *at = list->bytes;
    const char *end = at + list->length;
    *revision = TAG_OF_NONE;
    while (at < end && (*at == ' ' || *at == '\t' || *at == ','))
        at++;
    bool is_weak = end - at > 2 && at[0] == 'W' && at[1] == '/';
    at += is_weak ? 2 : 0;
    if (at < end && *at == '*') {
        *revision = TAG_ANY;
        at++;
    } else if (at < end && *at == '"') {
        const char *close = memchr(at + 1, '"', (size_t)(end - at - 1));
        if (close == NULL)
            return false;
        int64_t number = 0;
        bool is_number = close - at - 1 >= 1 && close - at - 1 <= 18 && at[1] != '0';
        for (const char *c = at + 1; is_number && c < close; c++) {
            is_number = *c >= '0' && *c <= '9';
            number = number * 10 + (*c - '0');
        }
        *revision = is_number && (!is_weak || takes_weak) ? number : TAG_OF_NONE;
        at = close + 1;
    } else {
        return false;
    }
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at < end && *at != ',')
        return false;
    *list = (struct slice){at, (size_t)(end - at)};
    return true;
}

static enum status begin_match(struct slice list, struct tenant_change *out)
{
    bool is_any = false;
    if (list.bytes == NULL)
        return STATUS_OK;
    do {
        int64_t revision;
        if (!tags_next(&list, false, &revision) || out->revision_count == LIMIT_REVISIONS)
            FAIL_PARAM(STATUS_INVALID, "if-match",
                       "If-Match must be the ETag of an answer, such as \"3\".");
        is_any = is_any || revision == TAG_ANY;
        out->revisions[out->revision_count++] = revision;
    } while (list.length > 0);
    if (is_any)
        out->revision_count = 0;
    return STATUS_OK;
}

bool admin_change_is_known(struct admin_call *call, int64_t revision)
{
    struct slice list = call->if_none_match;
    int64_t tag;
    call->revision = revision;
    while (list.length > 0 && tags_next(&list, true, &tag)) {
        if (tag == revision || tag == TAG_ANY) {
            call->code = 304;
            return true;
        }
    }
    return false;
}

/* --- idempotency keys --- */

static enum status check_headers_key(const struct http_request *request)
{
    static const char name[] = "idempotency-key";
    struct slice key = http_header_get(request, name);
    if (http_header_count(request, name) == 0)
        return STATUS_OK;
    bool is_right = http_header_count(request, name) == 1 && key.length >= 1 &&
                    key.length <= LIMIT_IDEMPOTENCY_KEY_BYTES;
    for (size_t i = 0; is_right && i < key.length; i++)
        is_right = key.bytes[i] > ' ' && key.bytes[i] <= '~';
    if (!is_right)
        FAIL_PARAM(STATUS_INVALID, name,
                   "Idempotency-Key must be 1 to %d visible ASCII characters.",
                   LIMIT_IDEMPOTENCY_KEY_BYTES);
    return STATUS_OK;
}

enum status admin_change_check_headers(const struct http_request *request)
{
    static const char *const names[] = {"if-match", "if-none-match"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (http_header_count(request, names[i]) > 1)
            FAIL_PARAM(STATUS_INVALID, names[i], "Send the header %s once.", names[i]);
    }
    return check_headers_key(request);
}

bool admin_change_wants_kept(const struct admin_call *call)
{
    struct admin_query query;
    return slice_is(call->method, "POST") && call->idempotency_key.bytes != NULL &&
           admin_query_read(call->query, ADMIN_QUERY_CHANGE, &query) == STATUS_OK &&
           !query.is_dry_run;
}

static enum status replay_request(struct admin_call *call)
{
    struct tenant_request *out = &call->kept;
    ASSERT(call->idempotency_key.length < sizeof out->name);
    *out = (struct tenant_request){0};
    memcpy(out->actor_key_id, call->principal.key_id, sizeof out->actor_key_id);
    memcpy(out->name, call->idempotency_key.bytes, call->idempotency_key.length);
    /* All admins of one issuer or certificate row have the same actor id, but their own subject and
     * scopes. An answer, which may have a new key, is replayed only to the same subject with the
     * same scopes. */
    char who[LIMIT_SUBJECT_BYTES + 16] = "";
    if (call->principal.proof != 0)
        snprintf(who, sizeof who, "%x %s", call->principal.scopes, call->principal.subject);
    TRY(tenants_answer_print(auth_tenants(call->admin->auth), call->method, call->path,
                             slice_of(who), call->body, out->print));
    return STATUS_OK;
}

enum status admin_change_replay(struct admin_call *call)
{
    struct tenant_answer answer = {.body = call->out};
    TRY(replay_request(call));
    enum status status = tenants_answer_find(auth_tenants(call->admin->auth), &call->kept, &answer);
    call->out = answer.body;
    TRY(status);
    call->code = answer.code;
    call->revision = answer.revision;
    call->is_replayed = true;
    return STATUS_OK;
}

/* --- a change --- */

enum status admin_change_begin(struct admin_call *call, struct tenant_change *out)
{
    struct admin_query query;
    bool is_post = slice_is(call->method, "POST");
    TRY(admin_query_read(call->query, ADMIN_QUERY_CHANGE, &query));
    *out = (struct tenant_change){.actor = &call->actor, .is_dry_run = query.is_dry_run};
    TRY(begin_match(call->if_match, out));
    if (is_post && !query.is_dry_run)
        call->code = 201;
    out->answer_code = call->code;
    out->request = call->is_kept ? &call->kept : NULL;
    return STATUS_OK;
}

enum status admin_change_check_revision(const struct tenant_change *change, int64_t revision)
{
    bool is_wanted = change->revision_count == 0;
    for (size_t i = 0; i < change->revision_count; i++)
        is_wanted = is_wanted || change->revisions[i] == revision;
    if (!is_wanted)
        FAIL_PARAM(STATUS_CHANGED, "if-match",
                   "The revision is %lld now: read the object again, then repeat the change.",
                   (long long)revision);
    return STATUS_OK;
}

enum status admin_change_end(struct admin_call *call, const struct tenant_change *change,
                             int64_t revision)
{
    buffer_append_text(&call->out, change->is_dry_run ? ",\"dry_run\":true}" : "}");
    if (!change->is_dry_run)
        call->revision = revision;
    if (call->out.status != STATUS_OK)
        FAIL(call->out.status, "no memory for an answer");
    return STATUS_OK;
}
