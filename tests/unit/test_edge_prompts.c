/* edge_prompts: what the engine has is what the directory says, whoever dies meanwhile. */
#include "gateway/edge/engines/edge_prompts.h"

#include "tests/unit/edge_kit.h"

#define PROMPTS "/admin/v1/shared-prompts"

static void restart_engine(void)
{
    edge_kit_stop_engine();
    atomic_fetch_add(&engine_instance, 1);
    edge_kit_start_engine();
}

static void publish(const char *name, const char *text, int code, char *id, size_t capacity)
{
    char body[256];
    snprintf(body, sizeof body, "{\"name\":\"%s\",\"text\":\"%s\",\"tenants\":[\"%s\"]}", name,
             text, kit.tenant_id);
    if (edge_kit_admin("POST", PROMPTS, body) != code)
        fail_msg("%s", answer);
    if (code < 300)
        edge_kit_member("id", id, capacity);
}

static void look(const char *id, char *state, size_t capacity)
{
    char path[128];
    snprintf(path, sizeof path, PROMPTS "/%s", id);
    assert_int_equal(edge_kit_admin("GET", path, ""), 200);
    edge_kit_member("state", state, capacity);
}

static void wait_state(const char *id, const char *wanted)
{
    char state[32] = "";
    for (int i = 0; i < 3000; i++) {
        look(id, state, sizeof state);
        if (strcmp(state, wanted) == 0)
            return;
        usleep(10000);
    }
    fail_msg("the state stayed %s: %s", state, answer);
}

static void wait_held(int wanted)
{
    for (int i = 0; i < 3000 && engine_prompts_held() != wanted; i++)
        usleep(10000);
    assert_int_equal(engine_prompts_held(), wanted);
}

static void wait_ready(int code)
{
    int got = 0;
    for (int i = 0; i < 3000 && got != code; i++) {
        got = edge_kit_ask(kit.port, "GET", "/ready", "", "");
        if (got != code)
            usleep(10000);
    }
    assert_int_equal(got, code);
}

/* Hits come with the engine's list, which is read behind a check of its health. */
static void wait_hits(const char *id, int wanted)
{
    char part[64], word[32];
    snprintf(part, sizeof part, "\"hits\":%d,\"hit_tokens\":%d,", wanted, wanted * 7);
    for (int i = 0; i < 3000; i++) {
        look(id, word, sizeof word);
        if (strstr(answer, part) != NULL)
            return;
        usleep(10000);
        edge_kit_ask(kit.port, "GET", "/ready", "", "");
    }
    fail_msg("%s did not come: %s", part, answer);
}

static void delete (const char *id)
{
    char path[128];
    snprintf(path, sizeof path, PROMPTS "/%s", id);
    assert_int_equal(edge_kit_admin("DELETE", path, ""), 200);
}

/* Another engine has nothing: it is given everything before anybody hears "ready". */
static void test_another_engine(void **state)
{
    (void)state;
    char one[64], two[64], word[32];
    wait_ready(200);
    publish("one", "a", 201, one, sizeof one);
    publish("two", "b", 201, two, sizeof two);
    look(one, word, sizeof word);
    assert_string_equal(word, "published");
    assert_int_equal(engine_prompts_held(), 2);
    wait_hits(one, 3);
    int posts = atomic_load(&engine_prompt_posts);
    atomic_store(&engine_prompt_waits, true);
    restart_engine();
    wait_ready(503);
    for (int i = 0; i < 3000 && strstr(answer, "\"prompts\":\"computing\"") == NULL; i++)
        wait_ready(503);
    edge_text_has(answer, "\"prompts\":\"computing\"");
    look(one, word, sizeof word);
    assert_string_equal(word, "publishing");
    atomic_store(&engine_prompt_waits, false);
    wait_ready(200);
    assert_int_equal(engine_prompts_held(), 2);
    assert_int_equal(atomic_load(&engine_prompt_posts), posts + 2);
    wait_hits(one, 6); /* of both engines */
    delete (one);
    delete (two);
    wait_held(0);
}

/* The same engine under another edge: it is asked, and computes nothing again. */
static void test_another_edge(void **state)
{
    (void)state;
    char one[64], word[32];
    publish("one", "a", 201, one, sizeof one);
    int posts = atomic_load(&engine_prompt_posts);
    /* Left over from before, as after a crash between publishing and its row. */
    pthread_mutex_lock(&engine_lock);
    memset(engine_prompts[engine_prompts_count++], 'a', 32);
    pthread_mutex_unlock(&engine_lock);
    edge_kit_end();
    edge_kit_run();
    wait_ready(200);
    wait_state(one, "published");
    wait_held(1);
    assert_int_equal(atomic_load(&engine_prompt_posts), posts);
    look(one, word, sizeof word);
    edge_text_has(answer, "\"tokens\":7,\"pages\":1,\"hits\":3,\"hit_tokens\":21");
    delete (one);
    wait_held(0);
}

/* It dies at every publishing: tried again, and after three times it holds nobody up. */
static void test_dies_in_between(void **state)
{
    (void)state;
    char one[64];
    publish("one", "a", 201, one, sizeof one);
    int posts = atomic_load(&engine_prompt_posts);
    atomic_store(&engine_prompt_dies_left, 1 << 20);
    restart_engine();
    edge_kit_wait(&engine_prompt_posts, posts + 3);
    wait_ready(200);
    atomic_store(&engine_prompt_dies_left, 0);
    wait_state(one, "published");
    delete (one);
    wait_held(0);
}

static void test_no_engine(void **state)
{
    (void)state;
    char one[64], word[32];
    edge_kit_stop_engine();
    wait_ready(503);
    publish("one", "a", 202, one, sizeof one);
    edge_text_has(answer, "\"state\":\"publishing\",\"error\":null,\"tokens\":null,\"pages\":null");
    publish("two", "too long", 202, word, sizeof word);
    char two[64];
    edge_kit_member("id", two, sizeof two);
    atomic_fetch_add(&engine_instance, 1);
    edge_kit_start_engine();
    wait_ready(200);
    wait_state(one, "published");
    wait_state(two, "failed");
    edge_text_has(answer, "\"error\":\"the engine says context_length_exceeded\"");
    delete (one);
    delete (two);
    wait_held(0);
}

/* What was over the cap is tried again when another prompt has gone. */
static void test_room_again(void **state)
{
    (void)state;
    char one[64], two[64];
    edge_kit_stop_engine();
    wait_ready(503);
    publish("one", "a", 202, one, sizeof one);
    publish("two", "over the cap", 202, two, sizeof two);
    atomic_fetch_add(&engine_instance, 1);
    edge_kit_start_engine();
    wait_state(two, "failed");
    delete (one);
    wait_state(two, "published");
    delete (two);
    wait_held(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_engine),  cmocka_unit_test(test_another_edge),
        cmocka_unit_test(test_dies_in_between), cmocka_unit_test(test_no_engine),
        cmocka_unit_test(test_room_again),
    };
    return cmocka_run_group_tests(tests, edge_kit_setup, edge_kit_teardown);
}
