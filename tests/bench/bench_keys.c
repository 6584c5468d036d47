/* bench_keys: how long the directory of tenants and keys takes to load, and how long a look-up of a
 * key takes, by the number of tenants and keys.
 *
 * usage: bench_keys [KEYS TENANTS]…    (100 10, 1000 100, 10000 1000, 100000 10000)
 *
 * Each line has the time of auth_open (the part of a start that grows with the keys), and the
 * nanoseconds of one auth_authenticate of four keys: a good one, one with an unknown public id, one
 * with a wrong secret and a mistyped one. Figures are medians of rounds. The two middle ones bound
 * what a cache of bad keys could save: it would have to hash the whole key under a secret of ours
 * too, or else a stranger could choose which entries collide; and that hash is most of their cost.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "auth/auth.h"
#include "auth/credential/api_key.h"
#include "auth/credential/auth_crypto.h"
#include "auth/credential/auth_secrets.h"
#include "config/base/log.h"
#include "config/store.h"

enum { SAMPLES = 4096, ROUNDS = 9, KINDS = 4 };
static const char *const kinds[KINDS] = {"good", "unknown_id", "wrong_secret", "mistyped"};

static char values[KINDS][SAMPLES][LIMIT_KEY_BYTES];
static char folder[64];

static void must(bool is_fine, const char *what)
{
    if (is_fine)
        return;
    fprintf(stderr, "%s: %s\n", what, status_note()->message);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct auth *start(struct store **store, int64_t *took_ns)
{
    char path[96];
    struct auth *auth;
    snprintf(path, sizeof path, "%s/banyan.db", folder);
    int64_t begin = now_ns();
    must(store_open(store, path) == STATUS_OK, "store_open");
    must(auth_open(&auth, folder, *store) == STATUS_OK, "auth_open");
    *took_ns = now_ns() - begin;
    return auth;
}

/* --- rows, as auth/tenants/tenant_rows would write them one by one --- */

static void fill_key(sqlite3_stmt *statement, const uint8_t *pepper, unsigned i, unsigned tenants)
{
    struct api_key read;
    char value[LIMIT_KEY_BYTES];
    char tenant_id[LIMIT_ID_BYTES];
    uint8_t hash[AUTH_CRYPTO_BYTES];
    api_key_make(false, value);
    must(api_key_read(slice_of(value), &read) == STATUS_OK, "key");
    must(auth_crypto_hmac(pepper, slice_of(value), hash) == STATUS_OK, "hmac");
    int kind = i % 2 == 0 ? 0 : 2; /* every second row holds the hash of another secret */
    hash[0] ^= kind == 2;
    snprintf(tenant_id, sizeof tenant_id, "tnt_%08u", i % tenants);
    sqlite3_bind_text(statement, 1, read.id, -1, SQLITE_TRANSIENT);
    sqlite3_bind_text(statement, 2, tenant_id, -1, SQLITE_TRANSIENT);
    sqlite3_bind_blob(statement, 3, hash, sizeof hash, SQLITE_TRANSIENT);
    must(sqlite3_step(statement) == SQLITE_DONE, "insert of a key");
    sqlite3_reset(statement);
    memcpy(values[kind][i / 2 % SAMPLES], value, sizeof value);
}

static void fill(unsigned keys, unsigned tenants)
{
    struct store *store;
    struct sqlite3 *connection;
    struct auth_secrets secrets;
    sqlite3_stmt *statement;
    int64_t took_ns;
    struct auth *auth = start(&store, &took_ns); /* creates the secrets and the schema */
    auth_close(auth);
    must(auth_secrets_read(folder, &secrets) == STATUS_OK, "secrets");
    must(store_begin(store, &connection) == STATUS_OK, "begin");
    for (unsigned i = 0; i < tenants; i++) {
        char sql[256];
        snprintf(sql, sizeof sql,
                 "insert into tenants (id, name, state, weight, created_at_s) "
                 "values ('tnt_%08u', 'tenant %u', 0, 100, 1790000000)",
                 i, i);
        must(store_execute(connection, sql) == STATUS_OK, "tenant");
    }
    must(sqlite3_prepare_v2(connection,
                            "insert into keys (id, tenant_id, name, redacted, scopes, hash, "
                            "created_at_s, expires_at_s, revoked_at_s) "
                            "values (?, ?, 'bench', 'sk-by-abc…xyz', 40, ?, 1790000000, 0, 0)",
                            -1, &statement, NULL) == SQLITE_OK,
         "prepare");
    for (unsigned i = 0; i < keys; i++)
        fill_key(statement, secrets.pepper, i, tenants);
    sqlite3_finalize(statement);
    must(store_end(store, true) == STATUS_OK, "commit");
    store_close(store);
}

/* --- what is asked for --- */

static void samples(unsigned keys)
{
    for (unsigned i = 0; i < SAMPLES; i++) {
        if (i >= keys / 2) {
            memcpy(values[0][i], values[0][i % (keys / 2)], LIMIT_KEY_BYTES);
            memcpy(values[2][i], values[2][i % (keys / 2)], LIMIT_KEY_BYTES);
        }
        api_key_make(false, values[1][i]);
        memcpy(values[3][i], values[0][i], LIMIT_KEY_BYTES);
        values[3][i][30] = values[3][i][30] == 'a' ? 'b' : 'a';
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double ask(struct auth *auth, int kind)
{
    double rounds[ROUNDS];
    struct principal principal;
    enum status wanted = kind == 0 ? STATUS_OK : STATUS_KEY_INVALID;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t begin = now_ns();
        for (unsigned i = 0; i < SAMPLES; i++)
            must(auth_authenticate(auth,
                                   &(struct auth_credential){.text = slice_of(values[kind][i])},
                                   false, &principal) == wanted,
                 kinds[kind]);
        rounds[round] = (double)(now_ns() - begin) / SAMPLES;
    }
    qsort(rounds, ROUNDS, sizeof rounds[0], compare);
    return rounds[ROUNDS / 2];
}

static void measure(unsigned keys, unsigned tenants)
{
    struct store *store;
    double starts[ROUNDS];
    int64_t took_ns;
    snprintf(folder, sizeof folder, "/tmp/bench_keys.XXXXXX");
    must(mkdtemp(folder) != NULL, "mkdtemp");
    fill(keys, tenants);
    samples(keys);
    for (int round = 0; round < ROUNDS - 1; round++) {
        struct auth *auth = start(&store, &took_ns);
        starts[round] = (double)took_ns / 1e6;
        auth_close(auth);
        store_close(store);
    }
    struct auth *auth = start(&store, &took_ns);
    starts[ROUNDS - 1] = (double)took_ns / 1e6;
    qsort(starts, ROUNDS, sizeof starts[0], compare);
    printf("{\"bench\":\"keys\",\"keys\":%u,\"tenants\":%u,\"open_ms\":{\"p50\":%.1f,\"max\":%.1f},"
           "\"authenticate_ns\":{",
           keys, tenants, starts[ROUNDS / 2], starts[ROUNDS - 1]);
    for (int kind = 0; kind < KINDS; kind++)
        printf("%s\"%s\":%.0f", kind > 0 ? "," : "", kinds[kind], ask(auth, kind));
    printf("}}\n");
    fflush(stdout);
    auth_close(auth);
    store_close(store);
    static const char *const files[] = {"banyan.db", "banyan.db-wal", "banyan.db-shm", "secrets"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    rmdir(folder);
}

int main(int argc, char **argv)
{
    static const unsigned sizes[][2] = {{100, 10}, {1000, 100}, {10000, 1000}, {100000, 10000}};
    log_open(2, LOG_ERROR, "bench");
    for (int i = 1; i + 1 < argc; i += 2)
        measure((unsigned)strtoul(argv[i], NULL, 10), (unsigned)strtoul(argv[i + 1], NULL, 10));
    for (size_t i = 0; argc < 3 && i < sizeof sizes / sizeof sizes[0]; i++)
        measure(sizes[i][0], sizes[i][1]);
    return 0;
}
