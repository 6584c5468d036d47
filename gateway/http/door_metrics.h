/* door_metrics: the metrics of a listener: connections that it refused, closed or let wait, and
 * why.
 *
 * Owns:     nothing; the series belong to the registry.
 * Thread:   any for updates.
 * Cost:     an atomic add.
 * Not here: requests (edge_metrics).
 */
#pragma once

#include "config/base/metrics.h"
#include "gateway/http/tls_client.h"

enum door_refusal {
    DOOR_REFUSED_ADDRESS_CONNECTIONS,
    DOOR_REFUSED_ADDRESS_RATE,
    DOOR_REFUSED_FULL,
    DOOR_REFUSAL_COUNT,
};

enum door_kill {
    DOOR_KILLED_RESETS,
    DOOR_KILLED_SLOW_BODY,
    DOOR_KILLED_UNFINISHED_BODIES,
    DOOR_KILLED_CONTROL_FRAMES,
    DOOR_KILLED_HANDSHAKE_SLOW,
    DOOR_KILLED_HANDSHAKES_MANY,
    DOOR_KILLED_STRANGER, /* a newcomer has taken its place */
    DOOR_KILL_COUNT,
};

enum door_pause {
    DOOR_PAUSED_HANDSHAKES,
    DOOR_PAUSED_DESCRIPTORS,
    DOOR_PAUSE_COUNT,
};

/* Why there is no memory for a request's body. */
enum door_upload {
    DOOR_UPLOAD_OWN_SHARE, /* other uploads of its owner use the owner's share */
    DOOR_UPLOAD_FULL,
    DOOR_UPLOAD_COUNT,
};

struct door_metrics {
    struct metric *refused[DOOR_REFUSAL_COUNT];
    struct metric *killed[DOOR_KILL_COUNT];
    struct metric *paused[DOOR_PAUSE_COUNT];
    struct metric *uploads[DOOR_UPLOAD_COUNT];
    struct metric *handshakes_failed;
    struct metric *held;
    struct metric *clients[TLS_CLIENT_REASONS]; /* [reason]; the first counts valid certificates */
    struct metric *connections;
    struct metric *unfinished_bytes;
};

/* With `registry` NULL nothing is counted. `listener`, of lower-case letters, is a label.
 * `asks_clients` says that the listener asks for client certificates. */
void door_metrics_init(struct door_metrics *door, struct metrics *registry, const char *listener,
                       bool asks_clients);
void door_metrics_refused(struct door_metrics *door, enum door_refusal why);
void door_metrics_killed(struct door_metrics *door, enum door_kill why);
void door_metrics_paused(struct door_metrics *door, enum door_pause why);
void door_metrics_upload_refused(struct door_metrics *door, enum door_upload why);
void door_metrics_handshake_failed(struct door_metrics *door);
/* An HTTP/2 connection waits for the next turn of the loop, with frames that have come. */
void door_metrics_held(struct door_metrics *door);
/* A client certificate was judged. */
void door_metrics_client(struct door_metrics *door, enum tls_client_reason reason);
/* Sets the gauges: open connections, and bytes of requests that are not whole. */
void door_metrics_set(struct door_metrics *door, uint32_t connections, size_t unfinished_bytes);
/* The word for labels and log, such as "resets". */
const char *door_metrics_kill_name(enum door_kill why);
