#include "gateway/edge/state/edge_reload.h"

#include "tests/unit/edge_kit.h"

#include "config/base/mem.h"

/* The files' reading and the change of context are those of config and tls; here: all or nothing,
 * who is told, and whose the snapshots are. */

static struct edge edge;
static int told;

static void changed(void *context, const struct config *config)
{
    assert_ptr_equal(context, &told);
    assert_ptr_equal(config, edge.config);
    told++;
}

struct reload_kit {
    char dir[64];
    char options[96];
    char cert[96];
    char key[96];
    const char *argv[4];
    const char *environment[1];
    struct config_sources sources;
    const struct config *first;
    struct edge_reload *reload;
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void reload_kit_begin(struct reload_kit *k)
{
    *k = (struct reload_kit){.reload = NULL};
    edge = (struct edge){.config = NULL};
    told = 0;
    edge_kit_dir(k->dir);
    snprintf(k->options, sizeof k->options, "%s/options.json", k->dir);
    snprintf(k->cert, sizeof k->cert, "%s/server.crt", k->dir);
    snprintf(k->key, sizeof k->key, "%s/server.key", k->dir);
    write_file(k->options, "{\"request_timeout_s\":100}");
    k->argv[0] = "--config";
    k->argv[1] = k->options;
    k->sources = (struct config_sources){CONFIG_EDGE, 2, k->argv, k->environment};
    assert_int_equal(config_load(&k->first, CONFIG_EDGE, 2, k->argv, k->environment), STATUS_OK);
    edge.config = k->first;
    assert_int_equal(tls_make_self_signed(k->dir), STATUS_OK);
    assert_int_equal(tls_context_open(&edge.public_tls, k->cert, k->key, "a"), STATUS_OK);
    assert_int_equal(tls_context_open(&edge.admin_tls, k->cert, k->key, "b"), STATUS_OK);
    assert_int_equal(loop_create(&edge.loop), STATUS_OK);
    assert_int_equal(
        edge_reload_create(&k->reload, &edge, &k->sources, k->cert, k->key, changed, &told),
        STATUS_OK);
}

static void reload_kit_end(struct reload_kit *k)
{
    edge_reload_destroy(k->reload);
    assert_ptr_equal(edge.config, k->first);
    tls_context_close(edge.public_tls);
    tls_context_close(edge.admin_tls);
    loop_destroy(edge.loop);
    config_release(k->first);
    edge_kit_remove(k->dir);
}

static void test_all_or_nothing(void **state)
{
    (void)state;
    struct reload_kit k;
    reload_kit_begin(&k);
    write_file(k.options, "{\"request_timeout_s\":200}");
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(edge_reload_now(k.reload), STATUS_OK);
        assert_int_equal(told, i);
        assert_int_equal(edge.config->request_timeout_s, 200);
    }
    const struct config *last = edge.config;
    /* Looked at before: nothing is taken. Asked for over the API: the parent hears of it. */
    struct buffer changes;
    int ends[2];
    char byte;
    write_file(k.options, "{\"request_timeout_s\":250}");
    buffer_init(&changes, 4096);
    assert_int_equal(edge_reload_check(k.reload, &changes), STATUS_OK);
    assert_string_equal(changes.bytes, "[{\"option\":\"request_timeout_s\",\"from\":200,"
                                       "\"to\":250,\"takes\":\"reload\"}]");
    buffer_deinit(&changes);
    assert_ptr_equal(edge.config, last);
    assert_int_equal(pipe(ends), 0);
    edge_reload_set_parent(k.reload, ends[1]);
    write_file(k.options, "{\"request_timeout_s\":200}");
    assert_int_equal(edge_reload_everywhere(k.reload), STATUS_OK);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    last = edge.config;
    edge_reload_set_parent(k.reload, -1);
    close(ends[0]);
    close(ends[1]);
    /* The options are right and the certificate is not: neither is taken. */
    write_file(k.options, "{\"request_timeout_s\":300}");
    write_file(k.key, "no key");
    assert_int_not_equal(edge_reload_now(k.reload), STATUS_OK);
    assert_ptr_equal(edge.config, last);
    /* The other way round. */
    assert_int_equal(unlink(k.key), 0);
    assert_int_equal(unlink(k.cert), 0);
    assert_int_equal(tls_make_self_signed(k.dir), STATUS_OK);
    write_file(k.options, "{\"request_timeout_s\":300,\"body_limit\":2048,\"access_log\":\"off\"}");
    assert_int_equal(edge_reload_now(k.reload), STATUS_CONFLICT);
    assert_string_equal(status_note()->message, "only a restart changes: body_limit, access_log");
    write_file(k.options, "{\"request_timeout_s\":0}");
    assert_int_equal(edge_reload_now(k.reload), STATUS_OUT_OF_RANGE);
    assert_int_equal(unlink(k.options), 0);
    assert_int_equal(edge_reload_now(k.reload), STATUS_IO);
    assert_ptr_equal(edge.config, last);
    assert_int_equal(told, 4);
    reload_kit_end(&k);
}

static void test_without_sources_certificates_alone(void **state)
{
    (void)state;
    struct reload_kit k;
    reload_kit_begin(&k);
    edge_reload_destroy(k.reload);
    assert_int_equal(edge_reload_create(&k.reload, &edge, NULL, k.cert, k.key, changed, &told),
                     STATUS_OK);
    write_file(k.options, "{\"request_timeout_s\":200}");
    assert_int_equal(edge_reload_now(k.reload), STATUS_OK);
    assert_int_equal(edge.config->request_timeout_s, 100);
    assert_int_equal(told, 0);
    reload_kit_end(&k);
}

int main(void)
{
    log_open(STDERR_FILENO, LOG_ERROR, "test");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_without_sources_certificates_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
