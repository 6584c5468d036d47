/* usage_redis: what every tenant used, in Redis too, each row of the ledger exactly once.
 *
 * Owns:     the keys below, how far they are, the link's callbacks and the reader of the ledger.
 * Thread:   the link's does everything; the looks are for any.
 * Cost:     nothing on a request's way: rows are read from the ledger's file behind their commit,
 *           256 in a round trip. Nothing is kept in memory for an outage: rows wait in the file.
 * Not here: the connection (redis_link), reading (ledger_ship), quotas.
 *
 *   banyan:usage:{TENANT}:YYYYMMDD  hash: requests, input, cached, output, cost_nano; the same with
 *                                   :MODEL:CLASS behind them; hwm:EDGE = last row that is in it
 *   banyan:usage                    stream: an entry for each row, once, `id` names it
 *   banyan:streamed                 hash: EDGE = SEQUENCE of the last row that is in the stream
 *   banyan:shipped                  hash: EDGE = SEQUENCE-PRINT: all rows up to that one are in the
 *                                   hashes and the stream
 *   banyan:sent                     hash: EDGE = SEQUENCE-PRINT: no row behind it is in any of them
 *   banyan:edges                    sorted set: EDGE by the time of its last sign of life
 *   banyan:aside:…                  what another program wrote over one of these, for seven days
 *   banyan:asides                   how often that happened: edges look what they have lost
 *
 * A hash and its mark change in one script, so a row that is sent again does nothing. Rows are
 * only ever added to a hash that has the edge's mark. One that has not (the first row of a day,
 * or Redis forgot) is made from the roll-ups, which have all rows of that day for ever, as of one
 * commit, and its mark is that commit's last row. So whatever Redis forgets (all, some keys, the
 * last minutes), the hashes end equal to the roll-ups. Both marks have a print of their row: a
 * ledger that was restored from a backup, or lost its last commits with the power, has not that
 * row, or another one of its number. What the edge alone had written to the hashes is removed then,
 * and all of them are made from the roll-ups. Entries of the stream stay, and ids of rows that were
 * lost are given again.
 *
 * A key that another program wrote over holds nobody else up: usage_scripts moves it aside and
 * makes it again. One that Redis refuses (no right to it, an error that is not known) waits in
 * usage_waiting, alone. An entry of the stream and its mark change in one script: rows that are
 * sent again are not entered again. Only where Redis lost banyan:streamed with the stream's last
 * entries kept, rows since banyan:shipped may be there twice.
 */
#pragma once

#include "auth/ledger/redis_link.h"

struct usage_redis;

struct usage_redis_options {
    const char *url;           /* as redis_url has it; "" = there is no Redis */
    const char *password_file; /* "" = none */
    const char *ledger_path;   /* of a ledger that is open */
    uint32_t stream_length;    /* entries that the stream keeps, about; 0: no stream */
    uint32_t keep_days;        /* hashes expire so long after their day; 0: never */
    struct metrics *metrics;   /* may be NULL */
    uint32_t turn_ms;          /* as in redis_link_options, for tests */
    uint32_t command_ms;
};

/* INVALID: the URL. That Redis is away is no error. Without one `*out` is NULL, which the functions
 * below take. */
enum status usage_redis_open(struct usage_redis **out, const struct usage_redis_options *options);
/* After ledger_close, so that the last rows go as well, if Redis is there. */
void usage_redis_close(struct usage_redis *usage);

/* "up" or "down"; "off" for NULL. */
const char *usage_redis_word(const struct usage_redis *usage);
/* Rows that are committed and not yet in Redis, as of the last turn. */
int64_t usage_redis_lag(const struct usage_redis *usage);
/* Why it is down. */
enum redis_reason usage_redis_reason(const struct usage_redis *usage);
