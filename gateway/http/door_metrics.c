#include "gateway/http/door_metrics.h"

#include <stdio.h>

static const char *const refusal_names[DOOR_REFUSAL_COUNT] = {
    [DOOR_REFUSED_ADDRESS_CONNECTIONS] = "address_connections",
    [DOOR_REFUSED_ADDRESS_RATE] = "address_rate",
    [DOOR_REFUSED_FULL] = "full",
};

static const char *const kill_names[DOOR_KILL_COUNT] = {
    [DOOR_KILLED_RESETS] = "resets",
    [DOOR_KILLED_SLOW_BODY] = "slow_body",
    [DOOR_KILLED_UNFINISHED_BODIES] = "unfinished_bodies",
    [DOOR_KILLED_CONTROL_FRAMES] = "control_frames",
    [DOOR_KILLED_HANDSHAKE_SLOW] = "handshake_slow",
    [DOOR_KILLED_HANDSHAKES_MANY] = "handshakes_many",
    [DOOR_KILLED_STRANGER] = "stranger",
};

static const char *const pause_names[DOOR_PAUSE_COUNT] = {
    [DOOR_PAUSED_HANDSHAKES] = "handshakes",
    [DOOR_PAUSED_DESCRIPTORS] = "descriptors",
};

static const char *const upload_names[DOOR_UPLOAD_COUNT] = {
    [DOOR_UPLOAD_OWN_SHARE] = "own_share",
    [DOOR_UPLOAD_FULL] = "full",
};

static struct metric *init_one(struct metrics *registry, enum metric_kind kind, const char *name,
                               const char *help, const char *listener, const char *why)
{
    char labels[96];
    int length = why != NULL
                     ? snprintf(labels, sizeof(labels), "listener=\"%s\",why=\"%s\"", listener, why)
                     : snprintf(labels, sizeof(labels), "listener=\"%s\"", listener);
    ASSERT(length > 0);
    ASSERT((size_t)length < sizeof(labels));
    return metrics_get(registry, kind, name, help, labels, NULL, 0);
}

/* Only listeners that ask for client certificates have these series. */
static void init_clients(struct door_metrics *door, struct metrics *registry, const char *listener)
{
    door->clients[TLS_CLIENT_FINE] =
        init_one(registry, METRIC_COUNTER, "banyan_client_certificates_total",
                 "Connections with a valid client certificate.", listener, NULL);
    for (int why = TLS_CLIENT_FINE + 1; why < TLS_CLIENT_REASONS; why++)
        door->clients[why] =
            init_one(registry, METRIC_COUNTER, "banyan_client_certificates_refused_total",
                     "Connections whose requests are refused because of the client's certificate.",
                     listener, tls_client_word((enum tls_client_reason)why));
}

void door_metrics_init(struct door_metrics *door, struct metrics *registry, const char *listener,
                       bool asks_clients)
{
    *door = (struct door_metrics){0};
    if (registry == NULL)
        return;
    for (int why = 0; why < DOOR_REFUSAL_COUNT; why++)
        door->refused[why] =
            init_one(registry, METRIC_COUNTER, "banyan_connections_refused_total",
                     "Connections closed before a byte was read.", listener, refusal_names[why]);
    for (int why = 0; why < DOOR_KILL_COUNT; why++)
        door->killed[why] =
            init_one(registry, METRIC_COUNTER, "banyan_connections_killed_total",
                     "Connections closed because of what they did.", listener, kill_names[why]);
    for (int why = 0; why < DOOR_PAUSE_COUNT; why++)
        door->paused[why] =
            init_one(registry, METRIC_COUNTER, "banyan_accept_pauses_total",
                     "Times that new connections had to wait.", listener, pause_names[why]);
    for (int why = 0; why < DOOR_UPLOAD_COUNT; why++)
        door->uploads[why] =
            init_one(registry, METRIC_COUNTER, "banyan_uploads_refused_total",
                     "Requests refused because there was no memory for their body.", listener,
                     upload_names[why]);
    if (asks_clients)
        init_clients(door, registry, listener);
    door->handshakes_failed = init_one(registry, METRIC_COUNTER, "banyan_handshakes_failed_total",
                                       "TLS handshakes that failed.", listener, NULL);
    door->held =
        init_one(registry, METRIC_COUNTER, "banyan_connections_held_total",
                 "Times that an HTTP/2 connection had sent more than one turn of the loop reads.",
                 listener, NULL);
    door->connections = init_one(registry, METRIC_GAUGE, "banyan_connections",
                                 "Open connections of clients.", listener, NULL);
    door->unfinished_bytes =
        init_one(registry, METRIC_GAUGE, "banyan_unfinished_request_bytes",
                 "Memory of requests that are not whole yet, in bytes.", listener, NULL);
}

static void count(struct metric *metric)
{
    if (metric != NULL)
        metric_add(metric, 1);
}

void door_metrics_refused(struct door_metrics *door, enum door_refusal why)
{
    count(door->refused[why]);
}

void door_metrics_killed(struct door_metrics *door, enum door_kill why)
{
    count(door->killed[why]);
}

void door_metrics_paused(struct door_metrics *door, enum door_pause why)
{
    count(door->paused[why]);
}

void door_metrics_upload_refused(struct door_metrics *door, enum door_upload why)
{
    count(door->uploads[why]);
}

void door_metrics_handshake_failed(struct door_metrics *door)
{
    count(door->handshakes_failed);
}

void door_metrics_held(struct door_metrics *door)
{
    count(door->held);
}

void door_metrics_client(struct door_metrics *door, enum tls_client_reason reason)
{
    count(door->clients[reason]);
}

void door_metrics_set(struct door_metrics *door, uint32_t connections, size_t unfinished_bytes)
{
    if (door->connections == NULL)
        return;
    metric_set(door->connections, (double)connections);
    metric_set(door->unfinished_bytes, (double)unfinished_bytes);
}

const char *door_metrics_kill_name(enum door_kill why)
{
    return kill_names[why];
}
