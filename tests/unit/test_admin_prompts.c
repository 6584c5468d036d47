/* admin_prompts: shapes, refusals, dry runs, revisions and kept answers over the config API. */
#include "gateway/admin/admin_prompts.h"

#include "tests/unit/edge_kit.h"

#define PROMPTS "/admin/v1/shared-prompts"

static void wait_ready(void)
{
    int code = 0;
    for (int i = 0; i < 3000 && code != 200; i++) {
        code = edge_kit_ask(kit.port, "GET", "/ready", "", "");
        if (code != 200)
            usleep(10000);
    }
    assert_int_equal(code, 200);
}

static int post(const char *body, const char *key)
{
    char headers[512];
    snprintf(headers, sizeof headers, "authorization: Bearer %s\r\nidempotency-key: %s\r\n",
             kit.admin_key, key);
    return edge_kit_ask(kit.admin_port, "POST", PROMPTS, headers, body);
}

static void test_life(void **state)
{
    (void)state;
    char body[512], id[64], path[128];
    wait_ready();
    snprintf(body, sizeof body,
             "{\"name\":\"brief\",\"messages\":[{\"role\":\"system\",\"content\":\"Be\\nbrief\"}],"
             "\"tenants\":[\"%s\"]}",
             kit.tenant_id);
    assert_int_equal(post(body, "life-1"), 201);
    edge_kit_member("id", id, sizeof id);
    assert_int_equal(strncmp(id, "spr_", 4), 0);
    edge_text_has(answer, "\"object\":\"shared_prompt\",\"name\":\"brief\",\"state\":\"published\","
                          "\"error\":null,\"tokens\":7,\"pages\":1,\"hits\":");
    edge_text_has(answer, "\"groups\":[],\"pin_until\":null,\"version\":1,");
    edge_text_has(answer, "etag: \"1\"");
    /* The same call: the same answer, and nothing new. */
    int posts = atomic_load(&engine_prompt_posts);
    char same[64];
    assert_int_equal(post(body, "life-1"), 201);
    edge_text_has(answer, "idempotent-replayed: true");
    edge_kit_member("id", same, sizeof same);
    assert_string_equal(id, same);
    assert_int_equal(atomic_load(&engine_prompt_posts), posts);
    assert_int_equal(post(body, "life-2"), 409); /* the name */
    snprintf(path, sizeof path, PROMPTS "/%s", id);
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_text_has(answer, ",\"messages\":[{\"role\":\"system\",\"content\":\"Be\\nbrief\"}]}");
    assert_int_equal(edge_kit_admin("GET", PROMPTS "?limit=1", ""), 200);
    edge_text_has(answer, "\"has_more\":false");
    assert_null(strstr(answer, "messages"));
    /* Dry run, then in earnest. */
    char dry[160];
    snprintf(dry, sizeof dry, "%s?dry_run=true", path);
    assert_int_equal(edge_kit_admin("PATCH", dry, "{\"tenants\":[]}"), 200);
    edge_text_has(answer, "\"tenants\":[],");
    edge_text_has(answer, "\"dry_run\":true");
    assert_int_equal(edge_kit_admin("PATCH", path, "{\"name\":\"short\",\"tenants\":[]}"), 200);
    edge_text_has(answer, "\"name\":\"short\"");
    edge_text_has(answer, "\"tenants\":[],\"groups\":[]");
    edge_text_has(answer, "\"revision\":2");
    assert_int_equal(edge_kit_admin("PATCH", path, "{\"messages\":[]}"), 400);
    assert_int_equal(edge_kit_admin("DELETE", dry, ""), 200);
    assert_int_equal(engine_prompts_held(), 1);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 404);
    assert_int_equal(edge_kit_admin("GET", path, ""), 404);
    for (int i = 0; i < 3000 && engine_prompts_held() != 0; i++)
        usleep(10000);
    assert_int_equal(engine_prompts_held(), 0);
    assert_int_equal(edge_kit_admin("GET", "/admin/v1/audit?limit=1&order=desc", ""), 200);
    edge_text_has(answer, "\"type\":\"prompt.unpublished\"");
}

static void refused(const char *body, int code, const char *param)
{
    char text[64];
    snprintf(text, sizeof text, "\"param\":%s%s%s", param[0] == '\0' ? "" : "\"",
             param[0] == '\0' ? "null" : param, param[0] == '\0' ? "" : "\"");
    if (edge_kit_admin("POST", PROMPTS, body) != code)
        fail_msg("%s: %s", body, answer);
    edge_text_has(answer, text);
}

static void test_refusals(void **state)
{
    (void)state;
    wait_ready();
    refused("{}", 400, "name");
    refused("{\"name\":\"x\"}", 400, "messages");
    refused("{\"name\":\"x\",\"text\":\"a\",\"messages\":[{\"role\":\"user\",\"content\":\"b\"}]}",
            400, "messages");
    refused("{\"name\":\"x\",\"text\":\"\"}", 400, "text");
    refused("{\"name\":\"x\",\"messages\":[]}", 400, "messages");
    refused("{\"name\":\"x\",\"messages\":[{\"role\":\"tool\",\"content\":\"b\"}]}", 400,
            "messages[0]");
    refused("{\"name\":\"x\",\"messages\":[{\"role\":\"user\"}]}", 400, "messages[0]");
    refused("{\"name\":\"x\",\"text\":\"a\",\"tenants\":\"all\"}", 400, "tenants");
    refused("{\"name\":\"x\",\"text\":\"a\",\"tenants\":[\"\"]}", 400, "tenants[0]");
    refused("{\"name\":\"x\",\"text\":\"a\",\"tenants\":[\"t\",\"t\"]}", 400, "tenants[1]");
    refused("{\"name\":\"x\",\"text\":\"a\",\"tenants\":[\"tnt_nobody\"]}", 404, "tenants[0]");
    refused("{\"name\":\"x\",\"text\":\"a\",\"groups\":[\"none\"]}", 404, "groups[0]");
    refused("{\"name\":\"x\",\"text\":\"a\",\"pin_until\":7}", 400, "pin_until");
    refused("{\"name\":\"x\",\"text\":\"a\",\"colour\":7}", 400, "colour");
    int posts = atomic_load(&engine_prompt_posts);
    assert_int_equal(posts >= 0, true);
    refused("{\"name\":\"x\",\"text\":\"too long\"}", 400, "");
    edge_text_has(answer, "context_length_exceeded");
    assert_int_equal(atomic_load(&engine_prompt_posts), posts + 1); /* the others never got there */
    /* A refused one leaves nothing: neither a row nor its idempotency key. */
    assert_int_equal(post("{\"name\":\"x\",\"text\":\"too long\"}", "again"), 400);
    assert_int_equal(
        edge_kit_admin("POST", PROMPTS "?dry_run=true", "{\"name\":\"x\",\"text\":\"a\"}"), 200);
    edge_text_has(answer, "\"tokens\":7,\"pages\":1");
    edge_text_has(answer, "\"dry_run\":true");
    assert_int_equal(post("{\"name\":\"x\",\"text\":\"too long\"}", "again"), 400);
    assert_int_equal(edge_kit_admin("GET", PROMPTS, ""), 200);
    edge_text_has(answer, "\"data\":[]");
    assert_int_equal(engine_prompts_held(), 0);
}

/* The engine computes; whoever changes something else meanwhile does not wait for it. */
static void test_nobody_waits(void **state)
{
    (void)state;
    wait_ready();
    atomic_store(&engine_prompt_waits, true);
    struct edge_kit_connection connection = edge_kit_connect(kit.admin_port);
    char headers[512];
    snprintf(headers, sizeof headers, "authorization: Bearer %s\r\nidempotency-key: slow\r\n",
             kit.admin_key);
    const char *body = "{\"name\":\"slow\",\"text\":\"a\"}";
    edge_kit_write(&connection, "POST", PROMPTS, headers, body);
    for (int i = 0; i < 3000; i++) { /* it has arrived when the same one is told to wait */
        if (post(body, "slow") == 409)
            break;
        usleep(10000);
    }
    edge_text_has(answer, "idempotency-key");
    assert_int_equal(edge_kit_admin("POST", "/admin/v1/tenants", "{\"name\":\"swift\"}"), 201);
    atomic_store(&engine_prompt_waits, false);
    edge_kit_read(&connection, NULL);
    edge_kit_close(&connection);
    assert_int_equal(strncmp(answer, "HTTP/1.1 201", 12), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_nobody_waits),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
