/* tenant_edit: tenants_create, tenants_update and tenants_archive: rules, revisions, failures. */
#include "auth/tenants/tenant_directory.h"
#include "tests/unit/tenant_kit.h"

static void check_metadata(struct tenant_kit *kit, const char *id, const char *expected)
{
    struct buffer out;
    buffer_init(&out, LIMIT_METADATA_BYTES);
    tenants_metadata(kit->tenants, slice_of(id), &out);
    assert_string_equal(out.bytes, expected);
    buffer_deinit(&out);
}

static void test_create_with_everything(void **state)
{
    struct tenant_kit *kit = *state;
    const struct tenant_fields fields = {.given = TENANT_NAME | TENANT_WEIGHT | TENANT_STATE |
                                                  TENANT_METADATA,
                                         .name = SLICE("one"),
                                         .weight = LIMIT_WEIGHT,
                                         .state = TENANT_SUSPENDED,
                                         .metadata = SLICE("{\"k\":\"v\"}")};
    struct tenant made;
    struct tenant found;
    assert_int_equal(tenants_create(kit->tenants, &change, &fields, &made), STATUS_OK);
    for (int restart = 0; restart < 2; restart++) {
        assert_int_equal(tenants_get(kit->tenants, slice_of(made.id), &found), STATUS_OK);
        assert_int_equal(found.state, TENANT_SUSPENDED);
        assert_int_equal(found.weight, LIMIT_WEIGHT);
        assert_int_equal(found.revision, 1);
        assert_int_equal(found.created_at_s, KIT_START_S);
        check_metadata(kit, made.id, "{\"k\":\"v\"}");
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
    }
    const struct tenant_fields nothing = {0};
    assert_int_equal(tenants_create(kit->tenants, &change, &nothing, &made), STATUS_INVALID);
    assert_string_equal(status_note()->param, "name");
}

static void test_update(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant made = tenant_kit_tenant(kit, "one");
    tenant_kit_tenant(kit, "two");
    struct tenant out;
    const struct tenant_fields weight = {.given = TENANT_WEIGHT, .weight = 5};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &weight, &out),
                     STATUS_OK);
    assert_int_equal(out.weight, 5);
    assert_int_equal(out.revision, 2);
    assert_string_equal(out.name, "one");
    /* As it is: no revision, no row. */
    int64_t rows = tenant_kit_number(kit, "select count(*) from audit");
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &weight, &out),
                     STATUS_OK);
    assert_int_equal(out.revision, 2);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), rows);
    const struct tenant_fields taken = {.given = TENANT_NAME, .name = SLICE("two")};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &taken, &out),
                     STATUS_EXISTS);
    assert_string_equal(status_note()->param, "name");
    const struct tenant_fields all = {.given = TENANT_NAME | TENANT_STATE | TENANT_METADATA,
                                      .name = SLICE("uno"),
                                      .state = TENANT_SUSPENDED,
                                      .metadata = SLICE("{\"a\":\"b\"}")};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &all, &out),
                     STATUS_OK);
    assert_int_equal(out.revision, 3);
    const struct tenant_fields none = {.given = TENANT_METADATA, .metadata = SLICE("{}")};
    check_metadata(kit, made.id, "{\"a\":\"b\"}");
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &none, &out),
                     STATUS_OK);
    assert_int_equal(out.revision, 4);
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    assert_int_equal(tenants_get(kit->tenants, slice_of(made.id), &out), STATUS_OK);
    assert_string_equal(out.name, "uno");
    assert_int_equal(out.state, TENANT_SUSPENDED);
    assert_int_equal(out.weight, 5);
    assert_int_equal(out.revision, 4);
    check_metadata(kit, made.id, "{}");
    /* The name that it gave up is free. */
    tenant_kit_tenant(kit, "one");
}

/* The longest names that there are, every byte of them written as two: the audit row has room. */
static void test_groups(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant out;
    char text[LIMIT_NAME_BYTES - 1];
    memset(text, '"', sizeof text);
    const struct tenant_fields all = {.given = TENANT_NAME | TENANT_GROUP | TENANT_SHARE |
                                               TENANT_CACHE_SHARE | TENANT_STATE,
                                      .name = {text, sizeof text},
                                      .state = TENANT_SUSPENDED,
                                      .group = {text, sizeof text},
                                      .share = TENANT_SHARE_GROUP,
                                      .cache_share = 7};
    assert_int_equal(tenants_create(kit->tenants, &change, &all, &out), STATUS_OK);
    struct tenant made = tenant_kit_tenant(kit, "one");
    assert_string_equal(made.group, "");
    assert_int_equal(made.share, TENANT_SHARE_PRIVATE);
    assert_int_equal(made.cache_share, 100);
    const struct tenant_fields group = {.given = TENANT_GROUP, .group = {text, sizeof text}};
    const struct tenant_fields share = {.given = TENANT_SHARE, .share = TENANT_SHARE_GROUP};
    const struct tenant_fields part = {.given = TENANT_CACHE_SHARE, .cache_share = 9};
    const struct tenant_fields *one_by_one[] = {&group, &share, &part, &part};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(
            tenants_update(kit->tenants, &change, slice_of(made.id), one_by_one[i], &out),
            STATUS_OK);
    assert_int_equal(out.revision, 4); /* the last changed nothing */
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    assert_int_equal(tenants_get(kit->tenants, slice_of(made.id), &out), STATUS_OK);
    assert_int_equal(strlen(out.group), sizeof text);
    assert_int_equal(out.share, TENANT_SHARE_GROUP);
    assert_int_equal(out.cache_share, 9);
}

/* The index says how many there are: as if there were all but one. */
static void test_limit(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant out;
    const struct tenant_fields last = {.given = TENANT_NAME, .name = SLICE("last")};
    const struct tenant_fields more = {.given = TENANT_NAME, .name = SLICE("one more")};
    kit->tenants->by_id.count = LIMIT_TENANTS - 1;
    assert_int_equal(tenants_create(kit->tenants, &change, &last, &out), STATUS_OK);
    assert_int_equal(tenants_create(kit->tenants, &change, &more, &out), STATUS_CONFLICT);
    kit->tenants->by_id.count = 1;
    assert_int_equal(tenants_create(kit->tenants, &change, &more, &out), STATUS_OK);
}

static struct tenant_fields models_of(const char *text, size_t length)
{
    return (struct tenant_fields){.given = TENANT_MODELS, .models = {text, length}};
}

/* None named means all; what is named counts from the change on, and as many bytes as there is room
 * for come back from the file. */
static void test_models(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant out;
    char longest[LIMIT_TENANT_MODELS_BYTES];
    struct tenant made = tenant_kit_tenant(kit, "one");
    assert_true(tenant_allows_model(&made, SLICE("any")));
    struct tenant_fields fields = models_of("a\nsmall\n", 8);
    for (int i = 0; i < 2; i++) { /* the second time it changes nothing */
        assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &fields, &out),
                         STATUS_OK);
        assert_int_equal(out.revision, 2);
    }
    assert_true(tenant_allows_model(&out, SLICE("a")) && tenant_allows_model(&out, SLICE("small")));
    static const char *const others[] = {"", "b", "A", "smal", "smalls", "a\nsmall", "\n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(tenant_allows_model(&out, slice_of(others[i])));
    struct buffer text;
    buffer_init(&text, 64);
    tenant_models_append(&out, &text);
    assert_string_equal(text.bytes, "[\"a\",\"small\"]");
    buffer_deinit(&text);
    memset(longest, 'm', sizeof longest);
    longest[sizeof longest - 2] = '\n';
    fields = models_of(longest, sizeof longest);
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &fields, &out),
                     STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "models");
    fields = models_of(longest, sizeof longest - 1);
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &fields, &out),
                     STATUS_OK);
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    assert_int_equal(tenants_get(kit->tenants, slice_of(made.id), &out), STATUS_OK);
    assert_int_equal(strlen(out.models), sizeof longest - 1);
    assert_true(tenant_allows_model(&out, (struct slice){longest, sizeof longest - 2}));
}

/* The default is never above the best, whichever of them a change gives. */
static void test_classes(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant out;
    struct tenant made = tenant_kit_tenant(kit, "one");
    assert_int_equal(made.default_class, SERVICE_CLASS_STANDARD);
    assert_int_equal(made.best_class, SERVICE_CLASS_REALTIME);
    static const struct {
        unsigned given;
        enum service_class default_class;
        enum service_class best_class;
        const char *param; /* NULL: it is done */
        int64_t revision;
    } rows[] = {
        {TENANT_BEST_CLASS, 0, SERVICE_CLASS_BATCH, "best_class", 1},
        {TENANT_BEST_CLASS, 0, SERVICE_CLASS_STANDARD, NULL, 2},
        {TENANT_DEFAULT_CLASS, SERVICE_CLASS_REALTIME, 0, "default_class", 2},
        {TENANT_DEFAULT_CLASS, SERVICE_CLASS_BATCH, 0, NULL, 3},
        {TENANT_DEFAULT_CLASS | TENANT_BEST_CLASS, SERVICE_CLASS_STANDARD, SERVICE_CLASS_BATCH,
         "default_class", 3},
        {TENANT_DEFAULT_CLASS | TENANT_BEST_CLASS, SERVICE_CLASS_BATCH, SERVICE_CLASS_BATCH, NULL,
         4},
        {TENANT_DEFAULT_CLASS | TENANT_BEST_CLASS, SERVICE_CLASS_BATCH, SERVICE_CLASS_BATCH, NULL,
         4}, /* nothing new */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct tenant_fields fields = {.given = rows[i].given,
                                             .default_class = rows[i].default_class,
                                             .best_class = rows[i].best_class};
        enum status status =
            tenants_update(kit->tenants, &change, slice_of(made.id), &fields, &out);
        assert_int_equal(status, rows[i].param != NULL ? STATUS_INVALID : STATUS_OK);
        if (rows[i].param != NULL)
            assert_string_equal(status_note()->param, rows[i].param);
        else
            assert_int_equal(out.revision, rows[i].revision);
    }
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    assert_int_equal(tenants_get(kit->tenants, slice_of(made.id), &out), STATUS_OK);
    assert_int_equal(out.default_class, SERVICE_CLASS_BATCH);
    assert_int_equal(out.best_class, SERVICE_CLASS_BATCH);
    const struct tenant_fields wrong = {.given = TENANT_NAME | TENANT_BEST_CLASS,
                                        .name = SLICE("two"),
                                        .best_class = SERVICE_CLASS_BATCH};
    assert_int_equal(tenants_create(kit->tenants, &change, &wrong, &out), STATUS_INVALID);
    assert_string_equal(status_note()->param, "best_class");
}

static void test_refusals(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant made = tenant_kit_tenant(kit, "one");
    struct tenant out;
    static const struct {
        struct tenant_fields fields;
        enum status status;
        const char *param;
    } rows[] = {
        {{.given = TENANT_NAME, .name = {"", 0}}, STATUS_INVALID, "name"},
        {{.given = TENANT_WEIGHT, .weight = 0}, STATUS_OUT_OF_RANGE, "weight"},
        {{.given = TENANT_WEIGHT, .weight = LIMIT_WEIGHT + 1}, STATUS_OUT_OF_RANGE, "weight"},
        {{.given = TENANT_STATE, .state = TENANT_ARCHIVED}, STATUS_INVALID, "state"},
        {{.given = TENANT_GROUP, .group = {"a\n", 2}}, STATUS_INVALID, "group"},
        {{.given = TENANT_CACHE_SHARE, .cache_share = 0}, STATUS_OUT_OF_RANGE, "cache_share"},
        {{.given = TENANT_CACHE_SHARE, .cache_share = LIMIT_CACHE_SHARE + 1},
         STATUS_OUT_OF_RANGE,
         "cache_share"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(
            tenants_update(kit->tenants, &change, slice_of(made.id), &rows[i].fields, &out),
            rows[i].status);
        assert_string_equal(status_note()->param, rows[i].param);
    }
    char *text = malloc(LIMIT_METADATA_BYTES);
    memset(text, ' ', LIMIT_METADATA_BYTES);
    struct tenant_fields large = {.given = TENANT_METADATA,
                                  .metadata = {text, LIMIT_METADATA_BYTES}};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &large, &out),
                     STATUS_LIMIT);
    large.metadata.length--;
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &large, &out),
                     STATUS_OK);
    free(text);
    const struct tenant_fields weight = {.given = TENANT_WEIGHT, .weight = 5};
    assert_int_equal(tenants_update(kit->tenants, &change, SLICE("tnt_no"), &weight, &out),
                     STATUS_NOT_FOUND);
    const struct tenant_change other = {.actor = &actor, .revision_count = 1, .revisions = {1}};
    assert_int_equal(tenants_update(kit->tenants, &other, slice_of(made.id), &weight, &out),
                     STATUS_CHANGED);
    assert_int_equal(tenants_archive(kit->tenants, &other, slice_of(made.id), &out),
                     STATUS_CHANGED);
    const struct tenant_change right = {.actor = &actor, .revision_count = 1, .revisions = {2}};
    assert_int_equal(tenants_update(kit->tenants, &right, slice_of(made.id), &weight, &out),
                     STATUS_OK);
}

static void test_archive(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant made = tenant_kit_tenant(kit, "one");
    struct tenant out;
    char value[LIMIT_KEY_BYTES];
    tenant_kit_key(kit, made.id, value);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tenants_archive(kit->tenants, &change, slice_of(made.id), &out),
                         STATUS_OK);
        assert_int_equal(out.state, TENANT_ARCHIVED);
        assert_int_equal(out.revision, 2);
    }
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_ARCHIVED);
    const struct tenant_fields active = {.given = TENANT_STATE, .state = TENANT_ACTIVE};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &active, &out),
                     STATUS_CONFLICT);
    assert_int_equal(tenants_archive(kit->tenants, &change, SLICE("tnt_no"), &out),
                     STATUS_NOT_FOUND);
    tenant_kit_tenant(kit, "one"); /* its name is free */
    tenant_kit_stop(kit);
    tenant_kit_start(kit);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_ARCHIVED);
}

static void test_suspended_and_back(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant made = tenant_kit_tenant(kit, "one");
    struct tenant out;
    char value[LIMIT_KEY_BYTES];
    tenant_kit_key(kit, made.id, value);
    const struct tenant_fields suspended = {.given = TENANT_STATE, .state = TENANT_SUSPENDED};
    const struct tenant_fields active = {.given = TENANT_STATE, .state = TENANT_ACTIVE};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &suspended, &out),
                     STATUS_OK);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_SUSPENDED);
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &active, &out),
                     STATUS_OK);
    assert_int_equal(tenant_kit_match(kit, value), TENANT_MATCH_OPEN);
}

static void test_dry_run(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant made = tenant_kit_tenant(kit, "one");
    struct tenant out;
    const struct tenant_change dry = {.actor = &actor, .is_dry_run = true};
    const struct tenant_fields name = {.given = TENANT_NAME, .name = SLICE("two")};
    const struct tenant_fields taken = {.given = TENANT_NAME, .name = SLICE("one")};
    assert_int_equal(tenants_create(kit->tenants, &dry, &name, &out), STATUS_OK);
    assert_int_equal(tenants_get(kit->tenants, slice_of(out.id), &out), STATUS_NOT_FOUND);
    assert_int_equal(tenants_create(kit->tenants, &dry, &taken, &out), STATUS_EXISTS);
    assert_int_equal(tenants_update(kit->tenants, &dry, slice_of(made.id), &name, &out), STATUS_OK);
    assert_string_equal(out.name, "two");
    assert_int_equal(out.revision, 2);
    assert_int_equal(tenants_archive(kit->tenants, &dry, slice_of(made.id), &out), STATUS_OK);
    assert_int_equal(out.state, TENANT_ARCHIVED);
    assert_int_equal(tenants_get(kit->tenants, slice_of(made.id), &out), STATUS_OK);
    assert_string_equal(out.name, "one");
    assert_int_equal(out.state, TENANT_ACTIVE);
    assert_int_equal(out.revision, 1);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), 1);
}

/* The disk has no room: nothing is half changed, in memory or in the file. */
static void test_full_disk(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant made = tenant_kit_tenant(kit, "one");
    struct tenant out;
    static char text[3 * 4096]; /* more than the pages that are there can take */
    memset(text, 'x', sizeof text);
    memcpy(text, "{\"k\":\"", 6);
    memcpy(text + sizeof text - 2, "\"}", 2);
    const struct tenant_fields fields = {.given = TENANT_NAME | TENANT_METADATA,
                                         .name = SLICE("two"),
                                         .metadata = {text, sizeof text}};
    tenant_kit_fill_disk(kit, true);
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &fields, &out),
                     STATUS_STORAGE_FULL);
    assert_int_equal(tenants_create(kit->tenants, &change, &fields, &out), STATUS_STORAGE_FULL);
    tenant_kit_fill_disk(kit, false);
    for (int restart = 0; restart < 2; restart++) {
        assert_int_equal(tenants_get(kit->tenants, slice_of(made.id), &out), STATUS_OK);
        assert_string_equal(out.name, "one");
        assert_int_equal(out.revision, 1);
        check_metadata(kit, made.id, "{}");
        assert_int_equal(tenant_kit_number(kit, "select count(*) from tenants"), 1);
        assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), 1);
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
    }
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(made.id), &fields, &out),
                     STATUS_OK);
}

static void test_memory_fails_at_each_allocation(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant made = tenant_kit_tenant(kit, "one");
    const struct tenant_fields fields = {.given = TENANT_METADATA,
                                         .metadata = SLICE("{\"k\":\"v\"}")};
    struct tenant out;
    int failures = 0;
    for (int n = 1;; n++) {
        int left = n;
        mem_hook_set(kit_fail_at, &left);
        enum status status =
            tenants_update(kit->tenants, &change, slice_of(made.id), &fields, &out);
        mem_hook_set(NULL, NULL);
        if (left > 0) {
            assert_int_equal(status, STATUS_OK);
            break;
        }
        failures++;
        assert_int_equal(status, STATUS_NO_MEMORY);
        check_metadata(kit, made.id, "{}");
        assert_int_equal(tenant_kit_number(kit, "select max(revision) from tenants"), 1);
    }
    assert_true(failures >= 2);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, tenant_kit_setup, tenant_kit_teardown)
    const struct CMUnitTest tests[] = {
        T(test_create_with_everything),
        T(test_update),
        T(test_groups),
        T(test_classes),
        T(test_models),
        T(test_limit),
        T(test_refusals),
        T(test_archive),
        T(test_dry_run),
        T(test_suspended_and_back),
        T(test_full_disk),
        T(test_memory_fails_at_each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
