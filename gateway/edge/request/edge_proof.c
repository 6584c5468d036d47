#include "gateway/edge/request/edge_proof.h"

#include <stdio.h>
#include <strings.h>

#include "config/base/mem.h"
#include "gateway/edge/request/edge_credential.h"
#include "gateway/edge/request/edge_keys.h"
#include "gateway/edge/state/edge_access.h"
#include "gateway/edge/state/edge_memory.h"
#include "gateway/http/failure_guard.h"
#include "gateway/http/http_error.h"
#include "gateway/http/loop_worker.h"

enum {
    FAILURES_A_SECOND = 10,
    PARKED_US = 3 * LIMIT_JWKS_FETCH_MS * 1000, /* other issuers may be fetched first */
};

/* A token that is with the thread or parked, and the request that waits for it. */
struct proof_check {
    struct loop_worker_task task;
    struct edge_proof *proof;
    struct proof_check *previous;
    struct proof_check *next;
    struct http_request *request; /* NULL once the request is gone, or when is_early */
    struct edge_access access;
    char peer[64];
    enum status status;               /* what auth_check returned */
    bool is_early;                    /* checked ahead: the request's body is still on its way */
    bool is_patient;                  /* the token may be parked */
    bool is_parked;                   /* the token waits for its issuer's keys */
    struct edge_memory_unproven hold; /* the request's memory, until its tenant is known */
    int64_t give_up_us;               /* from then on, the keys at hand decide */
    size_t length;
    char token[]; /* a copy, because the client may leave meanwhile */
};

struct edge_proof {
    struct edge *edge;
    void (*handler)(struct http_request *request, void *context);
    void *context;
    bool is_admin;
    struct loop_worker *worker;
    struct failure_guard *guard;
    struct proof_check *checks; /* all that are with the thread, or parked */
    uint32_t parked;
};

enum status edge_proof_create(struct edge_proof **out, struct edge *edge, bool is_admin,
                              void (*handler)(struct http_request *request, void *context),
                              void *context)
{
    *out = NULL;
    struct edge_proof *proof = mem_zalloc(1, sizeof *proof);
    if (proof != NULL)
        proof->guard = failure_guard_create(LIMIT_TOKEN_FAILURES, FAILURES_A_SECOND);
    if (proof == NULL || proof->guard == NULL) {
        mem_free(proof);
        FAIL(STATUS_NO_MEMORY, "no memory to check tokens");
    }
    proof->edge = edge;
    proof->is_admin = is_admin;
    proof->handler = handler;
    proof->context = context;
    enum status status = loop_worker_create(&proof->worker, edge->loop, LIMIT_TOKEN_CHECKS);
    if (status == STATUS_OK)
        *out = proof;
    else
        edge_proof_destroy(proof);
    return status;
}

static void check_free(struct proof_check *check)
{
    if (check->next != NULL)
        check->next->previous = check->previous;
    if (check->previous != NULL)
        check->previous->next = check->next;
    else
        check->proof->checks = check->next;
    edge_memory_leave_unproven(check->proof->edge->memory, &check->hold);
    explicit_bzero(check->token, check->length);
    mem_free(check);
}

void edge_proof_destroy(struct edge_proof *proof)
{
    if (proof == NULL)
        return;
    loop_worker_destroy(proof->worker);
    while (proof->checks != NULL)
        check_free(proof->checks);
    failure_guard_destroy(proof->guard);
    mem_free(proof);
}

/* On the thread. auth remembers the result, so that the handler finds it. */
static void check_work(struct loop_worker_task *task)
{
    struct proof_check *check = (struct proof_check *)task;
    check->status = auth_check(check->proof->edge->auth,
                               (struct slice){check->token, check->length}, check->is_patient);
}

static void check_gone(void *context, bool is_early)
{
    struct proof_check *check = context;
    (void)is_early;
    check->request = NULL;
}

static void check_over(struct proof_check *check)
{
    struct edge_proof *proof = check->proof;
    struct edge *edge = proof->edge;
    struct http_request *request = check->request;
    int64_t now_us = loop_now_us(edge->loop);
    bool is_first = false;
    if (check->status == STATUS_KEY_INVALID)
        (void)failure_guard_fail(proof->guard, slice_of(check->peer), now_us, &is_first);
    if (request == NULL && !check->is_early) {
        check->access.code = 499;
        edge_access_end(&check->access, &edge->metrics, now_us);
    } else if (request != NULL) {
        http_on_gone(request, NULL, NULL);
    }
    check_free(check);
    if (request != NULL)
        proof->handler(request, proof->context);
}

static void check_done(struct loop_worker_task *task)
{
    struct proof_check *check = (struct proof_check *)task;
    struct edge_proof *proof = check->proof;
    bool is_waiting = check->status == STATUS_BUSY && (check->request != NULL || check->is_early);
    if (!is_waiting) {
        check_over(check);
        return;
    }
    check->is_parked = true;
    proof->parked++;
    edge_keys_wake(proof->edge->keys);
}

/* A token that finds no room in the queue stays parked until the next call. */
void edge_proof_keys_came(struct edge_proof *proof)
{
    int64_t now_us = loop_now_us(proof->edge->loop);
    for (struct proof_check *check = proof->checks, *next; check != NULL; check = next) {
        next = check->next;
        if (!check->is_parked)
            continue;
        check->is_patient =
            (check->request != NULL || check->is_early) && now_us < check->give_up_us;
        if (loop_worker_submit(proof->worker, &check->task) != STATUS_OK)
            continue;
        check->is_parked = false;
        proof->parked--;
    }
}

static enum status check_refuse(struct edge_proof *proof, enum auth_refusal refusal,
                                enum status status, const char *message)
{
    auth_refused(proof->edge->auth, refusal);
    FAIL(status, "%s", message);
}

/* Gives the token to the thread. With `request` NULL the check is early, and `access` is empty. */
static enum status check_start(struct edge_proof *proof, struct http_request *request,
                               struct slice token, const struct edge_access *access,
                               const char *peer)
{
    if (failure_guard_is_over(proof->guard, slice_of(peer), loop_now_us(proof->edge->loop)))
        return check_refuse(proof, AUTH_REFUSAL_FLOOD, STATUS_TOO_MANY,
                            "Too many bad tokens came from this address; try again later.");
    struct proof_check *check = mem_zalloc(1, sizeof *check + token.length);
    if (check == NULL)
        FAIL(STATUS_NO_MEMORY, "no memory to check a token");
    *check = (struct proof_check){.task = {.work = check_work, .done = check_done},
                                  .proof = proof,
                                  .next = proof->checks,
                                  .request = request,
                                  .access = *access,
                                  .is_early = request == NULL,
                                  .is_patient = proof->parked < LIMIT_TOKENS_PARKED,
                                  .give_up_us = loop_now_us(proof->edge->loop) + PARKED_US,
                                  .length = token.length};
    memcpy(check->token, token.bytes, token.length);
    snprintf(check->peer, sizeof check->peer, "%s", peer);
    if (proof->checks != NULL)
        proof->checks->previous = check;
    proof->checks = check;
    size_t body_bytes = request != NULL ? http_body(request).length : 0;
    uint64_t address[2] = {failure_guard_address(slice_of(peer))};
    _Static_assert(sizeof address == BYTE_SHARES_OWNER_BYTES, "an address names an owner");
    enum status status =
        edge_memory_take_unproven(proof->edge->memory, &check->hold, (const uint8_t *)address,
                                  LIMIT_MEMORY_REQUEST_BYTES + body_bytes);
    if (status != STATUS_OK) {
        check_free(check);
        return check_refuse(proof, AUTH_REFUSAL_QUEUE, STATUS_UNAVAILABLE,
                            "Too many requests wait for their tokens to be checked; try again "
                            "shortly.");
    }
    if (loop_worker_submit(proof->worker, &check->task) != STATUS_OK) {
        check_free(check);
        return check_refuse(proof, AUTH_REFUSAL_QUEUE, STATUS_UNAVAILABLE,
                            "Too many tokens wait to be checked; try again shortly.");
    }
    if (request != NULL)
        http_on_gone(request, check_gone, check);
    return STATUS_OK;
}

/* Names the owner of a request: its tenant's hash; for an admin, who has no tenant, the key's id,
 * cut to the length of a hash. */
static void claim_owner(const struct principal *principal, uint8_t owner[LISTENER_OWNER_BYTES])
{
    _Static_assert(sizeof principal->tenant_hash == LISTENER_OWNER_BYTES,
                   "a tenant names an owner");
    memcpy(owner, principal->tenant_hash, LISTENER_OWNER_BYTES);
    if (principal->is_admin)
        snprintf((char *)owner, LISTENER_OWNER_BYTES, "%.15s", principal->key_id);
}

enum listener_claim edge_proof_claim(void *context, const struct listener_head *head,
                                     uint8_t owner[LISTENER_OWNER_BYTES])
{
    struct edge_proof *proof = context;
    struct auth *auth = proof->edge->auth;
    struct auth_credential credential = {.certificate = head->certificate,
                                         .must_agree = head->must_agree};
    struct principal principal;
    if (edge_credential_read_head(head, &credential.text) != STATUS_OK)
        return LISTENER_STRANGER;
    if (auth_wants_check(auth, credential.text)) {
        struct edge_access access = {0};
        /* A refusal here is told when the request is complete and handled. */
        if (!head->is_again)
            (void)check_start(proof, NULL, credential.text, &access, head->peer);
        return LISTENER_UNPROVED;
    }
    if (auth_look(auth, &credential, proof->is_admin, &principal) != STATUS_OK)
        return LISTENER_STRANGER;
    claim_owner(&principal, owner);
    return LISTENER_KNOWN;
}

void edge_proof_handle(struct http_request *request, void *context)
{
    struct edge_proof *proof = context;
    struct edge *edge = proof->edge;
    struct edge_access access;
    struct slice token;
    char peer[64];
    if (edge_credential_read(request, &token) != STATUS_OK ||
        !auth_wants_check(edge->auth, token)) {
        proof->handler(request, proof->context); /* it also answers a bad credential */
        return;
    }
    edge_access_begin(&access, request, "other");
    http_peer_name(request, peer, sizeof peer);
    if (edge->config->access_log_peer)
        memcpy(access.peer, peer, sizeof access.peer);
    enum status status = check_start(proof, request, token, &access, peer);
    if (status == STATUS_OK)
        return;
    access.code = http_error_of(status)->http_code;
    http_respond_failure(request);
    edge_access_end(&access, &edge->metrics, loop_now_us(edge->loop));
}
