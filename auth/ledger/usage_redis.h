/* usage_redis: copies what every tenant used into Redis, each row of the ledger exactly once.
 *
 * Owns:     the keys below, how far each of them is, the link's callbacks and the reader of the
 *           ledger.
 * Thread:   the link's thread does everything; the functions that only read a state may be called
 *           from any.
 * Cost:     requests never wait for it. Rows are read from the ledger's file after their commit,
 *           256 in a round trip. During an outage rows wait in the file; nothing is kept in memory.
 * Not here: the connection (redis_link), reading (ledger_ship), quotas.
 *
 *   banyan:usage:{TENANT}:YYYYMMDD  hash: requests, input, cached, output, cost_nano; the same with
 *                                   :MODEL:CLASS appended; hwm:EDGE = last row that is in it
 *   banyan:usage                    stream: an entry for each row, once, `id` names it
 *   banyan:streamed                 hash: EDGE = SEQUENCE of the last row that is in the stream
 *   banyan:shipped                  hash: EDGE = SEQUENCE-PRINT: all rows up to that one are in the
 *                                   hashes and the stream
 *   banyan:sent                     hash: EDGE = SEQUENCE-PRINT: no later row is in any of them
 *   banyan:edges                    sorted set: EDGE by the time of its last sign of life
 *   banyan:aside:…                  what another program wrote into one of these, for seven days
 *   banyan:asides                   how often that happened; a change makes every edge compare
 *
 * A hash and its mark (hwm:EDGE) change in one script, so a row that is sent again has no effect.
 * Rows are only added to a hash that has the edge's mark. A hash without it (the first row of a
 * day, or Redis has lost the hash) is made from the ledger's sums by minute, which are kept for
 * ever, as of one commit; its mark is that commit's last row. So whatever Redis loses (everything,
 * some keys, the last minutes), the hashes become equal to the ledger's sums again.
 *
 * The marks shipped and sent carry a hash of their row ("print"). When the ledger was restored from
 * a backup, or has lost its last commits in a power cut, it lacks that row or has another one under
 * its number. Then the hashes that this edge alone has written are removed, and all of them are
 * made from the ledger's sums. Entries of the stream stay, and the sequences of lost rows are given
 * again.
 *
 * A key that another program has overwritten delays no other key: usage_scripts moves it aside and
 * makes it again. A key that Redis refuses to write (no rights, an unknown error) waits in
 * usage_waiting, alone. An entry of the stream and its mark change in one script, so a row that is
 * sent again is not entered again. Rows can be in the stream twice only when Redis has lost
 * banyan:streamed and has kept the stream's last entries; these are rows after banyan:shipped.
 */
#pragma once

#include "auth/ledger/redis_link.h"

struct usage_redis;

struct usage_redis_options {
    const char *url;           /* the option redis (redis_url); "": there is no Redis */
    const char *password_file; /* "": none */
    const char *ledger_path;   /* the file of a ledger that is open */
    uint32_t stream_length;    /* about how many entries the stream keeps; 0: no stream */
    uint32_t keep_days;        /* hashes expire so many days after their day; 0: never */
    struct metrics *metrics;   /* may be NULL */
    uint32_t turn_ms;          /* as in redis_link_options, for tests */
    uint32_t command_ms;
};

/* Starts copying. It is not an error when Redis is down. With `url` "", `*out` is NULL, which
 * usage_redis_close and usage_redis_word accept. INVALID for a malformed URL; NO_MEMORY; otherwise
 * fails as ledger_ship_open does. */
enum status usage_redis_open(struct usage_redis **out, const struct usage_redis_options *options);
/* Call it after ledger_close, so that the last rows are copied too if Redis is up. */
void usage_redis_close(struct usage_redis *usage);

/* "up" or "down"; "off" for NULL. */
const char *usage_redis_word(const struct usage_redis *usage);
/* Rows that are committed and not yet in Redis, as of the last turn. */
int64_t usage_redis_lag(const struct usage_redis *usage);
/* Why Redis is down (redis_link_reason). */
enum redis_reason usage_redis_reason(const struct usage_redis *usage);
