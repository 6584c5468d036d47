#include "gateway/edge/engines/edge_prompts.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>

#include "config/base/clock.h"
#include "config/base/log.h"
#include "config/base/mem.h"

enum {
    ANSWER_BYTES_MAX = 1024 * 1024, /* LIMIT_PROMPTS rows are 40 KiB */
    AGAIN_MS = 100,
    AGAIN_MS_MAX = 5000,
    CUTS_MOST = 3, /* broken exchanges after which a prompt no longer delays readiness */
    HEX_BYTES = 33,
};

struct item {
    struct item *next;
    uint8_t domain[16];
    char id[LIMIT_ID_BYTES]; /* "" until the directory has its row */
    struct edge_prompts_figures figures;
    uint64_t hits_before; /* hits of earlier engines */
    uint64_t hit_tokens_before;
    struct edge_prompts_waiter *waiter;
    uint32_t cuts;
    bool holds_ready;  /* the edge is not ready before it is published */
    bool is_tentative; /* between edge_prompts_publish and edge_prompts_settle */
    bool is_listed;    /* the directory has it; set during edge_prompts_sync */
};

enum asked { ASKED_LIST, ASKED_PUBLISH, ASKED_UNPUBLISH };

struct edge_prompts {
    struct loop *loop;
    struct http1_client *client;
    struct tenants *tenants;
    pthread_mutex_t look; /* guards the list and the items' figures; only the loop changes them */
    struct item *items;   /* oldest first */
    struct http1_exchange *exchange;
    enum asked asked;
    uint8_t asked_domain[16];
    struct loop_timer *again;
    uint32_t again_ms;
    bool is_waiting; /* `again` is armed */
    bool is_up;
    bool is_known;    /* this engine's list was read */
    bool is_list_due; /* the list must be read again for its hits */
    int code;
    char instance[EDGE_PROBE_INSTANCE_BYTES];
    struct buffer body; /* of the request under way */
    struct buffer incoming;
    struct tenant_prompt listed[LIMIT_PROMPTS];
};

static void pump(struct edge_prompts *prompts);

/* --- items --- */

static void hex_of(const uint8_t domain[16], char out[HEX_BYTES])
{
    for (size_t i = 0; i < 16; i++)
        snprintf(out + 2 * i, 3, "%02x", domain[i]);
}

static struct item *item_find(const struct edge_prompts *prompts, const uint8_t domain[16])
{
    struct item *item = prompts->items;
    while (item != NULL && memcmp(item->domain, domain, sizeof item->domain) != 0)
        item = item->next;
    return item;
}

static struct item *item_find_leaving(const struct edge_prompts *prompts)
{
    struct item *item = prompts->items;
    while (item != NULL && item->figures.state != EDGE_PROMPTS_LEAVING)
        item = item->next;
    return item;
}

/* The oldest prompt that must be published and whose content is at hand: in its row or its waiter.
 * */
static struct item *item_find_wanted(const struct edge_prompts *prompts)
{
    struct item *item = prompts->items;
    while (item != NULL && (item->figures.state != EDGE_PROMPTS_PUBLISHING ||
                            (item->is_tentative && item->waiter == NULL)))
        item = item->next;
    return item;
}

/* Appends an item to the list; NULL without memory. */
static struct item *item_add(struct edge_prompts *prompts, const uint8_t domain[16],
                             enum edge_prompts_state state)
{
    struct item *item = mem_zalloc(1, sizeof *item);
    if (item == NULL)
        return NULL;
    memcpy(item->domain, domain, sizeof item->domain);
    item->figures.state = state;
    pthread_mutex_lock(&prompts->look);
    struct item **end = &prompts->items;
    while (*end != NULL)
        end = &(*end)->next;
    *end = item;
    pthread_mutex_unlock(&prompts->look);
    return item;
}

static void item_drop(struct edge_prompts *prompts, struct item *item)
{
    ASSERT(item->waiter == NULL);
    pthread_mutex_lock(&prompts->look);
    struct item **at = &prompts->items;
    while (*at != item)
        at = &(*at)->next;
    *at = item->next;
    pthread_mutex_unlock(&prompts->look);
    mem_free(item);
}

static void item_set(struct edge_prompts *prompts, struct item *item, enum edge_prompts_state state,
                     const char *error)
{
    pthread_mutex_lock(&prompts->look);
    item->figures.state = state;
    snprintf(item->figures.error, sizeof item->figures.error, "%s", error);
    pthread_mutex_unlock(&prompts->look);
}

static void item_set_size(struct edge_prompts *prompts, struct item *item, uint32_t tokens,
                          uint32_t pages)
{
    pthread_mutex_lock(&prompts->look);
    item->figures.tokens = tokens;
    item->figures.pages = pages;
    pthread_mutex_unlock(&prompts->look);
}

static void item_leave(struct edge_prompts *prompts, struct item *item)
{
    item->holds_ready = false;
    item_set(prompts, item, EDGE_PROMPTS_LEAVING, "");
}

/* The waiter's storage may be gone when this returns. */
static void item_tell(struct item *item, enum status status)
{
    struct edge_prompts_waiter *waiter = item->waiter;
    item->waiter = NULL;
    if (waiter != NULL)
        waiter->told(waiter->context, status, item->figures.tokens, item->figures.pages);
}

static enum status tell_unavailable(void)
{
    return status_fail(STATUS_UNAVAILABLE, __FILE__, __LINE__, NULL,
                       "The engine is not there now; try again shortly.");
}

/* Unless an exchange is under way, tells all waiters that there is no engine. */
static void tell_all(struct edge_prompts *prompts)
{
    for (struct item *item = prompts->items; item != NULL; item = item->next) {
        if (prompts->exchange == NULL)
            item_tell(item, tell_unavailable());
    }
}

/* --- what the engine says --- */

static uint32_t answer_number(const json_t *row, const char *name)
{
    json_int_t number = json_integer_value(json_object_get(row, name));
    return number > 0 && number <= UINT32_MAX ? (uint32_t)number : 0;
}

static uint64_t answer_count(const json_t *row, const char *name)
{
    json_int_t number = json_integer_value(json_object_get(row, name));
    return number > 0 ? (uint64_t)number : 0;
}

static bool answer_domain(const json_t *row, uint8_t out[16])
{
    const char *text = json_string_value(json_object_get(row, "domain"));
    if (text == NULL || strlen(text) != HEX_BYTES - 1 ||
        strspn(text, "0123456789abcdef") != HEX_BYTES - 1)
        return false;
    for (size_t i = 0; i < 16; i++) {
        unsigned byte = 0;
        (void)sscanf(text + 2 * i, "%2x", &byte);
        out[i] = (uint8_t)byte;
    }
    return true;
}

/* Reads a prompt that this engine has: one of the directory, or one that must be removed. */
static void list_row(struct edge_prompts *prompts, const json_t *row)
{
    uint8_t domain[16];
    if (!answer_domain(row, domain))
        return;
    struct item *item = item_find(prompts, domain);
    if (item == NULL) {
        (void)item_add(prompts, domain, EDGE_PROMPTS_LEAVING); /* without memory: next time */
        return;
    }
    if (item->figures.state == EDGE_PROMPTS_LEAVING)
        return;
    item_set_size(prompts, item, answer_number(row, "tokens"), answer_number(row, "pages"));
    pthread_mutex_lock(&prompts->look);
    item->figures.hits = item->hits_before + answer_count(row, "hits");
    item->figures.hit_tokens = item->hit_tokens_before + answer_count(row, "hit_tokens");
    pthread_mutex_unlock(&prompts->look);
    item->holds_ready = false;
    /* Last, so that a thread that sees PUBLISHED sees the other figures too. */
    item_set(prompts, item, EDGE_PROMPTS_PUBLISHED, "");
    item_tell(item, STATUS_OK);
}

static bool list_over(struct edge_prompts *prompts, const json_t *root)
{
    const json_t *rows = json_object_get(root, "data");
    if (!json_is_array(rows))
        return false;
    prompts->is_known = true;
    prompts->is_list_due = false;
    for (size_t i = 0; i < json_array_size(rows); i++)
        list_row(prompts, json_array_get(rows, i));
    return true;
}

/* Turns the engine's refusal into this process's error note. */
static enum status refused_status(const json_t *root, int code)
{
    const json_t *error = json_object_get(root, "error");
    const char *message = json_string_value(json_object_get(error, "message"));
    const char *param = json_string_value(json_object_get(error, "param"));
    const char *word = json_string_value(json_object_get(error, "code"));
    bool is_long = word != NULL && strcmp(word, "context_length_exceeded") == 0;
    enum status status = code == 409   ? STATUS_CONFLICT
                         : code == 413 ? STATUS_LIMIT
                         : is_long     ? STATUS_CONTEXT_LENGTH
                                       : STATUS_INVALID;
    return status_fail(status, __FILE__, __LINE__, param, "%s",
                       message != NULL ? message : "The engine refuses the prompt.");
}

static void publish_refused(struct edge_prompts *prompts, struct item *item, const json_t *root)
{
    enum status status = refused_status(root, prompts->code);
    if (!item->is_tentative)
        LOG(LOG_WARN, "prompt_failed", LOG_TEXT("id", item->id),
            LOG_TEXT("reason", status_note()->message));
    item->holds_ready = false;
    item_set(prompts, item, EDGE_PROMPTS_FAILED, status_note()->message);
    item_tell(item, status);
}

static void publish_over(struct edge_prompts *prompts, struct item *item, const json_t *root)
{
    bool is_dry_run = item->waiter != NULL && item->waiter->is_dry_run;
    item->cuts = 0;
    item->holds_ready = false;
    item_set_size(prompts, item, answer_number(root, "tokens"), answer_number(root, "pages"));
    item_set(prompts, item, EDGE_PROMPTS_PUBLISHED, "");
    item_tell(item, STATUS_OK);
    if (is_dry_run)
        item_drop(prompts, item);
}

/* A prompt was removed: prompts that the engine refused may fit now and are tried again. */
static void unpublish_over(struct edge_prompts *prompts, struct item *item)
{
    item_drop(prompts, item);
    for (struct item *at = prompts->items; at != NULL; at = at->next) {
        if (at->figures.state == EDGE_PROMPTS_FAILED && !at->is_tentative)
            item_set(prompts, at, EDGE_PROMPTS_PUBLISHING, "");
    }
}

/* Handles the engine's answer; returns whether it was usable. */
static bool ended_read(struct edge_prompts *prompts, struct item *item)
{
    json_t *root = json_loadb(prompts->incoming.bytes != NULL ? prompts->incoming.bytes : "",
                              prompts->incoming.length, JSON_REJECT_DUPLICATES, NULL);
    bool is_done = prompts->code == 200;
    bool is_refused = prompts->code >= 400 && prompts->code < 499;
    bool is_leaving = item != NULL && item->figures.state == EDGE_PROMPTS_LEAVING;
    if (prompts->asked == ASKED_LIST)
        is_done = is_done && list_over(prompts, root);
    else if (item == NULL || (prompts->asked == ASKED_PUBLISH && is_leaving))
        is_done = true; /* pump removes it next */
    else if (prompts->asked == ASKED_UNPUBLISH && is_done)
        unpublish_over(prompts, item);
    else if (prompts->asked == ASKED_PUBLISH && is_done)
        publish_over(prompts, item, root);
    else if (prompts->asked == ASKED_PUBLISH && is_refused)
        publish_refused(prompts, item, root);
    json_decref(root);
    return is_done || (is_refused && prompts->asked == ASKED_PUBLISH);
}

/* The engine went away, was busy, or gave an unusable answer. */
static void ended_badly(struct edge_prompts *prompts, struct item *item)
{
    if (prompts->asked == ASKED_PUBLISH && item != NULL) {
        item->cuts++;
        item->holds_ready = item->holds_ready && item->cuts < CUTS_MOST;
        item_tell(item, tell_unavailable());
    }
    prompts->is_waiting = true;
    loop_timer_arm(prompts->again, prompts->again_ms);
    prompts->again_ms = prompts->again_ms * 2 < AGAIN_MS_MAX ? prompts->again_ms * 2 : AGAIN_MS_MAX;
}

/* --- asking --- */

static void ask_head(void *context, const struct http1_head *head)
{
    struct edge_prompts *prompts = context;
    prompts->code = head->code;
}

static void ask_body(void *context, struct slice bytes)
{
    struct edge_prompts *prompts = context;
    buffer_append_slice(&prompts->incoming, bytes);
}

static void ask_ended(void *context, enum status status)
{
    struct edge_prompts *prompts = context;
    struct item *item = item_find(prompts, prompts->asked_domain);
    prompts->exchange = NULL;
    if (prompts->again == NULL) /* edge_prompts_destroy */
        return;
    if (status == STATUS_OK)
        status = prompts->incoming.status;
    if (status == STATUS_OK && ended_read(prompts, item))
        prompts->again_ms = AGAIN_MS;
    else
        ended_badly(prompts, item);
    pump(prompts);
}

static void ask(struct edge_prompts *prompts, enum asked asked, const struct item *item,
                const char *head)
{
    static const struct http1_callbacks callbacks = {ask_head, ask_body, ask_ended};
    static const uint8_t nobody[16] = {0};
    struct http1_exchange *exchange = NULL;
    prompts->asked = asked;
    memcpy(prompts->asked_domain, item != NULL ? item->domain : nobody, sizeof nobody);
    prompts->code = 0;
    buffer_clear(&prompts->incoming);
    if (http1_exchange_start(prompts->client, slice_of(head), buffer_slice(&prompts->body),
                             &callbacks, prompts, &exchange) == STATUS_OK)
        prompts->exchange = exchange;
    else
        ended_badly(prompts, item_find(prompts, prompts->asked_domain));
}

/* The body is {"domain":…, followed by the members of the prompt's content. */
static void ask_publish(struct edge_prompts *prompts, struct item *item)
{
    static const char head[] =
        "POST /internal/v1/prompts HTTP/1.1\r\nhost: engine\r\ncontent-type: application/json";
    struct buffer content;
    char hex[HEX_BYTES];
    buffer_init(&content, LIMIT_ADMIN_BODY_BYTES + 1);
    hex_of(item->domain, hex);
    if (item->waiter != NULL)
        buffer_append_slice(&content, item->waiter->content);
    else
        tenant_prompt_content(prompts->tenants, slice_of(item->id), &content);
    if (content.length == 0) { /* its row was deleted; edge_prompts_sync will follow */
        item_leave(prompts, item);
        buffer_deinit(&content);
        pump(prompts);
        return;
    }
    bool is_dry_run = item->waiter != NULL && item->waiter->is_dry_run;
    buffer_printf(&prompts->body, "{\"domain\":\"%s\"%s,", hex,
                  is_dry_run ? ",\"dry_run\":true" : "");
    buffer_append(&prompts->body, content.bytes + 1, content.length - 1);
    buffer_deinit(&content);
    ask(prompts, ASKED_PUBLISH, item, head);
}

static void ask_unpublish(struct edge_prompts *prompts, const struct item *item)
{
    char head[128];
    char hex[HEX_BYTES];
    hex_of(item->domain, hex);
    snprintf(head, sizeof head, "DELETE /internal/v1/prompts/%s HTTP/1.1\r\nhost: engine", hex);
    ask(prompts, ASKED_UNPUBLISH, item, head);
}

static void pump(struct edge_prompts *prompts)
{
    if (prompts->exchange != NULL || prompts->is_waiting || !prompts->is_up)
        return;
    struct item *leaving = item_find_leaving(prompts);
    struct item *wanted = item_find_wanted(prompts);
    buffer_clear(&prompts->body);
    if (!prompts->is_known || (prompts->is_list_due && leaving == NULL && wanted == NULL))
        ask(prompts, ASKED_LIST, NULL, "GET /internal/v1/prompts HTTP/1.1\r\nhost: engine");
    else if (leaving != NULL)
        ask_unpublish(prompts, leaving);
    else if (wanted != NULL)
        ask_publish(prompts, wanted);
}

static void again(void *context)
{
    struct edge_prompts *prompts = context;
    prompts->is_waiting = false;
    pump(prompts);
}

/* --- another engine --- */

/* A new engine: all prompts must be published again, except those in its list. */
static void checked_other(struct edge_prompts *prompts)
{
    struct item *next = NULL;
    if (prompts->exchange != NULL)
        http1_exchange_cancel(prompts->exchange); /* an exchange with the earlier engine */
    for (struct item *item = prompts->items; item != NULL; item = next) {
        next = item->next;
        item->hits_before = item->figures.hits;
        item->hit_tokens_before = item->figures.hit_tokens;
        if (item->figures.state == EDGE_PROMPTS_LEAVING) {
            item_drop(prompts, item);
            continue;
        }
        item->holds_ready = !item->is_tentative && item->cuts < CUTS_MOST;
        item_set(prompts, item, EDGE_PROMPTS_PUBLISHING, "");
    }
    prompts->is_known = false;
    prompts->is_waiting = false;
    prompts->again_ms = AGAIN_MS;
    loop_timer_disarm(prompts->again);
}

void edge_prompts_checked(struct edge_prompts *prompts, const struct edge_probe_engine *engine)
{
    prompts->is_up = engine->state == EDGE_PROBE_UP;
    if (!prompts->is_up) {
        tell_all(prompts);
        return;
    }
    if (strcmp(prompts->instance, engine->instance) != 0) {
        snprintf(prompts->instance, sizeof prompts->instance, "%s", engine->instance);
        checked_other(prompts);
    }
    prompts->is_list_due = prompts->items != NULL;
    edge_prompts_sync(prompts); /* removes prompts that have expired */
}

bool edge_prompts_is_ready(const struct edge_prompts *prompts)
{
    for (const struct item *item = prompts->items; item != NULL; item = item->next) {
        if (item->holds_ready)
            return false;
    }
    return true;
}

/* --- changes --- */

void edge_prompts_publish(struct edge_prompts *prompts, struct edge_prompts_waiter *waiter)
{
    ASSERT(item_find(prompts, waiter->domain) == NULL);
    struct item *item = NULL;
    if (prompts->is_up)
        item = item_add(prompts, waiter->domain, EDGE_PROMPTS_PUBLISHING);
    if (item == NULL) {
        waiter->told(waiter->context, tell_unavailable(), 0, 0);
        return;
    }
    item->is_tentative = true;
    item->waiter = waiter;
    pump(prompts);
}

void edge_prompts_settle(struct edge_prompts *prompts, const uint8_t domain[16])
{
    struct item *item = item_find(prompts, domain);
    if (item == NULL)
        return;
    ASSERT(item->waiter == NULL);
    item->is_tentative = false;
}

/* A row of the directory that has not expired. */
static void sync_row(struct edge_prompts *prompts, const struct tenant_prompt *prompt)
{
    struct item *item = item_find(prompts, prompt->domain);
    if (item == NULL)
        item = item_add(prompts, prompt->domain, EDGE_PROMPTS_PUBLISHING);
    if (item == NULL)
        return; /* without memory: the next health check tries again */
    item->is_listed = true;
    memcpy(item->id, prompt->id, sizeof item->id);
}

void edge_prompts_sync(struct edge_prompts *prompts)
{
    size_t count = 0;
    bool has_more = false;
    int64_t now_s = clock_wall_us(clock_system()) / 1000000;
    (void)tenant_prompt_list(prompts->tenants, SLICE(""), prompts->listed, LIMIT_PROMPTS, &count,
                             &has_more);
    for (struct item *item = prompts->items; item != NULL; item = item->next)
        item->is_listed = false;
    for (size_t i = 0; i < count; i++) {
        if (!tenant_prompt_is_expired(&prompts->listed[i], now_s))
            sync_row(prompts, &prompts->listed[i]);
    }
    for (struct item *item = prompts->items; item != NULL; item = item->next) {
        if (!item->is_listed && !item->is_tentative && item->figures.state != EDGE_PROMPTS_LEAVING)
            item_leave(prompts, item);
    }
    const struct item *asked = item_find(prompts, prompts->asked_domain);
    if (prompts->exchange != NULL && prompts->asked == ASKED_PUBLISH && asked != NULL &&
        asked->figures.state == EDGE_PROMPTS_LEAVING)
        http1_exchange_cancel(prompts->exchange); /* the engine stops computing it */
    pump(prompts);
}

bool edge_prompts_look(struct edge_prompts *prompts, const uint8_t domain[16],
                       struct edge_prompts_figures *out)
{
    pthread_mutex_lock(&prompts->look);
    const struct item *item = item_find(prompts, domain);
    if (item != NULL)
        *out = item->figures;
    pthread_mutex_unlock(&prompts->look);
    return item != NULL;
}

/* --- start and end --- */

enum status edge_prompts_create(struct edge_prompts **out, struct loop *loop,
                                struct http1_client *client, struct tenants *tenants)
{
    struct edge_prompts *prompts = mem_zalloc(1, sizeof *prompts);
    if (prompts == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory for the published prompts");
    prompts->loop = loop;
    prompts->client = client;
    prompts->tenants = tenants;
    prompts->again_ms = AGAIN_MS;
    pthread_mutex_init(&prompts->look, NULL);
    buffer_init(&prompts->body, LIMIT_ADMIN_BODY_BYTES + 128);
    buffer_init(&prompts->incoming, ANSWER_BYTES_MAX);
    prompts->again = loop_timer_create(loop, again, prompts);
    if (prompts->again == NULL) {
        edge_prompts_destroy(prompts);
        FAIL(STATUS_NO_MEMORY, "no memory for the published prompts");
    }
    edge_prompts_sync(prompts);
    *out = prompts;
    return STATUS_OK;
}

void edge_prompts_destroy(struct edge_prompts *prompts)
{
    if (prompts == NULL)
        return;
    prompts->is_up = false;
    for (struct item *item = prompts->items; item != NULL; item = item->next)
        item->waiter = NULL;
    if (prompts->again != NULL)
        loop_timer_destroy(prompts->again);
    prompts->again = NULL;
    if (prompts->exchange != NULL)
        http1_exchange_cancel(prompts->exchange);
    while (prompts->items != NULL)
        item_drop(prompts, prompts->items);
    buffer_deinit(&prompts->body);
    buffer_deinit(&prompts->incoming);
    pthread_mutex_destroy(&prompts->look);
    mem_free(prompts);
}
