/* bench_ledger: time of a commit of the ledger, of one row and of 64, without prices and with as
 * many as there may be. The kinds take turns, so that a change of the machine shows in all alike.
 *
 * bench_ledger [COMMITS]
 *
 * Prints one JSON line for each kind: the least of five rounds' means. Files are in a folder under
 * TMPDIR. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "auth/ledger/ledger_rows.h"
#include "auth/limits/quota_limits_hooks.h"
#include "auth/tenants/price.h"
#include "auth/tenants/tenant.h"
#include "config/store.h"

enum { ROUNDS = 5, BATCH = 64, KINDS = 4 };

static void must(enum status status)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "bench_ledger: %s\n", status_note()->message);
    exit(1);
}

static double now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

/* Adds LIMIT_PRICES prices. All but the least specific one are for other models. */
static void make_prices(struct tenants *tenants)
{
    const struct audit_actor actor = {.key_id = "key_bench"};
    const struct tenant_change change = {.actor = &actor};
    for (int i = 0; i < LIMIT_PRICES; i++) {
        struct price out;
        struct price wanted = {
            .currency = "usd", .input_nano = 150, .cached_input_nano = 15, .output_nano = 600};
        if (i > 0)
            snprintf(wanted.model, sizeof wanted.model, "SmolLM2-135M-Instruct.Q%d", i);
        must(price_create(tenants, &change, &wanted, &out));
    }
}

static double commits(struct ledger_rows *rows, struct tenants *tenants, bool has_prices, int batch,
                      int count)
{
    static struct ledger_row row[BATCH];
    static int64_t number;
    double begun = now_us();
    for (int i = 0; i < count; i++) {
        must(ledger_rows_begin(rows));
        for (int j = 0; j < batch; j++) {
            row[j] = (struct ledger_row){.at_us = INT64_C(1790000000000000) + number * 1000,
                                         .tenant_id = "tnt_abcdefghij0123456789",
                                         .key_id = "key_abcdefghij01",
                                         .model = "SmolLM2-135M-Instruct.Q4_1",
                                         .route = "/v1/chat/completions",
                                         .service_class = "standard",
                                         .finish = "stop",
                                         .http_code = 200,
                                         .prompt_tokens = 900,
                                         .cached_tokens = 300,
                                         .completion_tokens = 200};
            snprintf(row[j].request_id, sizeof row[j].request_id, "req_%032lld",
                     (long long)++number);
            row[j].cost_nano = has_prices ? price_of_row(tenants, &row[j]) : 0;
            must(ledger_rows_add(rows, &row[j]));
        }
        must(ledger_rows_end(rows, true));
        if (ledger_rows_wal_pages(rows) >= LEDGER_ROWS_WAL_PAGES)
            must(ledger_rows_checkpoint(rows, true));
    }
    return (now_us() - begun) / count;
}

int main(int argc, char **argv)
{
    static const uint8_t secret[32] = {1};
    int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 2000;
    const char *temporary = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    char folder[256], config[300], ledger[300];
    struct store *store;
    struct tenants *tenants;
    struct ledger_rows *rows;
    snprintf(folder, sizeof folder, "%s/bench_ledger.XXXXXX", temporary);
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(config, sizeof config, "%s/banyan.db", folder);
    snprintf(ledger, sizeof ledger, "%s/ledger.db", folder);
    must(store_open(&store, config));
    must(tenants_open(&tenants, &(struct tenants_options){.store = store,
                                                          .pepper = secret,
                                                          .domain = secret,
                                                          .limits = &quota_limits_hooks}));
    must(ledger_rows_open(&rows, ledger, false));
    make_prices(tenants);
    double least[KINDS] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        for (int kind = 0; kind < KINDS; kind++) {
            double us = commits(rows, tenants, kind % 2 != 0, kind < 2 ? 1 : BATCH,
                                kind < 2 ? count : count / 8);
            least[kind] = round == 0 || us < least[kind] ? us : least[kind];
        }
    }
    for (int kind = 0; kind < KINDS; kind++)
        printf("{\"what\":\"ledger commit\",\"rows\":%d,\"prices\":%d,\"commit_us\":%.2f,"
               "\"row_us\":%.2f}\n",
               kind < 2 ? 1 : BATCH, kind % 2 != 0 ? LIMIT_PRICES : 0, least[kind],
               least[kind] / (kind < 2 ? 1 : BATCH));
    ledger_rows_close(rows);
    tenants_close(tenants);
    store_close(store);
    unlink(config);
    unlink(ledger);
    rmdir(folder);
    return 0;
}
