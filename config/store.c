#include "config/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/base/mem.h"

struct store {
    pthread_mutex_t lock; /* recursive: the thread that holds it may begin again */
    unsigned depth;       /* open transactions, nested ones included */
    sqlite3 *connection;
};

/* The history of the schema. A released step is never changed, only followed by another. Row
 * numbers only rise, so a list in their order is a list from the oldest. */
static const char *const store_steps[] = {
    "create table tenants ("
    " number integer primary key autoincrement,"
    " id text not null unique,"
    " name text not null,"
    " state integer not null check (state between 0 and 2)," /* enum tenant_state */
    " weight integer not null check (weight between 1 and 1000),"
    " created_at_s integer not null"
    ") strict;"
    "create unique index tenants_name on tenants (name) where state <> 2;"
    "create table keys ("
    " number integer primary key autoincrement,"
    " id text not null unique,"
    " tenant_id text references tenants (id)," /* null: an admin key */
    " name text not null,"
    " redacted text not null,"
    " scopes integer not null,"
    " hash blob not null unique check (length(hash) = 32)," /* HMAC-SHA-256(pepper, whole key) */
    " created_at_s integer not null,"
    " expires_at_s integer not null,"
    " revoked_at_s integer not null"
    ") strict;"
    "create table audit ("
    " id integer primary key autoincrement,"
    " at_us integer not null,"
    " type text not null,"
    " actor_key_id text not null,"
    " peer text not null,"
    " request_id text not null,"
    " subject text not null,"
    " detail text not null"
    ") strict;",

    /* Sets the scopes of tenants' keys to 40, inference and usage:read, which every key had before.
     */
    "alter table tenants add column revision integer not null default 1;"
    "alter table tenants add column metadata text not null default '{}';"
    "alter table keys add column revision integer not null default 1;"
    "alter table keys add column last_used_at_s integer not null default 0;"
    "alter table keys add column rotated_to text not null default '';"
    "update keys set scopes = 40 where tenant_id is not null;"
    "create table answers (" /* answers to calls with an idempotency key, kept for a day */
    " actor_key_id text not null,"
    " name text not null,"                             /* the idempotency key */
    " print blob not null check (length(print) = 32)," /* HMAC of method, path and body */
    " code integer not null,"
    " revision integer not null,"
    " sealed blob not null," /* AES-256-GCM, because it may contain a new key's value */
    " created_at_s integer not null,"
    " primary key (actor_key_id, name)"
    ") strict, without rowid;"
    "create index answers_age on answers (created_at_s);",

    /* The columns are not named "group", which is a word of SQL. */
    "alter table tenants add column group_name text not null default '';"
    "alter table tenants add column share integer not null default 0"
    " check (share between 0 and 1);" /* enum tenant_share */
    "alter table tenants add column cache_share integer not null default 100"
    " check (cache_share between 1 and 1000);",

    "create table prompts (" /* prompts that the operator publishes */
    " number integer primary key autoincrement,"
    " id text not null unique,"
    " name text not null unique,"
    " content text not null," /* {\"messages\":[…]} or {\"text\":…} */
    " version integer not null,"
    " pin_until_s integer not null," /* 0: until it is unpublished */
    " created_at_s integer not null,"
    " revision integer not null"
    ") strict;"
    "create table prompt_grants (" /* exactly one of the two names is '' */
    " prompt_id text not null references prompts (id),"
    " tenant_id text not null,"
    " group_name text not null,"
    " check ((tenant_id = '') <> (group_name = '')),"
    " primary key (prompt_id, tenant_id, group_name)"
    ") strict, without rowid;",

    "alter table tenants add column default_class integer not null default 1"
    " check (default_class between 0 and 2);" /* enum service_class */
    "alter table tenants add column best_class integer not null default 0"
    " check (best_class between 0 and 2);",

    "create table plans (" /* named sets of limits */
    " number integer primary key autoincrement,"
    " id text not null unique,"
    " name text not null unique,"
    " created_at_s integer not null,"
    " revision integer not null"
    ") strict;"
    "create table tenant_limits ("
    " tenant_id text primary key not null references tenants (id),"
    " plan_id text references plans (id)," /* null: none */
    " revision integer not null"
    ") strict, without rowid;"
    "create table limit_values ("
    " owner_id text not null," /* a plan's id; a tenant's id for the tenant's own limits */
    " name text not null,"     /* a name of quota_limits.def, or cached_input_percent */
    " value integer not null check (value >= 0),"
    " is_shadow integer not null check (is_shadow between 0 and 1),"
    " primary key (owner_id, name)"
    ") strict, without rowid;",

    "create table issuers (" /* issuers of tokens */
    " number integer primary key autoincrement,"
    " id text not null unique,"
    " name text not null unique,"
    " issuer text not null unique,"
    " audiences text not null,"     /* [\"…\"] */
    " algorithms integer not null," /* bits 1 << enum auth_jwt_algorithm */
    " tenant_claim text not null,"
    " tenants text not null,"     /* {\"the claim's value\":\"a tenant's id\"} */
    " scope_claim text not null," /* '': none */
    " scopes integer not null,"
    " max_lifetime_s integer not null,"
    " jwks_file text not null," /* '': the keys are in jwks */
    " jwks blob not null,"      /* AES-256-GCM, because it may contain secrets */
    " created_at_s integer not null,"
    " revision integer not null"
    ") strict;",

    "create table prices (" /* nano-units of the currency, for one token */
    " number integer primary key autoincrement,"
    " id text not null unique,"
    " plan_id text not null,"       /* '': tenants whose plan has no prices, or who have no plan */
    " model text not null,"         /* '': all models */
    " service_class text not null," /* '': all classes */
    " currency text not null,"
    " input_nano integer not null,"
    " cached_input_nano integer not null,"
    " output_nano integer not null,"
    " effective_at_s integer not null,"
    " created_at_s integer not null,"
    " unique (plan_id, model, service_class, effective_at_s)"
    ") strict;",

    "create table certificates (" /* client certificates and their owners */
    " number integer primary key autoincrement,"
    " id text not null unique,"
    " tenant_id text references tenants (id)," /* null: an admin's */
    " label text not null,"
    " kind integer not null check (kind between 0 and 2)," /* enum certificate_match */
    " value text not null,"
    " scopes integer not null,"
    " created_at_s integer not null,"
    " expires_at_s integer not null,"
    " revoked_at_s integer not null,"
    " revision integer not null"
    ") strict;"
    /* A revoked fingerprint stays revoked for ever; a revoked name may be given to another owner.
     */
    "create unique index certificates_value on certificates (kind, value)"
    " where revoked_at_s = 0 or kind = 0;",

    "create table key_limits (" /* the values are in limit_values; their owner_id is "tenant/key" */
    " tenant_id text not null references tenants (id),"
    /* a key's id, or the id that a principal has in its place: an issuer's */
    " key_id text not null,"
    " revision integer not null,"
    " primary key (tenant_id, key_id)"
    ") strict, without rowid;",

    /* Key sets from a URL, which are also kept in jwks. Claims that open the config API. */
    "alter table issuers add column jwks_url text not null default '';"
    "alter table issuers add column jwks_refresh_s integer not null default 300;"
    "alter table issuers add column jwks_overlap_s integer not null default 600;"
    "alter table issuers add column admin_claim text not null default '';"
    "alter table issuers add column admins text not null default '{}';",

    /* before this step a group existed while a tenant or a grant named it */
    "create table tenant_groups ("
    " number integer primary key autoincrement,"
    " id text not null unique,"
    " name text not null unique,"
    " metadata text not null,"
    " created_at_s integer not null,"
    " revision integer not null"
    ") strict;"
    "insert into tenant_groups (id, name, metadata, created_at_s, revision)"
    " select 'grp_' || lower(hex(randomblob(10))), name, '{}', strftime('%s', 'now') + 0, 1 from ("
    "  select group_name as name from tenants where state <> 2" /* 2: archived */
    "  union select group_name from prompt_grants) where name <> '' order by name;",

    /* one model a line; '': all */
    "alter table tenants add column models text not null default '';",

    /* The subject of a token that acted as an admin. The last use of certificates, as for keys. */
    ("alter table audit add column actor_subject text not null default '';"
     "alter table certificates add column last_used_at_s integer not null default 0;"),
};

const char *const *store_schema(int *count)
{
    *count = (int)(sizeof store_steps / sizeof store_steps[0]);
    return store_steps;
}

enum status store_status(int code, const char *what)
{
    static const struct {
        int code;
        enum status status;
    } known[] = {
        {SQLITE_OK, STATUS_OK},           {SQLITE_ROW, STATUS_OK},
        {SQLITE_DONE, STATUS_OK},         {SQLITE_FULL, STATUS_STORAGE_FULL},
        {SQLITE_BUSY, STATUS_BUSY},       {SQLITE_LOCKED, STATUS_BUSY},
        {SQLITE_NOMEM, STATUS_NO_MEMORY}, {SQLITE_CORRUPT, STATUS_CORRUPT},
        {SQLITE_NOTADB, STATUS_CORRUPT},  {SQLITE_CONSTRAINT, STATUS_CONFLICT},
    };
    enum status status = STATUS_IO;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].code == (code & 0xff))
            status = known[i].status;
    }
    if (status == STATUS_OK)
        return STATUS_OK;
    /* The connection's own message may contain a path or a row's value, so only the code's text is
     * used. */
    FAIL(status, "%s: %s (%d)", what, sqlite3_errstr(code), code);
}

enum status store_execute(sqlite3 *connection, const char *sql)
{
    return store_status(sqlite3_exec(connection, sql, NULL, NULL, NULL), "database");
}

/* Creates the folder of the file: the data directory, when the file is the first thing in it. */
static void connect_make_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash != NULL ? mem_strndup(path, (size_t)(slash - path)) : NULL;
    if (folder != NULL)
        mkdir(folder, 0700); /* a failure shows when the file is opened in it */
    mem_free(folder);
}

/* Creates the file with mode 0600, so that nobody else can read it even for a moment; SQLite gives
 * its -wal and -shm files the same mode. An existing file is never opened here: closing any
 * descriptor of it drops the POSIX locks of all connections of this process, and another process
 * that closes the database would then delete the log under them. */
static enum status connect_make_file(const char *path)
{
    connect_make_folder(path);
    int descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (descriptor >= 0) {
        int failed = fchmod(descriptor, 0600);
        close(descriptor);
        if (failed != 0)
            FAIL(STATUS_IO, "database's mode cannot be set: %s", strerrordesc_np(errno));
        return STATUS_OK;
    }
    if (errno != EEXIST)
        FAIL(errno == ENOSPC ? STATUS_STORAGE_FULL : STATUS_IO, "database cannot be opened: %s",
             strerrordesc_np(errno));
    struct stat about;
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode))
        FAIL(STATUS_IO, "database cannot be opened: it is not a plain file");
    if ((about.st_mode & 07777) != 0600 && chmod(path, 0600) != 0)
        FAIL(STATUS_IO, "database's mode cannot be set: %s", strerrordesc_np(errno));
    return STATUS_OK;
}

static enum status connect_is_wal(sqlite3 *connection)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(connection, "pragma journal_mode = wal", -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    bool is_wal =
        code == SQLITE_ROW && strcmp((const char *)sqlite3_column_text(statement, 0), "wal") == 0;
    sqlite3_finalize(statement);
    TRY(store_status(code, "database"));
    if (!is_wal)
        FAIL(STATUS_UNSUPPORTED, "the file system of the data directory does not allow WAL");
    return STATUS_OK;
}

enum status store_connect(sqlite3 **out, const char *path, bool is_full)
{
    *out = NULL;
    TRY(connect_make_file(path));
    sqlite3 *connection = NULL;
    enum status status = STATUS_OK;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    int code = sqlite3_open_v2(path, &connection, flags, NULL);
    TRY_OUT(store_status(code, "database"));
    sqlite3_extended_result_codes(connection, 1);
    sqlite3_busy_timeout(connection, STORE_BUSY_MS);
    sqlite3_db_config(connection, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    TRY_OUT(connect_is_wal(connection));
    TRY_OUT(store_execute(connection,
                          is_full ? "pragma synchronous = full" : "pragma synchronous = normal"));
    TRY_OUT(store_execute(connection, "pragma foreign_keys = on; pragma trusted_schema = off; "
                                      "pragma temp_store = memory;"));
    *out = connection;
    return STATUS_OK;
out:
    sqlite3_close(connection);
    return status;
}

static enum status migrate_version(sqlite3 *connection, int *version)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(connection, "select coalesce(max(number), 0) from schema_steps",
                                  -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_ROW)
        *version = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    return store_status(code, "database");
}

static enum status migrate_note(sqlite3 *connection, int number)
{
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(connection,
                                  "insert into schema_steps values (?, strftime('%s', 'now') + 0)",
                                  -1, &statement, NULL);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int(statement, 1, number);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    sqlite3_finalize(statement);
    return store_status(code, "database");
}

static enum status migrate_steps(sqlite3 *connection, const char *const *steps, int count)
{
    int version = 0;
    TRY(store_execute(connection, "create table if not exists schema_steps (number integer primary "
                                  "key, applied_at_s integer not null) strict"));
    TRY(migrate_version(connection, &version));
    if (version > count)
        FAIL(STATUS_CONFLICT,
             "database has schema %d, this version knows %d: it was written by a newer version",
             version, count);
    for (int number = version + 1; number <= count; number++) {
        TRY(store_execute(connection, steps[number - 1]));
        TRY(migrate_note(connection, number));
    }
    return STATUS_OK;
}

enum status store_migrate(sqlite3 *connection, const char *const *steps, int count)
{
    TRY(store_execute(connection, "begin immediate"));
    enum status status = migrate_steps(connection, steps, count);
    if (status == STATUS_OK)
        status = store_execute(connection, "commit");
    if (status != STATUS_OK)
        sqlite3_exec(connection, "rollback", NULL, NULL, NULL);
    return status;
}

enum status store_open(struct store **out, const char *path)
{
    *out = NULL;
    struct store *store = mem_zalloc(1, sizeof *store);
    if (store == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the store");
    enum status status = store_connect(&store->connection, path, true);
    if (status == STATUS_OK)
        status = store_migrate(store->connection, store_steps,
                               (int)(sizeof store_steps / sizeof store_steps[0]));
    if (status != STATUS_OK) {
        sqlite3_close(store->connection);
        mem_free(store);
        return status;
    }
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&store->lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    *out = store;
    return STATUS_OK;
}

void store_close(struct store *store)
{
    if (store == NULL)
        return;
    /* BUSY means that some statement was not finalized; the file would stay locked. */
    int code = sqlite3_close(store->connection);
    ASSERT(code == SQLITE_OK);
    pthread_mutex_destroy(&store->lock);
    mem_free(store);
}

enum status store_begin(struct store *store, sqlite3 **connection)
{
    pthread_mutex_lock(&store->lock);
    enum status status =
        store_execute(store->connection, store->depth == 0 ? "begin immediate" : "savepoint inner");
    *connection = store->connection;
    if (status == STATUS_OK)
        store->depth++;
    else
        pthread_mutex_unlock(&store->lock);
    return status;
}

enum status store_end(struct store *store, bool commit)
{
    enum status status = STATUS_OK;
    bool is_inner = --store->depth > 0;
    if (commit)
        status = store_execute(store->connection, is_inner ? "release inner" : "commit");
    if (!commit || status != STATUS_OK)
        sqlite3_exec(store->connection, is_inner ? "rollback to inner; release inner" : "rollback",
                     NULL, NULL, NULL);
    pthread_mutex_unlock(&store->lock);
    return status;
}
