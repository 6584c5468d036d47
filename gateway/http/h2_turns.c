#include "gateway/http/h2_turns.h"

#include "config/base/limits_door.h"
#include "gateway/http/arrival.h"
#include "gateway/http/door_metrics.h"
#include "gateway/http/loop.h"
#include "gateway/http/request_h2o.h"

enum { HEAD_WORK = 8 }; /* what a head costs beside its fields: a request is made and answered */

static struct request_connection *connection_of(const h2o_http2_conn_t *conn)
{
    return conn->sock->on_close.data;
}

static uint32_t *spent_by(struct request_connection *connection)
{
    struct arrival_turns *turns = &connection->arrival->turns;
    struct arrival_input *in = &connection->arriving;
    uint64_t now = loop_h2o_turns(turns->loop);
    if (turns->turn != now) {
        turns->turn = now;
        turns->work = 0;
    }
    if (in->h2_turn != now) {
        in->h2_turn = now;
        in->h2_turn_work = 0;
    }
    return &in->h2_turn_work;
}

/* Those that are held stand at the end of libh2o's list of connections, whose order means nothing
 * to it. libh2o takes a connection from its list when it frees it, which may be long before the
 * socket is closed. So a list of our own could name connections that are gone. */
static void hold(struct request_connection *connection, h2o_http2_conn_t *conn)
{
    struct arrival_turns *turns = &connection->arrival->turns;
    h2o_socket_t *socket = connection->socket;
    connection->arriving.h2_reader = socket->_cb.read;
    connection->arriving.is_h2_held = true;
    h2o_socket_read_stop(socket);
    h2o_linklist_unlink(&conn->_conns);
    h2o_linklist_insert(&conn->super.ctx->http2._conns, &conn->_conns);
    if (turns->held++ == 0)
        loop_timer_arm(turns->timer, 0);
    door_metrics_held(connection->arrival->door);
}

bool h2_turns_admit(h2o_http2_conn_t *conn)
{
    struct request_connection *connection = connection_of(conn);
    uint32_t spent = *spent_by(connection);
    if (spent < LIMIT_H2_TURN_CONNECTION_WORK &&
        connection->arrival->turns.work < LIMIT_H2_TURN_WORK)
        return true;
    hold(connection, conn);
    return false;
}

void h2_turns_spend(const h2o_http2_conn_t *conn, uint32_t fields, bool begins_head)
{
    struct request_connection *connection = connection_of(conn);
    uint32_t work = 1 + fields + (begins_head ? HEAD_WORK : 0);
    *spent_by(connection) += work;
    connection->arrival->turns.work += work;
}

/* Reads on. A connection that is dead is only watched again, so that libh2o sees its end. It may be
 * gone when this returns. */
static void release(struct request_connection *connection)
{
    h2o_socket_t *socket = connection->socket;
    connection->arriving.is_h2_held = false;
    h2o_socket_read_start(socket, connection->arriving.h2_reader);
    if (!connection->is_dead)
        arrival_read(connection, connection->arriving.h2_reader, NULL);
}

static h2o_http2_conn_t *conn_at(h2o_linklist_t *node)
{
    return H2O_STRUCT_FROM_MEMBER(h2o_http2_conn_t, _conns, node);
}

static bool is_held_at(h2o_linklist_t *node)
{
    return connection_of(conn_at(node))->arriving.is_h2_held;
}

void h2_turns_go_on(struct arrival *arrival)
{
    struct arrival_turns *turns = &arrival->turns;
    h2o_linklist_t *anchor = &turns->h2o->http2._conns;
    h2o_linklist_t *node = anchor;
    uint32_t left = 0;
    /* Some that were held may be gone, so `held` is only the most that there can be. */
    while (left < turns->held && node->prev != anchor) {
        node = node->prev;
        left += is_held_at(node) ? 1 : 0;
    }
    turns->held = 0;
    for (h2o_linklist_t *next; left > 0; node = next) {
        next = node->next;
        if (!is_held_at(node))
            continue;
        struct request_connection *connection = connection_of(conn_at(node));
        (void)spent_by(connection); /* begins the turn's count */
        if (turns->work >= LIMIT_H2_TURN_WORK)
            break;
        left--;
        release(connection);
    }
    turns->held += left;
    if (turns->held > 0)
        loop_timer_arm(turns->timer, 0);
}
