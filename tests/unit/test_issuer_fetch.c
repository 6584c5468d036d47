/* issuer_fetch: when a URL's keys are due, what comes of a set, a failure, a restart; how long keys
 * that have left are taken. */
#include "auth/tenants/issuer_fetch.h"

#include "tests/unit/issuer_kit.h"

#define ISS "https://issuer.example"
#define URL "https://issuer.example/keys"

enum { REFRESH_S = 300, OVERLAP_S = 100, KEYS = 3 };

struct fixture {
    struct issuer_kit *kit;
    struct jwt_kit_key keys[KEYS];
    struct issuer issuer;
};

static struct issuer_fields fields_url(const char *name, const char *iss)
{
    struct issuer_fields fields = issuer_kit_fields(name, iss, (struct slice){NULL, 0});
    fields.given = (fields.given & ~(unsigned)ISSUER_JWKS) | ISSUER_JWKS_URL | ISSUER_JWKS_OVERLAP;
    fields.algorithms &= ~(1u << AUTH_JWT_HS256);
    fields.jwks_url = SLICE(URL);
    fields.jwks_overlap_s = OVERLAP_S;
    return fields;
}

static int setup(void **state)
{
    static const char *const names[KEYS] = {"a", "b", "c"};
    struct fixture *fixture = calloc(1, sizeof *fixture);
    void *kit;
    issuer_kit_setup(&kit);
    fixture->kit = kit;
    for (size_t i = 0; i < KEYS; i++)
        fixture->keys[i] = jwt_kit_make(AUTH_JWT_EDDSA, names[i], 0);
    const struct issuer_fields fields = fields_url("idp", ISS);
    assert_int_equal(issuer_create(fixture->kit->issuers, &change, &fields, &fixture->issuer),
                     STATUS_OK);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    void *kit = fixture->kit;
    for (size_t i = 0; i < KEYS; i++)
        jwt_kit_free(&fixture->keys[i]);
    free(fixture);
    return issuer_kit_teardown(&kit);
}

static bool is_due(struct fixture *fixture)
{
    struct issuer_fetch fetch;
    bool is_one = issuer_fetch_next(fixture->kit->issuers, &fetch);
    if (is_one) {
        assert_string_equal(fetch.id, fixture->issuer.id);
        assert_string_equal(fetch.url, URL);
        assert_false(issuer_fetch_next(fixture->kit->issuers, &fetch)); /* once */
    }
    return is_one;
}

/* Keys `first` to `last` come, or an error. */
static bool come(struct fixture *fixture, size_t first, size_t count, const char *error)
{
    struct issuer_fetch fetch = {.url = URL};
    struct buffer json = jwt_kit_jwks(&fixture->keys[first], count);
    memcpy(fetch.id, fixture->issuer.id, sizeof fetch.id);
    bool is_good = issuer_fetch_done(fixture->kit->issuers, &fetch, buffer_slice(&json), error);
    buffer_deinit(&json);
    return is_good;
}

static bool has(struct fixture *fixture, const char *kid)
{
    uint64_t print = 0;
    int64_t now_s = clock_wall_us(&fixture->kit->base->clock) / 1000000;
    struct issuer_record *record = issuer_record_hold(fixture->kit->issuers, SLICE(ISS));
    bool is_there = issuer_record_key(record, kid, now_s, &print) != NULL;
    issuer_record_drop(record);
    assert_int_equal(is_there ? issuers_has_key(fixture->kit->issuers, print) : is_there, is_there);
    return is_there;
}

static struct issuer told(struct fixture *fixture)
{
    struct issuer issuer;
    assert_int_equal(issuer_get(fixture->kit->issuers, slice_of(fixture->issuer.id), &issuer),
                     STATUS_OK);
    return issuer;
}

static void test_rotation(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(told(fixture).key_count, 0);
    assert_true(is_due(fixture)); /* at once */
    assert_true(come(fixture, 0, 1, NULL));
    assert_true(has(fixture, "a"));
    assert_false(is_due(fixture));
    tenant_kit_pass(fixture->kit->base, REFRESH_S);
    assert_true(is_due(fixture));
    uint64_t epoch = issuers_epoch(fixture->kit->issuers);
    assert_true(come(fixture, 0, 1, NULL));
    assert_true(epoch == issuers_epoch(fixture->kit->issuers)); /* the same: nothing is forgotten */
    /* b takes a's place; a is taken until the overlap is over, and not a second longer. */
    tenant_kit_pass(fixture->kit->base, REFRESH_S);
    assert_true(is_due(fixture));
    assert_true(come(fixture, 1, 1, NULL));
    assert_true(has(fixture, "a"));
    assert_true(has(fixture, "b"));
    struct issuer issuer = told(fixture);
    assert_int_equal(issuer.key_count, 2);
    assert_int_equal(issuer.keys[0].until_s, 0);
    assert_int_equal(issuer.keys[1].until_s, issuer.jwks_fetched_at_s + OVERLAP_S);
    tenant_kit_pass(fixture->kit->base, OVERLAP_S - 1);
    assert_true(has(fixture, "a"));
    tenant_kit_pass(fixture->kit->base, 1);
    assert_false(has(fixture, "a"));
    assert_true(has(fixture, "b"));
    tenant_kit_pass(fixture->kit->base, REFRESH_S);
    assert_true(is_due(fixture));
    assert_true(come(fixture, 1, 2, NULL));
    assert_int_equal(told(fixture).key_count, 2);
    assert_int_equal(told(fixture).revision, 1);
}

/* What failed leaves the keys, is told, is tried again soon; a restart has the keys without the
 * URL. */
static void test_failure(void **state)
{
    struct fixture *fixture = *state;
    assert_true(is_due(fixture));
    assert_false(come(fixture, 0, 1, "nobody answers"));
    assert_string_equal(told(fixture).jwks_error, "nobody answers");
    assert_int_equal(told(fixture).jwks_fetched_at_s, 0);
    assert_int_equal(issuer_fetch_failing(fixture->kit->issuers), 1);
    assert_false(is_due(fixture));
    tenant_kit_pass(fixture->kit->base, LIMIT_JWKS_AGAIN_S);
    assert_true(is_due(fixture));
    assert_true(come(fixture, 0, 2, NULL));
    assert_string_equal(told(fixture).jwks_error, "");
    assert_int_equal(issuer_fetch_failing(fixture->kit->issuers), 0);
    /* Bytes that are no key set, and one without a key for us. */
    static const char *const wrong[] = {
        "",       "{",
        "{}",     "{\"keys\":[]}",
        "<html>", "{\"keys\":[{\"kty\":\"oct\",\"kid\":\"a\",\"k\":\"AAAA\"}]}"};
    struct issuer_fetch fetch = {.url = URL};
    memcpy(fetch.id, fixture->issuer.id, sizeof fetch.id);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(issuer_fetch_done(fixture->kit->issuers, &fetch, slice_of(wrong[i]), NULL));
        assert_true(told(fixture).jwks_error[0] != '\0');
        assert_true(has(fixture, "a") && has(fixture, "b"));
    }
    issuer_kit_restart(fixture->kit);
    assert_true(has(fixture, "a") && has(fixture, "b"));
    assert_true(is_due(fixture));
    assert_false(come(fixture, 0, 1, "nobody answers"));
    assert_true(has(fixture, "a") && has(fixture, "b"));
}

/* Tokens with unknown keys have it fetched, at most once a minute whatever they name. */
static void test_unknown_keys(void **state)
{
    struct fixture *fixture = *state;
    struct issuers *issuers = fixture->kit->issuers;
    assert_true(is_due(fixture));
    assert_true(come(fixture, 0, 1, NULL));
    int fetches = 0;
    for (int second = 0; second < 3 * LIMIT_JWKS_ASK_S - 1; second++) {
        struct issuer_record *record = issuer_record_hold(issuers, SLICE(ISS));
        enum issuer_news news = issuer_record_refresh(issuers, record);
        issuer_record_drop(record);
        assert_int_equal(news,
                         second % LIMIT_JWKS_ASK_S == 0 ? ISSUER_NEWS_AWAITED : ISSUER_NEWS_NONE);
        if (is_due(fixture)) {
            fetches++;
            assert_true(come(fixture, 0, 1, NULL));
        }
        tenant_kit_pass(fixture->kit->base, 1);
    }
    assert_int_equal(fetches, 3);
}

/* The source changes, the issuer goes: what comes too late is nobody's. */
static void test_too_late(void **state)
{
    struct fixture *fixture = *state;
    struct issuers *issuers = fixture->kit->issuers;
    struct issuer issuer;
    assert_true(is_due(fixture));
    const struct issuer_fields other = {.given = ISSUER_JWKS_URL,
                                        .jwks_url = SLICE("https://other.example/")};
    assert_int_equal(issuer_update(issuers, &change, slice_of(fixture->issuer.id), &other, &issuer),
                     STATUS_OK);
    assert_false(come(fixture, 0, 1, NULL));
    assert_int_equal(told(fixture).key_count, 0);
    /* Inline keys in the URL's place, and back again without any. */
    struct buffer json = jwt_kit_jwks(fixture->keys, 1);
    const struct issuer_fields set = {.given = ISSUER_JWKS, .jwks = buffer_slice(&json)};
    assert_int_equal(issuer_update(issuers, &change, slice_of(fixture->issuer.id), &set, &issuer),
                     STATUS_OK);
    assert_string_equal(issuer.jwks_url, "");
    assert_int_equal(issuer.key_count, 1);
    assert_false(is_due(fixture));
    const struct issuer_fields back = {.given = ISSUER_JWKS_URL, .jwks_url = SLICE(URL)};
    assert_int_equal(issuer_update(issuers, &change, slice_of(fixture->issuer.id), &back, &issuer),
                     STATUS_OK);
    assert_int_equal(issuer.key_count, 0);
    assert_true(is_due(fixture));
    /* Another rule leaves what was fetched. */
    assert_true(come(fixture, 0, 1, NULL));
    const struct issuer_fields rule = {.given = ISSUER_MAX_LIFETIME, .max_lifetime_s = 60};
    assert_int_equal(issuer_update(issuers, &change, slice_of(fixture->issuer.id), &rule, &issuer),
                     STATUS_OK);
    assert_int_equal(issuer.key_count, 1);
    assert_int_equal(issuer_delete(issuers, &change, slice_of(fixture->issuer.id), &issuer),
                     STATUS_OK);
    assert_false(come(fixture, 0, 1, NULL));
    buffer_deinit(&json);
}

static void test_bad_fields(void **state)
{
    struct fixture *fixture = *state;
    struct issuer issuer;
    static const char *const wrong[] = {"ftp://a/", "a", "https://a b/", "https://a/\x7f"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct issuer_fields fields = fields_url("x", "https://x");
        fields.jwks_url = slice_of(wrong[i]);
        assert_int_equal(issuer_create(fixture->kit->issuers, &change, &fields, &issuer),
                         STATUS_INVALID);
        assert_string_equal(status_note()->param, "jwks_url");
    }
    struct issuer_fields fields = fields_url("x", "https://x");
    fields.algorithms |= 1u << AUTH_JWT_HS256; /* a secret that anybody can fetch */
    assert_int_equal(issuer_create(fixture->kit->issuers, &change, &fields, &issuer),
                     STATUS_INVALID);
    assert_string_equal(status_note()->param, "algorithms");
    struct buffer json = jwt_kit_jwks(fixture->keys, 1);
    fields = fields_url("x", "https://x");
    fields.given |= ISSUER_JWKS;
    fields.jwks = buffer_slice(&json);
    assert_int_equal(issuer_create(fixture->kit->issuers, &change, &fields, &issuer),
                     STATUS_INVALID);
    assert_string_equal(status_note()->param, "jwks_url");
    buffer_deinit(&json);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(test_rotation), TEST(test_failure),
                                       TEST(test_unknown_keys), TEST(test_too_late),
                                       TEST(test_bad_fields)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
