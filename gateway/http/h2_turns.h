/* h2_turns: how many HTTP/2 heads a turn of the loop reads, so that no client delays the others.
 *
 * One read may bring thousands of heads, and a hundred connections may have such reads at once. A
 * connection that has used its part of a turn is held: it is not read, and what it has sent waits
 * in its input. The next turns go on with the connections that were held, in the order in which
 * they were held.
 *
 *   head ──► h2_turns_admit ─┬─ its part of the turn is left ──► libh2o ─► h2_turns_spend
 *                            └─ nothing is left ──► held ──► next turn: h2_turns_go_on
 *
 * Owns:     nothing: its state is in struct arrival and in struct arrival_input.
 * Thread:   the loop's thread.
 * Cost:     O(1) for a head. A turn after one that held connections walks over these, and over
 *           those that were accepted since.
 * Not here: what is in a frame (h2_arrival), how long a request waits for its owner's pace
 *           (gateway/edge/state/edge_pace).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gateway/http/h2o_compat_http2.h"

struct arrival;

/* Whether the connection's next HEADERS frame may be read in this turn. If not, the connection is
 * held, and libh2o must be told that the frame is incomplete. Call it while libh2o reads the
 * connection. */
bool h2_turns_admit(h2o_http2_conn_t *conn);
/* Counts a HEADERS or CONTINUATION frame with so many fields; `begins_head` is set for HEADERS. */
void h2_turns_spend(const h2o_http2_conn_t *conn, uint32_t fields, bool begins_head);
/* Goes on with connections that were held. The timer `arrival->turns.timer` calls it. */
void h2_turns_go_on(struct arrival *arrival);
