/* arrival_kit: a listener whose requests' owners are known by their x-api-key, for the tests of
 * arrivals over HTTP/1 and HTTP/2.
 *
 * Owns:     one server and one connection at a time.
 * Thread:   the test's; counters are the loop's.
 * Cost:     –
 * Not here: assertions about the product.
 */
#pragma once

#include "http_kit_tls.h"

enum { KIT_BODY_MAX = 256 * 1024 };

static char kit_answer[65536] __attribute__((unused));
static char kit_piece[16000];
static struct http_kit_tls kit_tls;
static struct http_kit kit_server;
static _Atomic int kit_claims; /* how often the listener asked */
static _Atomic int kit_starts; /* requests that a handler saw */
static _Atomic int kit_proved; /* what "maybe" is found to be */
static _Atomic bool kit_holds; /* while it does, the loop stands still in the handler of "hold" */

static enum listener_claim kit_claim(void *context, const struct listener_head *head,
                                     uint8_t owner[LISTENER_OWNER_BYTES])
{
    (void)context;
    kit_claims++;
    assert_int_equal(strncmp(head->peer, "127.0.0.1:", 10), 0);
    if (head->api_keys != 1)
        return LISTENER_STRANGER;
    if (slice_is(head->api_key, "maybe"))
        return kit_proved ? LISTENER_KNOWN : LISTENER_UNPROVED;
    owner[0] = 'k';
    if (slice_starts_with(head->api_key, SLICE("tenant-"))) {
        owner[0] = (uint8_t)head->api_key.bytes[head->api_key.length - 1];
        return LISTENER_KNOWN;
    }
    return slice_is(head->api_key, "known") ? LISTENER_KNOWN : LISTENER_STRANGER;
}

/* Says the key, how long the body is, and whether all its bytes are 'b'. The owner of "late" is a
 * stranger while its body is on its way, and known to the handler. */
static void kit_handle(struct http_request *request, void *context)
{
    (void)context;
    char text[128];
    struct slice body = http_body(request);
    struct slice key = http_header_get(request, "x-api-key");
    bool is_right = true;
    for (size_t i = 0; i < body.length; i++)
        is_right = is_right && body.bytes[i] == 'b';
    snprintf(text, sizeof(text), "key %.*s body %zu %s", (int)key.length, key.bytes, body.length,
             is_right ? "right" : "wrong");
    kit_starts++;
    while (kit_holds && slice_is(key, "hold"))
        usleep(1000);
    int code = key.length > 0 ? 200 : 401;
    if (slice_is(key, "late") && http_body_is_cut(request))
        code = 503;
    http_respond(request, code, NULL, 0, slice_of(text));
}

static __attribute__((unused)) void kit_start(struct listener_options options)
{
    kit_claims = kit_starts = kit_proved = 0;
    memset(kit_piece, 'b', sizeof(kit_piece));
    http_kit_tls_start(&kit_tls);
    kit_server = (struct http_kit){.tls = kit_tls.server};
    options.handler = kit_handle;
    options.claim = kit_claim;
    options.body_bytes_max = KIT_BODY_MAX;
    if (options.known_bytes_max == 0)
        options.known_bytes_max = 16 * KIT_BODY_MAX;
    http_kit_start(&kit_server, false, options);
}

static __attribute__((unused)) void kit_stop(void)
{
    http_kit_stop(&kit_server);
    http_kit_tls_stop(&kit_tls);
}
