/* tenant_prompt: prompts, their grants, what tenants see of them; refusals, failures, restarts. */
#include "auth/tenants/tenant_prompt.h"

#include "auth/tenants/tenant_directory.h"
#include "tests/unit/tenant_kit.h"

#define CONTENT "{\"text\":\"You are brief.\"}"

static struct tenant in_group(struct tenant_kit *kit, const char *name, const char *group)
{
    struct tenant tenant;
    const struct tenant_fields fields = {
        .given = TENANT_NAME | TENANT_GROUP, .name = slice_of(name), .group = slice_of(group)};
    assert_int_equal(tenants_create(kit->tenants, &change, &fields, &tenant), STATUS_OK);
    return tenant;
}

static struct tenant_prompt_grant to_tenant(const struct tenant *tenant)
{
    struct tenant_prompt_grant grant = {0};
    memcpy(grant.tenant_id, tenant->id, sizeof grant.tenant_id);
    return grant;
}

static struct tenant_prompt_grant to_group(const char *group)
{
    struct tenant_prompt_grant grant = {0};
    snprintf(grant.group, sizeof grant.group, "%s", group);
    return grant;
}

static struct tenant_prompt_fields fields_of(const char *name,
                                             const struct tenant_prompt_grant *grants, size_t count)
{
    return (struct tenant_prompt_fields){.given = TENANT_PROMPT_NAME | TENANT_PROMPT_TENANTS |
                                                  TENANT_PROMPT_GROUPS,
                                         .name = slice_of(name),
                                         .grants = grants,
                                         .grant_count = count,
                                         .content = SLICE(CONTENT)};
}

static enum status publish_change(struct tenant_kit *kit, const struct tenant_change *how,
                                  const struct tenant_prompt_fields *fields,
                                  struct tenant_prompt *out)
{
    TRY(tenant_prompt_prepare(kit->tenants, fields, out));
    return tenant_prompt_create(kit->tenants, how, fields, out);
}

static enum status publish(struct tenant_kit *kit, const char *name,
                           const struct tenant_prompt_grant *grants, size_t count,
                           struct tenant_prompt *out)
{
    const struct tenant_prompt_fields fields = fields_of(name, grants, count);
    return publish_change(kit, &change, &fields, out);
}

/* Whether the tenant sees the prompt, and how many there are in all. */
static bool sees(struct tenant_kit *kit, const struct tenant *tenant,
                 const struct tenant_prompt *prompt, size_t in_all)
{
    const struct tenant_record *record = tenant_directory_find(kit->tenants, slice_of(tenant->id));
    bool is_seen = false;
    assert_int_equal(record->view.published_count, in_all);
    for (uint32_t i = 0; i < record->view.published_count; i++)
        is_seen = is_seen || memcmp(record->view.published[i], prompt->domain, 16) == 0;
    return is_seen;
}

static void check_content(struct tenant_kit *kit, const char *id, const char *expected)
{
    struct buffer out;
    buffer_init(&out, 1024);
    tenant_prompt_content(kit->tenants, slice_of(id), &out);
    if (expected == NULL)
        assert_int_equal(out.length, 0);
    else
        assert_string_equal(out.bytes, expected);
    buffer_deinit(&out);
}

static void test_publish_and_see(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant acme = tenant_kit_tenant(kit, "acme");
    struct tenant one = in_group(kit, "one", "labs");
    struct tenant other = tenant_kit_tenant(kit, "other");
    /* Twice, and the group before the tenant: they are kept in order, once. */
    const struct tenant_prompt_grant grants[] = {to_group("labs"), to_tenant(&acme),
                                                 to_tenant(&acme)};
    struct tenant_prompt made;
    assert_int_equal(publish(kit, "brief", grants, 3, &made), STATUS_OK);
    for (int restart = 0; restart < 2; restart++) {
        struct tenant_prompt found;
        struct tenant_prompt_grant read[LIMIT_PROMPT_GRANTS];
        assert_int_equal(tenant_prompt_get(kit->tenants, slice_of(made.id), &found), STATUS_OK);
        assert_string_equal(found.name, "brief");
        assert_memory_equal(found.domain, made.domain, sizeof made.domain);
        assert_int_equal(found.version, 1);
        assert_int_equal(found.revision, 1);
        assert_int_equal(found.pin_until_s, 0);
        assert_int_equal(found.created_at_s, KIT_START_S);
        assert_int_equal(found.tenants, 1);
        assert_int_equal(found.groups, 1);
        assert_int_equal(tenant_prompt_grants(kit->tenants, slice_of(made.id), read), 2);
        assert_string_equal(read[0].tenant_id, acme.id);
        assert_string_equal(read[1].group, "labs");
        check_content(kit, made.id, CONTENT);
        assert_true(sees(kit, &acme, &made, 1));
        assert_true(sees(kit, &one, &made, 1));
        assert_false(sees(kit, &other, &made, 0));
        tenant_kit_stop(kit);
        tenant_kit_start(kit);
    }
    /* Who joins the group sees it; who leaves it does not. */
    struct tenant joined = in_group(kit, "two", "labs");
    assert_true(sees(kit, &joined, &made, 1));
    const struct tenant_fields out = {.given = TENANT_GROUP, .group = SLICE("")};
    assert_int_equal(tenants_update(kit->tenants, &change, slice_of(one.id), &out, &one),
                     STATUS_OK);
    assert_false(sees(kit, &one, &made, 0));
    assert_int_equal(
        tenant_kit_number(kit, "select count(*) from audit where type = 'prompt.published'"), 1);
}

static void test_update(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant acme = tenant_kit_tenant(kit, "acme");
    struct tenant globex = tenant_kit_tenant(kit, "globex");
    const struct tenant_prompt_grant first = to_tenant(&acme);
    const struct tenant_prompt_grant second = to_tenant(&globex);
    struct tenant_prompt made;
    struct tenant_prompt out;
    assert_int_equal(publish(kit, "brief", &first, 1, &made), STATUS_OK);
    struct slice id = slice_of(made.id);
    /* Given away: at once, and the name stays. */
    const struct tenant_prompt_fields give = {
        .given = TENANT_PROMPT_TENANTS, .grants = &second, .grant_count = 1};
    assert_int_equal(tenant_prompt_update(kit->tenants, &change, id, &give, &out), STATUS_OK);
    assert_int_equal(out.revision, 2);
    assert_string_equal(out.name, "brief");
    assert_memory_equal(out.domain, made.domain, sizeof out.domain);
    assert_false(sees(kit, &acme, &made, 0));
    assert_true(sees(kit, &globex, &made, 1));
    assert_int_equal(
        tenant_kit_number(kit, "select count(*) from audit where type = 'prompt.updated' and "
                               "json_extract(detail, '$.granted[0]') = (select id from tenants "
                               "where name = 'globex') and json_extract(detail, '$.revoked[0]') = "
                               "(select id from tenants where name = 'acme')"),
        1);
    /* As it is: no revision, no row. */
    int64_t rows = tenant_kit_number(kit, "select count(*) from audit");
    assert_int_equal(tenant_prompt_update(kit->tenants, &change, id, &give, &out), STATUS_OK);
    assert_int_equal(out.revision, 2);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from audit"), rows);
    /* Revisions and dry runs. */
    struct tenant_change how = {.actor = &actor, .revision_count = 1, .revisions = {1}};
    const struct tenant_prompt_fields none = {.given = TENANT_PROMPT_TENANTS};
    assert_int_equal(tenant_prompt_update(kit->tenants, &how, id, &none, &out), STATUS_CHANGED);
    how = (struct tenant_change){.actor = &actor, .is_dry_run = true};
    assert_int_equal(tenant_prompt_update(kit->tenants, &how, id, &none, &out), STATUS_OK);
    assert_int_equal(out.tenants, 0);
    assert_true(sees(kit, &globex, &made, 1));
    assert_int_equal(tenant_prompt_update(kit->tenants, &change, id, &none, &out), STATUS_OK);
    assert_false(sees(kit, &globex, &made, 0));
    assert_int_equal(tenant_prompt_update(kit->tenants, &change, SLICE("spr_x"), &none, &out),
                     STATUS_NOT_FOUND);
}

static void test_expiry_and_return(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant acme = tenant_kit_tenant(kit, "acme");
    const struct tenant_prompt_grant grant = to_tenant(&acme);
    struct tenant_prompt_fields fields = fields_of("brief", &grant, 1);
    struct tenant_prompt made;
    struct tenant_prompt out;
    fields.given |= TENANT_PROMPT_PIN_UNTIL;
    fields.pin_until_s = KIT_START_S;
    assert_int_equal(publish_change(kit, &change, &fields, &made), STATUS_OUT_OF_RANGE);
    assert_string_equal(status_note()->param, "pin_until");
    fields.pin_until_s = KIT_START_S + 100;
    assert_int_equal(publish_change(kit, &change, &fields, &made), STATUS_OK);
    assert_false(tenant_prompt_is_expired(&made, KIT_START_S + 99));
    assert_true(tenant_prompt_is_expired(&made, KIT_START_S + 100));
    /* Longer while it lives: the same domain. */
    const struct tenant_prompt_fields longer = {.given = TENANT_PROMPT_PIN_UNTIL,
                                                .pin_until_s = KIT_START_S + 200};
    assert_int_equal(tenant_prompt_update(kit->tenants, &change, slice_of(made.id), &longer, &out),
                     STATUS_OK);
    assert_int_equal(out.version, 1);
    tenant_kit_pass(kit, 200);
    tenant_kit_stop(kit);
    tenant_kit_start(kit); /* an expired one is seen by nobody */
    assert_false(sees(kit, &acme, &made, 0));
    const struct tenant_prompt_fields for_good = {.given = TENANT_PROMPT_PIN_UNTIL};
    assert_int_equal(
        tenant_prompt_update(kit->tenants, &change, slice_of(made.id), &for_good, &out), STATUS_OK);
    assert_int_equal(out.version, 2);
    assert_memory_not_equal(out.domain, made.domain, sizeof out.domain);
    assert_true(sees(kit, &acme, &out, 1));
}

static void test_refusals(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant acme = tenant_kit_tenant(kit, "acme");
    struct tenant gone = in_group(kit, "gone", "ghosts");
    struct tenant_prompt made;
    assert_int_equal(tenants_archive(kit->tenants, &change, slice_of(gone.id), &gone), STATUS_OK);
    const struct tenant_prompt_grant unknown = {.tenant_id = "tnt_nobody"};
    const struct tenant_prompt_grant both[] = {to_tenant(&acme), unknown};
    assert_int_equal(publish(kit, "a", both, 2, &made), STATUS_NOT_FOUND);
    assert_string_equal(status_note()->param, "tenants[1]");
    assert_non_null(strstr(status_note()->message, "tnt_nobody"));
    const struct tenant_prompt_grant nowhere = to_group("nowhere");
    assert_int_equal(publish(kit, "a", &nowhere, 1, &made), STATUS_NOT_FOUND);
    assert_string_equal(status_note()->param, "groups[0]");
    const struct tenant_prompt_grant archived = to_tenant(&gone);
    assert_int_equal(publish(kit, "a", &archived, 1, &made), STATUS_CONFLICT);
    assert_int_equal(publish(kit, "", NULL, 0, &made), STATUS_INVALID);
    const struct tenant_prompt_fields nameless = {.content = SLICE(CONTENT)};
    assert_int_equal(tenant_prompt_prepare(kit->tenants, &nameless, &made), STATUS_INVALID);
    assert_int_equal(publish(kit, "a", NULL, 0, &made), STATUS_OK);
    struct tenant_prompt again;
    assert_int_equal(publish(kit, "a", NULL, 0, &again), STATUS_EXISTS);
    assert_int_equal(publish(kit, "b", NULL, 0, &again), STATUS_OK);
    const struct tenant_prompt_fields taken = {.given = TENANT_PROMPT_NAME, .name = SLICE("a")};
    assert_int_equal(
        tenant_prompt_update(kit->tenants, &change, slice_of(again.id), &taken, &again),
        STATUS_EXISTS);
    /* Nothing of all this is in the file. */
    assert_int_equal(tenant_kit_number(kit, "select count(*) from prompts"), 2);
    assert_int_equal(tenant_kit_number(kit, "select count(*) from prompt_grants"), 0);
}

static void test_delete(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant acme = tenant_kit_tenant(kit, "acme");
    const struct tenant_prompt_grant grant = to_tenant(&acme);
    struct tenant_prompt made;
    struct tenant_prompt second;
    struct tenant_prompt out;
    const struct tenant_change dry = {.actor = &actor, .is_dry_run = true};
    assert_int_equal(publish(kit, "a", &grant, 1, &made), STATUS_OK);
    assert_int_equal(publish(kit, "b", &grant, 1, &second), STATUS_OK);
    assert_true(sees(kit, &acme, &made, 2));
    assert_int_equal(tenant_prompt_delete(kit->tenants, &dry, slice_of(made.id), &out), STATUS_OK);
    assert_true(sees(kit, &acme, &made, 2));
    assert_int_equal(tenant_prompt_delete(kit->tenants, &change, slice_of(made.id), &out),
                     STATUS_OK);
    assert_false(sees(kit, &acme, &made, 1));
    assert_int_equal(tenant_prompt_delete(kit->tenants, &change, slice_of(made.id), &out),
                     STATUS_NOT_FOUND);
    check_content(kit, made.id, NULL);
    assert_int_equal(publish(kit, "a", &grant, 1, &made), STATUS_OK); /* the name is free */
    size_t count = 0;
    bool has_more = false;
    struct tenant_prompt rows[2];
    assert_int_equal(tenant_prompt_list(kit->tenants, SLICE(""), rows, 1, &count, &has_more),
                     STATUS_OK);
    assert_string_equal(rows[0].name, "b");
    assert_true(has_more);
    assert_int_equal(
        tenant_prompt_list(kit->tenants, slice_of(rows[0].id), rows, 2, &count, &has_more),
        STATUS_OK);
    assert_int_equal(count, 1);
    assert_string_equal(rows[0].id, made.id);
    assert_false(has_more);
    assert_int_equal(tenant_prompt_list(kit->tenants, SLICE("spr_x"), rows, 2, &count, &has_more),
                     STATUS_INVALID);
}

/* One more than a tenant may see, and one more than may be published. */
static void test_limits(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant acme = in_group(kit, "acme", "labs");
    const struct tenant_prompt_grant grants[] = {to_tenant(&acme), to_group("labs")};
    struct tenant_prompt made;
    char name[16];
    for (int i = 0; i < LIMIT_PROMPTS; i++) {
        snprintf(name, sizeof name, "p%d", i);
        size_t count = i < LIMIT_PROMPTS_VISIBLE ? 1 : 0;
        assert_int_equal(publish(kit, name, &grants[i % 2], count, &made), STATUS_OK);
    }
    assert_int_equal(publish(kit, "more", NULL, 0, &made), STATUS_CONFLICT);
    assert_non_null(strstr(status_note()->message, "256"));
    const struct tenant_prompt_fields one_more = {
        .given = TENANT_PROMPT_TENANTS, .grants = grants, .grant_count = 1};
    struct tenant_prompt last;
    size_t count;
    bool has_more;
    struct tenant_prompt rows[LIMIT_PROMPTS];
    assert_int_equal(
        tenant_prompt_list(kit->tenants, SLICE(""), rows, LIMIT_PROMPTS, &count, &has_more),
        STATUS_OK);
    assert_int_equal(count, LIMIT_PROMPTS);
    assert_int_equal(tenant_prompt_update(kit->tenants, &change,
                                          slice_of(rows[LIMIT_PROMPTS - 1].id), &one_more, &last),
                     STATUS_CONFLICT);
    assert_string_equal(status_note()->param, "tenants");
    assert_true(sees(kit, &acme, &rows[0], LIMIT_PROMPTS_VISIBLE));
}

static void test_disk_full(void **state)
{
    struct tenant_kit *kit = *state;
    struct tenant acme = tenant_kit_tenant(kit, "acme");
    const struct tenant_prompt_grant grant = to_tenant(&acme);
    struct tenant_prompt made;
    struct tenant_prompt out;
    assert_int_equal(publish(kit, "a", &grant, 1, &made), STATUS_OK);
    static char text[200000];
    memset(text, 'x', sizeof text);
    memcpy(text, "{\"text\":\"", 9);
    memcpy(text + sizeof text - 2, "\"}", 2);
    struct tenant_prompt_fields large = fields_of("large", &grant, 1);
    large.content = (struct slice){text, sizeof text};
    tenant_kit_fill_disk(kit, true);
    assert_int_equal(publish_change(kit, &change, &large, &out), STATUS_STORAGE_FULL);
    assert_true(sees(kit, &acme, &made, 1));
    tenant_kit_fill_disk(kit, false);
    assert_int_equal(publish_change(kit, &change, &large, &out), STATUS_OK);
    assert_true(sees(kit, &acme, &out, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_publish_and_see, tenant_kit_setup,
                                        tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_update, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_expiry_and_return, tenant_kit_setup,
                                        tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_refusals, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_delete, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_limits, tenant_kit_setup, tenant_kit_teardown),
        cmocka_unit_test_setup_teardown(test_disk_full, tenant_kit_setup, tenant_kit_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
