#include "auth/tenants/issuer.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/tenants/issuer_records.h"
#include "auth/tenants/issuer_rows.h"
#include "config/base/log.h"
#include "config/base/mem.h"

/* --- records --- */

static void record_free(struct issuer_record *record)
{
    if (record == NULL)
        return;
    if (record->json != NULL)
        auth_crypto_forget(record->json, strlen(record->json));
    mem_free(record->json);
    auth_jwks_free(record->jwks);
    mem_free(record);
}

/* Makes a hash for each key of the issuer, of the key and every rule that is applied to its tokens.
 * The cached result of a token counts only while its hash is still there. */
static enum status make_prints(const struct issuers *issuers, struct issuer_record *record)
{
    const struct issuer *issuer = &record->issuer;
    struct buffer rules;
    uint8_t mac[AUTH_CRYPTO_BYTES];
    buffer_init(&rules, 128 * 1024);
    buffer_printf(&rules, "%s\n%s\n%s\n%s\n%u\n%lld\n", issuer->id, issuer->issuer,
                  issuer->tenant_claim, issuer->scope_claim, issuer->scopes,
                  (long long)issuer->max_lifetime_s);
    issuer_rows_write_audiences(issuer, &rules);
    issuer_rows_write_tenants(issuer, &rules);
    buffer_printf(&rules, "\n%s\n", issuer->admin_claim);
    issuer_rows_write_admins(issuer, &rules);
    size_t length = rules.length;
    enum status status = rules.status;
    for (size_t i = 0; i < record->jwks->count && status == STATUS_OK; i++) {
        rules.length = length;
        buffer_append(&rules, record->jwks->keys[i].print, sizeof record->jwks->keys[i].print);
        status = rules.status;
        if (status == STATUS_OK)
            status = auth_crypto_hmac(issuers->seal, buffer_slice(&rules), mac);
        memcpy(&record->prints[i], mac, sizeof record->prints[i]);
    }
    buffer_deinit(&rules);
    return status;
}

static enum status make_fill(struct issuers *issuers, struct issuer_record *record,
                             struct slice json)
{
    TRY(tenant_records_name(issuers->tenants, "key:", record->issuer.id, record->hash));
    if (json.bytes == NULL)
        return STATUS_OK;
    TRY(auth_jwks_read(json, record->issuer.algorithms, &record->jwks));
    for (size_t i = 0; i < record->jwks->count; i++) {
        struct issuer_key *key = &record->issuer.keys[record->issuer.key_count++];
        memcpy(key->kid, record->jwks->keys[i].kid, sizeof key->kid);
        key->algorithm = record->jwks->keys[i].algorithm;
        key->until_s = record->jwks->keys[i].until_s;
    }
    record->json = mem_strndup(json.bytes, json.length);
    if (record->json == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for keys");
    return make_prints(issuers, record);
}

enum status issuer_records_make(struct issuers *issuers, const struct issuer *issuer,
                                struct slice json, struct issuer_record **out)
{
    struct issuer_record *record = mem_zalloc(1, sizeof *record);
    *out = NULL;
    if (record == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for an issuer");
    record->issuer = *issuer;
    record->issuer.key_count = 0;
    record->issuer.jwks_error[0] = '\0';
    atomic_init(&record->references, 1);
    atomic_init(&record->looked_at_s, tenant_directory_now_s(issuers->tenants));
    enum status status = make_fill(issuers, record, json);
    if (status != STATUS_OK) {
        record_free(record);
        return status;
    }
    *out = record;
    return STATUS_OK;
}

void issuer_records_replace(struct issuers *issuers, struct issuer_record *old,
                            struct issuer_record *new)
{
    pthread_mutex_lock(&issuers->lock);
    struct issuer_record **at = &issuers->first;
    while (*at != old) /* with `old` NULL, walk to the end */
        at = &(*at)->next;
    struct issuer_record *rest = old != NULL ? old->next : NULL;
    if (new != NULL)
        new->next = rest;
    *at = new != NULL ? new : rest;
    atomic_fetch_add(&issuers->epoch, 1);
    pthread_mutex_unlock(&issuers->lock);
    if (old != NULL)
        issuer_record_drop(old);
}

struct issuer_record *issuer_records_find(struct issuers *issuers, struct slice id)
{
    struct issuer_record *record = issuers->first;
    while (record != NULL && !slice_is(id, record->issuer.id))
        record = record->next;
    return record;
}

/* Takes the record of this id and revision out of a list; NULL when the list has none. */
static struct issuer_record *adopt_take(struct issuer_record **list, const struct issuer *issuer)
{
    for (struct issuer_record **at = list; *at != NULL; at = &(*at)->next) {
        struct issuer_record *record = *at;
        if (strcmp(record->issuer.id, issuer->id) != 0 ||
            record->issuer.revision != issuer->revision)
            continue;
        *at = record->next;
        return record;
    }
    return NULL;
}

void issuer_records_adopt(struct issuers *issuers, struct issuers *copy)
{
    struct issuer_record *old = issuers->first;
    pthread_mutex_lock(&issuers->lock);
    for (struct issuer_record **at = &copy->first; *at != NULL; at = &(*at)->next) {
        struct issuer_record *other = *at;
        struct issuer_record *same = adopt_take(&old, &other->issuer);
        if (same == NULL)
            continue;
        same->next = other->next;
        *at = same;
        other->next = old;
        old = other;
    }
    issuers->first = copy->first;
    copy->first = old;
    atomic_fetch_add(&issuers->epoch, 1);
    pthread_mutex_unlock(&issuers->lock);
}

void issuer_append_keys(struct issuers *issuers, struct slice id, struct buffer *out)
{
    static const char *const secrets[] = {"k", "d", "p", "q", "dp", "dq", "qi", "oth"};
    pthread_mutex_lock(&issuers->lock);
    const struct issuer_record *record = issuer_records_find(issuers, id);
    bool is_inline = record != NULL && record->json != NULL &&
                     record->issuer.jwks_file[0] == '\0' && record->issuer.jwks_url[0] == '\0';
    json_t *set = is_inline ? json_loads(record->json, 0, NULL) : NULL;
    pthread_mutex_unlock(&issuers->lock);
    const json_t *keys = json_object_get(set, "keys");
    bool is_public = set != NULL;
    for (size_t i = 0; i < json_array_size(keys); i++) {
        for (size_t j = 0; j < sizeof secrets / sizeof secrets[0]; j++)
            is_public = is_public && json_object_get(json_array_get(keys, i), secrets[j]) == NULL;
    }
    char *text = is_public ? json_dumps(set, JSON_COMPACT) : NULL;
    if (text != NULL)
        buffer_append_text(out, text);
    free(text);
    json_decref(set);
}

/* --- files of keys --- */

static enum status file_fail(const char *name, const char *what)
{
    FAIL_PARAM(STATUS_INVALID, "jwks_file", "jwks/%s in the data directory %s.", name, what);
}

static enum status file_read_all(int descriptor, const char *name, struct buffer *out)
{
    struct stat about;
    char piece[4096];
    ssize_t got;
    if (fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode))
        return file_fail(name, "is no plain file");
    if ((about.st_mode & 022) != 0)
        return file_fail(name, "can be written by others: chmod go-w");
    while ((got = read(descriptor, piece, sizeof piece)) > 0)
        buffer_append(out, piece, (size_t)got);
    auth_crypto_forget(piece, sizeof piece);
    if (got < 0)
        return file_fail(name, "cannot be read");
    if (out->status != STATUS_OK)
        return file_fail(name, "is longer than 65,536 bytes");
    return STATUS_OK;
}

enum status issuer_records_read_file(struct issuers *issuers, const char *name, struct buffer *out)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/jwks/%s", issuers->data_dir, name);
    if (length < 0 || (size_t)length >= sizeof path)
        return file_fail(name, "has too long a path");
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0)
        return file_fail(name, errno == ENOENT ? "is not there" : "cannot be opened");
    enum status status = file_read_all(descriptor, name, out);
    close(descriptor);
    return status;
}

/* Reads the file. If its text differs from the one that the record was made from, makes a new
 * record. Otherwise `*out` is NULL. */
static enum status refresh_make(struct issuers *issuers, const struct issuer_record *record,
                                struct issuer_record **out)
{
    struct buffer json;
    *out = NULL;
    buffer_init(&json, LIMIT_JWKS_BYTES);
    enum status status = issuer_records_read_file(issuers, record->issuer.jwks_file, &json);
    bool is_same =
        status == STATUS_OK && record->json != NULL && slice_is(buffer_slice(&json), record->json);
    if (status == STATUS_OK && !is_same)
        status = issuer_records_make(issuers, &record->issuer, buffer_slice(&json), out);
    if (json.bytes != NULL)
        auth_crypto_forget(json.bytes, json.capacity);
    buffer_deinit(&json);
    return status;
}

/* Reads the file again. True when the keys have changed. The caller holds `change`. */
static bool refresh_locked(struct issuers *issuers, struct issuer_record *record)
{
    struct issuer_record *new = NULL;
    enum status status = refresh_make(issuers, record, &new);
    const char *error = status != STATUS_OK ? status_note()->message : "";
    atomic_store(&record->looked_at_s, tenant_directory_now_s(issuers->tenants));
    pthread_mutex_lock(&issuers->lock);
    bool is_news = strcmp(record->issuer.jwks_error, error) != 0;
    snprintf(record->issuer.jwks_error, sizeof record->issuer.jwks_error, "%s", error);
    pthread_mutex_unlock(&issuers->lock);
    if (status != STATUS_OK && is_news)
        LOG(LOG_WARN, "issuer_keys_unread", LOG_TEXT("issuer", record->issuer.id),
            LOG_TEXT("error", error));
    if (new == NULL)
        return false;
    LOG(LOG_INFO, "issuer_keys_read", LOG_TEXT("issuer", record->issuer.id),
        LOG_NUMBER("keys", new->jwks->count));
    issuer_records_replace(issuers, record, new);
    return true;
}

void issuers_refresh(struct issuers *issuers)
{
    pthread_mutex_lock(&issuers->tenants->change);
    for (struct issuer_record *record = issuers->first, *next; record != NULL; record = next) {
        next = record->next;
        if (record->issuer.jwks_file[0] != '\0')
            (void)refresh_locked(issuers, record);
    }
    pthread_mutex_unlock(&issuers->tenants->change);
}

/* Makes a fetch due because a token names an unknown key, at most once in LIMIT_JWKS_ASK_S, so that
 * clients cannot cause more fetches. The caller holds `lock`. */
static enum issuer_news refresh_want(struct issuer_record *record, int64_t now_s)
{
    bool is_coming = record->is_wanted || record->is_fetched || record->due_s <= now_s;
    if (!is_coming && now_s - record->asked_at_s >= LIMIT_JWKS_ASK_S) {
        record->is_wanted = is_coming = true;
        record->asked_at_s = now_s;
    }
    return is_coming ? ISSUER_NEWS_AWAITED : ISSUER_NEWS_NONE;
}

/* Returns what is known without `change`, because an import holds `change` for seconds. */
static enum issuer_news refresh_look(struct issuers *issuers, const struct issuer_record *record,
                                     int64_t now_s)
{
    enum issuer_news news = ISSUER_NEWS_NONE;
    pthread_mutex_lock(&issuers->lock);
    struct issuer_record *now = issuer_records_find(issuers, slice_of(record->issuer.id));
    if (now != NULL && now != record)
        news = ISSUER_NEWS_KEYS; /* another thread has replaced the record */
    else if (now != NULL && now->issuer.jwks_url[0] != '\0')
        news = refresh_want(now, now_s);
    pthread_mutex_unlock(&issuers->lock);
    return news;
}

enum issuer_news issuer_record_refresh(struct issuers *issuers, const struct issuer_record *record)
{
    int64_t now_s = tenant_directory_now_s(issuers->tenants);
    enum issuer_news news = refresh_look(issuers, record, now_s);
    if (news != ISSUER_NEWS_NONE || record->issuer.jwks_file[0] == '\0' ||
        now_s - atomic_load(&record->looked_at_s) < LIMIT_TOKEN_BAD_S)
        return news;
    pthread_mutex_lock(&issuers->tenants->change);
    struct issuer_record *now = issuer_records_find(issuers, slice_of(record->issuer.id));
    now_s = tenant_directory_now_s(issuers->tenants);
    if (now != NULL && now != record)
        news = ISSUER_NEWS_KEYS;
    else if (now != NULL && now_s - atomic_load(&now->looked_at_s) >= LIMIT_TOKEN_BAD_S)
        news = refresh_locked(issuers, now) ? ISSUER_NEWS_KEYS : ISSUER_NEWS_NONE;
    pthread_mutex_unlock(&issuers->tenants->change);
    return news;
}

/* --- start and end --- */

/* Keys that are stored but invalid do not keep the server from starting. */
static enum status load_record(struct issuers *issuers, const struct issuer *issuer,
                               struct slice json)
{
    struct issuer_record *record = NULL;
    enum status status = issuer_records_make(issuers, issuer, json, &record);
    if (status == STATUS_NO_MEMORY)
        return status;
    if (status != STATUS_OK) {
        const struct error_note note = *status_note();
        TRY(issuer_records_make(issuers, issuer, (struct slice){NULL, 0}, &record));
        snprintf(record->issuer.jwks_error, sizeof record->issuer.jwks_error, "%s", note.message);
        LOG(LOG_WARN, "issuer_keys_unread", LOG_TEXT("issuer", issuer->id),
            LOG_TEXT("error", note.message));
    }
    issuer_records_replace(issuers, NULL, record);
    if (issuer->jwks_file[0] != '\0')
        (void)refresh_locked(issuers, record);
    return STATUS_OK;
}

static enum status load_row(void *context, const struct issuer *issuer, struct slice sealed)
{
    struct issuers *issuers = context;
    struct buffer json;
    buffer_init(&json, LIMIT_JWKS_BYTES);
    enum status status = STATUS_OK;
    if (sealed.length > 0)
        status = auth_crypto_open(issuers->seal, slice_of(issuer->id), sealed, &json);
    if (status == STATUS_OK)
        status = load_record(issuers, issuer, buffer_slice(&json));
    if (json.bytes != NULL)
        auth_crypto_forget(json.bytes, json.capacity);
    buffer_deinit(&json);
    return status;
}

static enum status open_load(struct issuers *issuers, const uint8_t *pepper, const char *data_dir)
{
    struct sqlite3 *connection;
    issuers->data_dir = mem_strdup(data_dir);
    if (issuers->data_dir == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for issuers");
    TRY(auth_crypto_hmac(pepper, SLICE("keys of issuers"), issuers->seal));
    TRY(store_begin(issuers->tenants->store, &connection));
    enum status status = issuer_rows_load(connection, issuers, load_row);
    enum status ended = store_end(issuers->tenants->store, false);
    return status != STATUS_OK ? status : ended;
}

enum status issuers_open(struct issuers **out, struct tenants *tenants, const uint8_t *pepper,
                         const char *data_dir)
{
    *out = NULL;
    struct issuers *issuers = mem_zalloc(1, sizeof *issuers);
    if (issuers == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for issuers");
    issuers->tenants = tenants;
    pthread_mutex_init(&issuers->lock, NULL);
    atomic_init(&issuers->epoch, 1);
    enum status status = open_load(issuers, pepper, data_dir);
    if (status != STATUS_OK) {
        issuers_close(issuers);
        return status;
    }
    *out = issuers;
    return STATUS_OK;
}

void issuers_close(struct issuers *issuers)
{
    if (issuers == NULL)
        return;
    while (issuers->first != NULL)
        issuer_records_replace(issuers, issuers->first, NULL);
    pthread_mutex_destroy(&issuers->lock);
    mem_free(issuers->data_dir);
    auth_crypto_forget(issuers, sizeof *issuers);
    mem_free(issuers);
}

/* --- looking --- */

enum status issuer_get(struct issuers *issuers, struct slice id, struct issuer *out)
{
    pthread_mutex_lock(&issuers->lock);
    const struct issuer_record *record = issuer_records_find(issuers, id);
    if (record != NULL)
        *out = record->issuer;
    pthread_mutex_unlock(&issuers->lock);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "There is no issuer of this id.");
    return STATUS_OK;
}

void issuer_append_admins(const struct issuer *issuer, struct buffer *out)
{
    issuer_rows_write_admins(issuer, out);
}

enum status issuer_list(struct issuers *issuers, struct slice after, struct issuer *out,
                        size_t capacity, size_t *count, bool *has_more)
{
    *count = 0;
    pthread_mutex_lock(&issuers->lock);
    const struct issuer_record *record = issuers->first;
    bool is_known = true;
    if (after.length > 0) {
        record = issuer_records_find(issuers, after);
        is_known = record != NULL;
        record = is_known ? record->next : NULL;
    }
    for (; record != NULL && *count < capacity; record = record->next)
        out[(*count)++] = record->issuer;
    *has_more = record != NULL;
    pthread_mutex_unlock(&issuers->lock);
    if (!is_known)
        FAIL_PARAM(STATUS_INVALID, "after", "There is no issuer of this id to begin after.");
    return STATUS_OK;
}

/* --- for the method of tokens --- */

struct issuer_record *issuer_record_hold(struct issuers *issuers, struct slice iss)
{
    if (iss.bytes == NULL)
        return NULL;
    pthread_mutex_lock(&issuers->lock);
    struct issuer_record *record = issuers->first;
    while (record != NULL && !slice_is(iss, record->issuer.issuer))
        record = record->next;
    if (record != NULL)
        atomic_fetch_add(&record->references, 1);
    pthread_mutex_unlock(&issuers->lock);
    return record;
}

void issuer_record_drop(struct issuer_record *record)
{
    if (atomic_fetch_sub(&record->references, 1) == 1)
        record_free(record);
}

const struct issuer *issuer_record_about(const struct issuer_record *record)
{
    return &record->issuer;
}

bool issuer_record_has_keys(const struct issuer_record *record)
{
    return record->jwks != NULL;
}

static bool key_is_over(const struct auth_jwks_key *key, int64_t now_s)
{
    return key->until_s != 0 && key->until_s <= now_s;
}

const struct auth_jwks_key *issuer_record_key(const struct issuer_record *record, const char *kid,
                                              int64_t now_s, uint64_t *print)
{
    const struct auth_jwks_key *key =
        record->jwks != NULL ? auth_jwks_find(record->jwks, kid) : NULL;
    if (key != NULL && key_is_over(key, now_s))
        key = NULL;
    if (key != NULL)
        *print = record->prints[key - record->jwks->keys];
    return key;
}

const uint8_t *issuer_record_hash(const struct issuer_record *record)
{
    return record->hash;
}

bool issuers_has_key(struct issuers *issuers, uint64_t print)
{
    bool is_found = false;
    int64_t now_s = tenant_directory_now_s(issuers->tenants);
    pthread_mutex_lock(&issuers->lock);
    for (const struct issuer_record *at = issuers->first; at != NULL && !is_found; at = at->next) {
        for (size_t i = 0; at->jwks != NULL && i < at->jwks->count && !is_found; i++)
            is_found = at->prints[i] == print && !key_is_over(&at->jwks->keys[i], now_s);
    }
    pthread_mutex_unlock(&issuers->lock);
    return is_found;
}

uint64_t issuers_epoch(struct issuers *issuers)
{
    return atomic_load(&issuers->epoch);
}

enum status issuers_find_hash(struct issuers *issuers, const uint8_t hash[16],
                              char id[LIMIT_ID_BYTES])
{
    pthread_mutex_lock(&issuers->lock);
    const struct issuer_record *record = issuers->first;
    while (record != NULL && memcmp(record->hash, hash, sizeof record->hash) != 0)
        record = record->next;
    if (record != NULL)
        memcpy(id, record->issuer.id, LIMIT_ID_BYTES);
    pthread_mutex_unlock(&issuers->lock);
    if (record == NULL)
        FAIL(STATUS_NOT_FOUND, "there is no issuer of this name");
    return STATUS_OK;
}
