#include "gateway/http/arrival.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "gateway/http/address_table.h"
#include "gateway/http/door_metrics.h"
#include "gateway/http/h2o_compat_http2.h"
#include "gateway/http/request_h2o.h"

enum { READ_BYTES = 4096, GROW_BYTES_LEAST = 64 * 1024, ANSWER_BYTES = 4096 };

_Static_assert((int)LISTENER_OWNER_BYTES == (int)DOOR_SHARE_OWNER_BYTES,
               "a claim names owners as the share does");

/* --- the connection -------------------------------------------------------------------------- */

/* Drops the rest of the body. libh2o notices when the client closes the connection, or its timer
 * ends, which runs since the head arrived. */
static void on_drop(h2o_socket_t *socket, const char *error)
{
    struct request_connection *connection = socket->on_close.data;
    if (error != NULL) {
        socket->_cb.read = connection->arriving.read;
        socket->_cb.read(socket, error);
        return;
    }
    h2o_buffer_consume(&socket->input, socket->input->size);
}

static void on_given_up(h2o_socket_t *socket, const char *error)
{
    struct request_connection *connection = socket->on_close.data;
    buffer_deinit(&connection->arriving.answer);
    shutdown(connection->descriptor, error == NULL ? SHUT_WR : SHUT_RDWR);
}

/* Answers in the middle of a body that libh2o reads, without libh2o, which reads no more then.
 * Returns false while libh2o is writing, or without memory. */
static bool h1_give_up(struct request_connection *connection, int code)
{
    h2o_socket_t *socket = connection->socket;
    struct arrival_input *in = &connection->arriving;
    struct buffer body;
    char id[REQUEST_ID_BYTES + 1];
    if (h2o_socket_is_writing(socket) || !h2o_socket_is_reading(socket) || connection->is_dead)
        return false;
    buffer_init(&body, ANSWER_BYTES);
    buffer_init(&in->answer, 2 * ANSWER_BYTES);
    connection->arrival->render(code, &body);
    request_id_make(id);
    buffer_printf(&in->answer,
                  "HTTP/1.1 %d %s\r\nconnection: close\r\ncontent-type: application/json\r\n"
                  "x-request-id: %s\r\nretry-after: 1\r\ncontent-length: %zu\r\n\r\n",
                  code, request_reason(code), id, body.length);
    buffer_append_slice(&in->answer, buffer_slice(&body));
    bool is_made = body.status == STATUS_OK && in->answer.status == STATUS_OK;
    buffer_deinit(&body);
    if (!is_made)
        return false;
    connection->is_dead = true;
    in->read = socket->_cb.read;
    socket->_cb.read = on_drop;
    h2o_buffer_dispose(&socket->input);
    h2o_buffer_init(&socket->input, &h2o_socket_buffer_prototype);
    h2o_iovec_t part = h2o_iovec_init(in->answer.bytes, in->answer.length);
    h2o_socket_write(socket, &part, 1, on_given_up);
    return true;
}

static void h1_give_way(struct door_hold *hold)
{
    struct request_connection *connection =
        H2O_STRUCT_FROM_MEMBER(struct request_connection, arriving.known, hold);
    size_t bytes = hold->bytes;
    int code = arrival_give_way_code(connection->arrival, hold);
    door_share_leave(&connection->arrival->known, hold);
    if (!h1_give_up(connection, code))
        connection->arrival->kill(connection, bytes);
}

int arrival_give_way_code(struct arrival *arrival, const struct door_hold *hold)
{
    int code = arrival_refusal_code(arrival, hold->is_late ? BYTE_SHARES_ALL : BYTE_SHARES_OWN);
    return hold->is_late ? 408 : code;
}

int arrival_refusal_code(struct arrival *arrival, enum byte_shares_verdict verdict)
{
    bool is_own = verdict == BYTE_SHARES_OWN;
    if (verdict == BYTE_SHARES_OK)
        return 0;
    door_metrics_upload_refused(arrival->door, is_own ? DOOR_UPLOAD_OWN_SHARE : DOOR_UPLOAD_FULL);
    return is_own ? 429 : 503;
}

void arrival_begin(struct request_connection *connection, struct arrival *arrival)
{
    uint64_t key[2];
    connection->arrival = arrival;
    connection->arriving.known.give_way = h1_give_way;
    (void)address_table_key(&connection->peer.any, key);
    _Static_assert(sizeof key == sizeof connection->arriving.address, "an address names an owner");
    memcpy(connection->arriving.address, key, sizeof key);
}

void arrival_end(struct request_connection *connection)
{
    struct arrival *arrival = connection->arrival;
    if (arrival->reading == connection)
        arrival->reading = NULL;
    door_share_leave(&arrival->strangers, &connection->arriving.strangers);
    door_share_leave(&arrival->known, &connection->arriving.known);
    buffer_deinit(&connection->arriving.answer);
    buffer_deinit(&connection->arriving.h2_trailers);
}

/* libh2o keeps incomplete TLS records in a buffer of a private struct. The offset of the buffer is
 * found once: an empty buffer points to the buffer of the prototype, and nothing else does. */
static h2o_buffer_t **encrypted_slot(const h2o_socket_t *socket)
{
    enum { FIRST = 4, LAST = 14, UNKNOWN = -1 };
    static int place = UNKNOWN;
    if (socket->ssl == NULL)
        return NULL;
    h2o_buffer_t **words = (h2o_buffer_t **)(void *)socket->ssl;
    const h2o_buffer_t *empty = &h2o_socket_buffer_prototype._initial_buf;
    for (int at = FIRST; place == UNKNOWN && at <= LAST; at++) {
        if (words[at] == empty)
            place = at;
    }
    return place != UNKNOWN ? &words[place] : NULL;
}

size_t arrival_encrypted_bytes(const h2o_socket_t *socket)
{
    h2o_buffer_t *const *slot = encrypted_slot(socket);
    return slot != NULL && (*slot)->bytes != NULL ? (*slot)->capacity : 0;
}

/* Replaces a buffer that is mostly empty by a smaller one. A read makes the buffer as large as what
 * the kernel had; afterwards only the beginning of a record or frame is left in it. */
static void fit(h2o_buffer_t **slot)
{
    enum { WASTE_BYTES = 16 * 1024 };
    h2o_buffer_t *old = *slot;
    if (old->bytes == NULL || old->_fd != -1 || old->capacity - old->size <= WASTE_BYTES)
        return;
    h2o_buffer_t *fitted;
    h2o_buffer_init(&fitted, old->_prototype);
    memcpy(h2o_buffer_reserve(&fitted, old->size).base, old->bytes, old->size);
    fitted->size = old->size;
    h2o_buffer_dispose(slot);
    *slot = fitted;
}

static void fit_encrypted(const h2o_socket_t *socket)
{
    h2o_buffer_t **slot = encrypted_slot(socket);
    if (slot != NULL)
        fit(slot);
}

void arrival_book(struct request_connection *connection, size_t bytes)
{
    struct arrival *arrival = connection->arrival;
    struct door_hold *hold = &connection->arriving.strangers;
    if (connection->is_dead)
        bytes = 0;
    if (!door_share_set(&arrival->strangers, hold, connection->arriving.address, bytes)) {
        arrival->kill(connection, bytes);
        return;
    }
    struct door_hold *yields;
    while ((yields = door_share_yields(&arrival->strangers, hold)) != NULL) {
        struct request_connection *other =
            H2O_STRUCT_FROM_MEMBER(struct request_connection, arriving.strangers, yields);
        size_t other_bytes = yields->bytes;
        door_share_leave(&arrival->strangers, yields);
        arrival->kill(other, other_bytes);
    }
}

enum listener_claim arrival_claim(struct request_connection *connection, struct listener_head head,
                                  uint8_t owner[DOOR_SHARE_OWNER_BYTES])
{
    const struct arrival *arrival = connection->arrival;
    const struct tls_client *client = connection->client;
    char peer[REQUEST_PEER_BYTES];
    if (arrival->claim == NULL)
        return LISTENER_UNPROVED;
    request_peer_name(connection, peer);
    head.peer = peer;
    head.must_agree = arrival->wants_client;
    /* The certificate is judged again: since the handshake it may have been revoked. */
    const char *fault =
        client != NULL && arrival->client_fault != NULL ? arrival->client_fault(connection) : NULL;
    if (client != NULL && fault == NULL && tls_client_reason(client) == TLS_CLIENT_FINE)
        head.certificate = tls_client_peer(client);
    return arrival->claim(arrival->claim_context, &head, owner);
}

void arrival_trust(struct request_connection *connection)
{
    connection->arrival->prove(connection);
    int bytes = LIMIT_KERNEL_UNREAD_KNOWN_BYTES;
    setsockopt(connection->descriptor, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

/* --- HTTP/1 ---------------------------------------------------------------------------------- */

/* Removes the body from the request at the front of the input, so that libh2o passes the request on
 * at once. */
static void h1_cut(struct request_connection *connection, h2o_buffer_t *input, size_t skip,
                   const struct h1_head *head)
{
    struct arrival_input *in = &connection->arriving;
    size_t here = input->size - skip - head->bytes;
    bool is_counted = head->transfer_encodings == 0 && head->content_length != SIZE_MAX;
    in->is_cut = true;
    in->cut_head = *head;
    in->cut_left = !is_counted                   ? SIZE_MAX
                   : head->content_length > here ? head->content_length - here
                                                 : 0;
    h1_head_strip_body(input->bytes + skip, head->bytes);
    input->size = skip + head->bytes;
}

static void h1_refuse(struct request_connection *connection, h2o_buffer_t *input, size_t skip,
                      const struct h1_head *head, int code)
{
    h1_cut(connection, input, skip, head);
    connection->arriving.cut_code = code;
}

static enum listener_claim h1_claim(struct request_connection *connection,
                                    const struct h1_head *head, bool is_again)
{
    return arrival_claim(connection,
                         (struct listener_head){.is_again = is_again,
                                                .authorization = head->authorization,
                                                .api_key = head->api_key,
                                                .authorizations = head->authorizations,
                                                .api_keys = head->api_keys},
                         connection->arriving.owner);
}

static enum byte_shares_verdict h1_reserve(struct request_connection *connection,
                                           const struct h1_head *head)
{
    struct arrival_input *in = &connection->arriving;
    struct door_share *known = &connection->arrival->known;
    size_t body = head->content_length != SIZE_MAX ? head->content_length
                                                   : connection->arrival->body_bytes_max;
    in->reserved_bytes = head->bytes + body + READ_BYTES;
    known->now_us = clock_mono_us(clock_system());
    enum byte_shares_verdict verdict = door_share_admit(known, in->owner, in->reserved_bytes);
    if (verdict == BYTE_SHARES_OK &&
        !door_share_set(known, &in->known, in->owner, in->reserved_bytes))
        verdict = BYTE_SHARES_NO_MEMORY;
    return verdict;
}

/* Looks at the head of the next request, before libh2o parses it. */
static void h1_look(struct request_connection *connection, h2o_buffer_t *input, size_t skip)
{
    struct arrival_input *in = &connection->arriving;
    struct h1_head head;
    if (input->bytes == NULL || input->size <= skip ||
        !h1_head_scan((struct slice){input->bytes + skip, input->size - skip}, &head))
        return;
    bool has_length = head.content_lengths > 0 && head.transfer_encodings == 0;
    if (head.content_lengths + head.transfer_encodings == 0 ||
        (has_length && head.content_length <= input->size - skip - head.bytes))
        return; /* the whole request is here */
    if (has_length && head.content_length != SIZE_MAX &&
        head.content_length > connection->arrival->body_bytes_max) {
        h1_refuse(connection, input, skip, &head, 413);
        return;
    }
    in->is_claimed = true;
    enum listener_claim claim = h1_claim(connection, &head, false);
    in->is_unproved = claim == LISTENER_UNPROVED;
    if (claim == LISTENER_STRANGER)
        h1_cut(connection, input, skip, &head);
    if (claim != LISTENER_KNOWN)
        return;
    int code = arrival_refusal_code(connection->arrival, h1_reserve(connection, &head));
    if (code != 0)
        h1_refuse(connection, input, skip, &head, code);
    else
        arrival_trust(connection);
}

/* Asks again who owns the request, because its token may have been checked meanwhile. The head is
 * still at the front of the input; libh2o works with a copy. */
static void h1_look_again(struct request_connection *connection, const h2o_buffer_t *input)
{
    struct arrival_input *in = &connection->arriving;
    struct h1_head head;
    if (connection->arrival->claim == NULL ||
        !h1_head_scan((struct slice){input->bytes, input->size}, &head))
        return;
    in->is_unproved = h1_claim(connection, &head, true) != LISTENER_KNOWN ||
                      h1_reserve(connection, &head) != BYTE_SHARES_OK;
    if (!in->is_unproved)
        arrival_trust(connection);
}

/* Makes the input buffer large enough for the whole request; libh2o would double it again and
 * again. */
static void h1_grow(struct request_connection *connection)
{
    h2o_buffer_t **slot = &connection->socket->input;
    h2o_buffer_t *old = *slot;
    size_t wanted = connection->arriving.reserved_bytes + READ_BYTES;
    if (connection->arriving.known.account == NULL || old->bytes == NULL || old->_fd != -1 ||
        wanted < GROW_BYTES_LEAST || old->capacity >= wanted)
        return;
    h2o_buffer_t *grown = malloc(offsetof(h2o_buffer_t, _buf) + wanted);
    if (grown == NULL)
        return;
    *grown = (h2o_buffer_t){.capacity = wanted,
                            .size = old->size,
                            .bytes = grown->_buf,
                            ._prototype = old->_prototype,
                            ._fd = -1};
    memcpy(grown->_buf, old->bytes, old->size);
    h2o_buffer_dispose(slot);
    *slot = grown;
}

void arrival_h1_book(struct request_connection *connection)
{
    struct arrival_input *in = &connection->arriving;
    const h2o_buffer_t *input = connection->socket->input;
    size_t bytes = input->bytes != NULL ? input->capacity : 0;
    if (in->known.account != NULL) {
        size_t most = bytes > in->reserved_bytes ? bytes : in->reserved_bytes;
        if (door_share_set(&connection->arrival->known, &in->known, in->owner, most))
            bytes = 0;
    }
    arrival_book(connection, bytes + arrival_encrypted_bytes(connection->socket));
}

void arrival_h1_begin(struct request_connection *connection)
{
    h1_look(connection, connection->socket->input, 0);
}

void arrival_h1_serve(struct request_connection *connection)
{
    struct arrival_input *in = &connection->arriving;
    in->is_serving = true;
    in->is_claimed = false;
    in->is_unproved = false;
    in->reserved_bytes = 0;
    fit_encrypted(connection->socket);
    door_share_leave(&connection->arrival->known, &in->known);
    arrival_book(connection, arrival_encrypted_bytes(connection->socket));
}

void arrival_h1_next(struct request_connection *connection, size_t skip)
{
    connection->arriving.is_serving = false;
    if (!connection->is_dead && !connection->arriving.is_cut)
        h1_look(connection, connection->socket->input, skip);
}

/* --- the hook -------------------------------------------------------------------------------- */

/* Whether libh2o still has the held connection: it is then the last one of its list (h2_turns). One
 * that libh2o freed is not read, so its address alone is used. */
static bool is_held_alive(const struct request_connection *connection)
{
    const h2o_http2_conn_t *conn = connection->socket->data;
    return connection->arriving.is_h2_held &&
           connection->arrival->turns.h2o->http2._conns.prev == &conn->_conns;
}

void arrival_read(struct request_connection *connection, h2o_socket_cb reader, const char *error)
{
    struct arrival *arrival = connection->arrival;
    struct arrival_input *in = &connection->arriving;
    h2o_socket_t *socket = connection->socket;
    arrival->reading = connection;
    reader(socket, error);
    if (arrival->reading != connection)
        return;
    arrival->reading = NULL;
    /* The request is whole, or the connection ends. */
    if (!h2o_socket_is_reading(socket) && !is_held_alive(connection))
        return;
    fit_encrypted(socket);
    if (in->is_http2) {
        fit(&socket->input);
        arrival->book_h2(connection);
        return;
    }
    if (!in->is_serving)
        h1_grow(connection);
    arrival_h1_book(connection);
}

static void on_read(h2o_socket_t *socket, const char *error)
{
    struct request_connection *connection = socket->on_close.data;
    struct arrival_input *in = &connection->arriving;
    socket->_cb.read = in->read;
    bool is_arriving = error == NULL && !in->is_http2 && !in->is_serving && !connection->is_dead;
    if (is_arriving && !in->is_claimed)
        h1_look(connection, socket->input, 0);
    else if (is_arriving && in->is_unproved)
        h1_look_again(connection, socket->input);
    arrival_read(connection, in->read, error);
}

void arrival_record(void *transport)
{
    h2o_socket_t *socket = transport; /* h2o_compat.h */
    struct request_connection *connection = socket->on_close.data;
    if (socket->_cb.read == on_read || socket->_cb.read == NULL || socket->_cb.read == on_drop ||
        h2o_linklist_is_linked(&connection->handshake))
        return;
    connection->arriving.read = socket->_cb.read;
    socket->_cb.read = on_read;
}
