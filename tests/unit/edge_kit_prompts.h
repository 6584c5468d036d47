/* edge_kit_prompts: the scripted engine's published prompts, which it forgets with its instance.
 *
 *   a content with "too long" is refused 400, with "over the cap" 409; the next
 *   `engine_prompt_dies_left` publishings end without an answer
 *
 * Owns:     up to ENGINE_PROMPTS_MAX domains.
 * Thread:   any.
 * Cost:     –
 * Not here: the rest of the engine (edge_kit_engine, edge_kit_ring).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { ENGINE_PROMPTS_MAX = 64 };
static char engine_prompts[ENGINE_PROMPTS_MAX][33]; /* under engine_lock */
static int engine_prompts_count;
static int engine_prompts_instance; /* whose they are */
static _Atomic int engine_prompt_posts;
static _Atomic int engine_prompt_dies_left;
static _Atomic bool engine_prompt_waits; /* publishings are not answered */

static int engine_prompt_find(const char *domain)
{
    for (int i = 0; i < engine_prompts_count; i++) {
        if (strncmp(engine_prompts[i], domain, 32) == 0)
            return i;
    }
    return -1;
}

static void engine_prompt_list(int fd)
{
    static _Thread_local char text[ENGINE_PROMPTS_MAX * 128];
    size_t length = (size_t)snprintf(text, sizeof text, "{\"object\":\"list\",\"data\":[");
    for (int i = 0; i < engine_prompts_count; i++)
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "%s{\"domain\":\"%s\",\"tokens\":7,\"pages\":1,\"hits\":3,"
                                   "\"hit_tokens\":21}",
                                   i > 0 ? "," : "", engine_prompts[i]);
    snprintf(text + length, sizeof text - length, "]}");
    engine_json(fd, "200 OK", text);
}

static void engine_prompt_refuse(int fd, const char *status, const char *code)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\"error\":{\"message\":\"the engine says %s\",\"type\":\"invalid_request_error\","
             "\"param\":null,\"code\":\"%s\"}}",
             code, code);
    engine_json(fd, status, text);
}

static void engine_prompt_publish(int fd, const char *body)
{
    const char *domain = strstr(body, "\"domain\":\"");
    atomic_fetch_add(&engine_prompt_posts, 1);
    if (domain == NULL) {
        engine_prompt_refuse(fd, "400 Bad Request", "invalid");
    } else if (atomic_load(&engine_prompt_dies_left) > 0) {
        atomic_fetch_sub(&engine_prompt_dies_left, 1);
        shutdown(fd, SHUT_RDWR);
    } else if (strstr(body, "too long") != NULL) {
        engine_prompt_refuse(fd, "400 Bad Request", "context_length_exceeded");
    } else if (strstr(body, "over the cap") != NULL && engine_prompts_count > 0) {
        engine_prompt_refuse(fd, "409 Conflict", "conflict");
    } else if (strstr(body, "\"dry_run\":true") != NULL) {
        engine_json(fd, "200 OK", "{\"tokens\":7,\"pages\":1,\"dry_run\":true}");
    } else {
        if (engine_prompt_find(domain + 10) < 0 && engine_prompts_count < ENGINE_PROMPTS_MAX)
            memcpy(engine_prompts[engine_prompts_count++], domain + 10, 32);
        engine_json(fd, "200 OK", "{\"tokens\":7,\"pages\":1}");
    }
}

/* True when the request was for them. */
static bool engine_answer_prompts(int fd, const char *head, const char *body, int instance)
{
    if (strstr(head, " /internal/v1/prompts") == NULL)
        return false;
    while (strncmp(head, "POST ", 5) == 0 && atomic_load(&engine_prompt_waits))
        usleep(1000);
    pthread_mutex_lock(&engine_lock);
    if (engine_prompts_instance != instance)
        engine_prompts_count = 0;
    engine_prompts_instance = instance;
    if (strncmp(head, "GET ", 4) == 0) {
        engine_prompt_list(fd);
    } else if (strncmp(head, "POST ", 5) == 0) {
        engine_prompt_publish(fd, body);
    } else {
        int found = engine_prompt_find(strstr(head, "prompts/") + 8);
        if (found >= 0)
            memcpy(engine_prompts[found], engine_prompts[--engine_prompts_count], 33);
        engine_json(fd, "200 OK", "{\"unpublished\":true}");
    }
    pthread_mutex_unlock(&engine_lock);
    return true;
}

static __attribute__((unused)) int engine_prompts_held(void)
{
    pthread_mutex_lock(&engine_lock);
    int count = engine_prompts_instance == atomic_load(&engine_instance) ? engine_prompts_count : 0;
    pthread_mutex_unlock(&engine_lock);
    return count;
}
