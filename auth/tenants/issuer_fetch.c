#include "auth/tenants/issuer_fetch.h"

#include <stdio.h>

#include "auth/credential/auth_jwks_overlap.h"
#include "auth/tenants/issuer.h"
#include "auth/tenants/issuer_records.h"
#include "auth/tenants/issuer_rows.h"
#include "config/base/log.h"

bool issuer_fetch_next(struct issuers *issuers, struct issuer_fetch *out)
{
    struct issuer_record *first = NULL;
    int64_t now_s = tenant_directory_now_s(issuers->tenants);
    pthread_mutex_lock(&issuers->lock);
    for (struct issuer_record *at = issuers->first; at != NULL; at = at->next) {
        bool is_due = at->issuer.jwks_url[0] != '\0' && !at->is_fetched &&
                      (at->is_wanted || at->due_s <= now_s);
        if (is_due && (first == NULL || (at->is_wanted && !first->is_wanted)))
            first = at;
    }
    if (first != NULL) {
        first->is_fetched = true;
        memcpy(out->id, first->issuer.id, sizeof out->id);
        memcpy(out->url, first->issuer.jwks_url, sizeof out->url);
    }
    pthread_mutex_unlock(&issuers->lock);
    return first != NULL;
}

static enum status done_save(struct issuers *issuers, const struct issuer_record *record)
{
    struct sqlite3 *connection;
    struct buffer sealed;
    buffer_init(&sealed, LIMIT_JWKS_BYTES + AUTH_CRYPTO_SEAL_BYTES);
    enum status status = auth_crypto_seal(issuers->seal, slice_of(record->issuer.id),
                                          slice_of(record->json), &sealed);
    if (status == STATUS_OK)
        status = store_begin(issuers->tenants->store, &connection);
    if (status == STATUS_OK) {
        status = issuer_rows_update_keys(connection, record->issuer.id, buffer_slice(&sealed));
        enum status ended = store_end(issuers->tenants->store, status == STATUS_OK);
        status = status != STATUS_OK ? status : ended;
    }
    buffer_deinit(&sealed);
    return status;
}

/* Makes a record of the fetched keys and of the old keys that stay for a while. When both together
 * are too large, the record has the fetched keys only. */
static enum status done_make(struct issuers *issuers, const struct issuer_record *old,
                             struct slice json, struct issuer_record **out)
{
    struct auth_jwks *jwks;
    struct buffer merged;
    int64_t now_s = tenant_directory_now_s(issuers->tenants);
    TRY(auth_jwks_read(json, old->issuer.algorithms, &jwks));
    auth_jwks_free(jwks);
    buffer_init(&merged, 2 * LIMIT_JWKS_BYTES);
    struct slice kept = old->json != NULL ? slice_of(old->json) : (struct slice){0};
    enum status status = auth_jwks_overlap(kept, json, now_s, old->issuer.jwks_overlap_s, &merged);
    if (status == STATUS_OK)
        status = issuer_records_make(issuers, &old->issuer, buffer_slice(&merged), out);
    if (status != STATUS_OK) {
        buffer_clear(&merged);
        status = auth_jwks_overlap((struct slice){0}, json, now_s, 0, &merged);
        if (status == STATUS_OK)
            status = issuer_records_make(issuers, &old->issuer, buffer_slice(&merged), out);
    }
    buffer_deinit(&merged);
    return status;
}

/* Sets when the URL is fetched again, and keeps and logs the failure of this fetch. */
static void done_note(struct issuers *issuers, struct issuer_record *record, const char *error)
{
    int64_t now_s = tenant_directory_now_s(issuers->tenants);
    struct issuer *issuer = &record->issuer;
    int64_t again_s = issuer->jwks_refresh_s;
    if (error != NULL && again_s > LIMIT_JWKS_AGAIN_S)
        again_s = LIMIT_JWKS_AGAIN_S;
    pthread_mutex_lock(&issuers->lock);
    bool is_news = error != NULL && strcmp(issuer->jwks_error, error) != 0;
    record->is_fetched = false;
    record->is_wanted = false;
    record->due_s = now_s + again_s;
    snprintf(issuer->jwks_error, sizeof issuer->jwks_error, "%s", error != NULL ? error : "");
    if (error == NULL)
        issuer->jwks_fetched_at_s = now_s;
    pthread_mutex_unlock(&issuers->lock);
    if (is_news)
        LOG(LOG_WARN, "issuer_keys_unread", LOG_TEXT("issuer", issuer->id),
            LOG_TEXT("error", error));
}

/* The caller holds `change`. */
static bool done_locked(struct issuers *issuers, struct issuer_record *record, struct slice json,
                        const char *error)
{
    struct issuer_record *new = NULL;
    char text[STATUS_MESSAGE_BYTES];
    if (error == NULL && done_make(issuers, record, json, &new) != STATUS_OK) {
        snprintf(text, sizeof text, "%s", status_note()->message);
        error = text;
    }
    if (new != NULL && record->json != NULL &&strcmp(new->json, record->json) == 0) {
        issuer_record_drop(new);
        new = NULL;
    }
    if (new == NULL) {
        done_note(issuers, record, error);
        return error == NULL;
    }
    if (done_save(issuers, new) != STATUS_OK) /* the keys are used in spite of that */
        log_failure(LOG_WARN, "issuer_keys_unsaved");
    LOG(LOG_INFO, "issuer_keys_read", LOG_TEXT("issuer", record->issuer.id),
        LOG_NUMBER("keys", new->jwks->count));
    new->asked_at_s = record->asked_at_s;
    done_note(issuers, new, NULL);
    issuer_records_replace(issuers, record, new);
    return true;
}

bool issuer_fetch_done(struct issuers *issuers, const struct issuer_fetch *fetch, struct slice json,
                       const char *error)
{
    bool is_good = false;
    pthread_mutex_lock(&issuers->tenants->change);
    struct issuer_record *record = issuer_records_find(issuers, slice_of(fetch->id));
    if (record != NULL && strcmp(record->issuer.jwks_url, fetch->url) == 0)
        is_good = done_locked(issuers, record, json, error);
    pthread_mutex_unlock(&issuers->tenants->change);
    return is_good;
}

size_t issuer_fetch_failing(struct issuers *issuers)
{
    size_t count = 0;
    pthread_mutex_lock(&issuers->lock);
    for (const struct issuer_record *at = issuers->first; at != NULL; at = at->next)
        count += at->issuer.jwks_url[0] != '\0' && at->issuer.jwks_error[0] != '\0';
    pthread_mutex_unlock(&issuers->lock);
    return count;
}
