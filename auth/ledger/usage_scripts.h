/* usage_scripts: the Lua scripts that Redis runs for usage_redis. Redis runs a script without
 * interruption.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     none here; about 1 µs a field in Redis.
 * Not here: calling them (usage_redis).
 *
 * Another program may write to one of these keys, by mistake or to do harm. So a script checks a
 * key before it writes. A key that holds something else (another type, a field that is not a
 * number, an unreadable mark) is renamed to banyan:aside:…, where it stays for seven days, and the
 * script goes on with a new key. A key that was renamed to the same name before is overwritten, so
 * Redis holds at most two keys in place of one. Nothing is read back from a renamed key, because
 * the
 * ledger is the truth: the new day and the new marks are made from the ledger, and a new stream
 * begins with the next rows.
 */
#pragma once

enum usage_script {
    /* Adds rows to a day's hash. KEYS: the day's hash. ARGV: edge, last row of the ledger, then for
     * each row its sequence, ":model:class", requests, input, cached, output, cost. Returns the
     * number of rows that were added, or -1: the hash must be made from sums. That is so when there
     * is no hash, it has no mark of this edge or a mark beyond the ledger's last row, a field in it
     * is not a number, or a sum went beyond 64 bits. */
    USAGE_SCRIPT_ADD,
    /* Makes a day's hash from sums. KEYS: the day's hash, its name aside, the count of keys that
     * went aside. ARGV: edge, when it expires (0: never), sequence, mode, then for each sum
     * ":model:class", requests, input, cached, output, cost. The mode decides about a hash that has
     * this edge's mark: 'absent' keeps it unless its mark is beyond `sequence`, 'replace' makes it
     * anew if its mark is older, 'force' makes it anew in any case. Returns 0: kept. 1: made. 2:
     * made, and the old key went aside. -1: kept, because another edge has added to it. */
    USAGE_SCRIPT_SET,
    /* KEYS: the stream, the marks of what is in it, their names aside. ARGV: edge, the row behind
     * which the caller's rows begin (where Redis has no mark, the stream is taken to end there),
     * the row before the first one of this script, last row of the ledger, about how many entries
     * are kept, then for each row its sequence and the values of an entry. Entries and mark change
     * together, so a row that is sent again is not entered again. The number of entries; 1000 more
     * for each key that went aside. -1 - N: nothing was entered: rows behind N are missing. When
     * only the second of two scripts is taken, the first one's rows are therefore not left out. A
     * row is entered twice only when another program took the mark away between the two. */
    USAGE_SCRIPT_ENTER,
    /* Sets this edge's mark. KEYS: marks, their name aside. ARGV: edge, mark. Returns 1 when this
     * edge had no mark, and 2 more when a key of another type went aside. */
    USAGE_SCRIPT_MARK,
    /* Reads this edge's mark. KEYS: marks, their name aside. ARGV: edge. Returns the mark, nil,
     * "unreadable", or "aside". */
    USAGE_SCRIPT_READ,
    /* Writes this edge's sign of life, by Redis's clock, which all edges share. KEYS: the set of
     * edges, the marks, the count of keys that went aside, the set's name aside. ARGV: edge.
     * Returns 1 when this edge has a mark, and twice the count more. */
    USAGE_SCRIPT_BEAT,
    /* Deletes hashes with this edge's mark and no other edge's; keys of another type stay. ARGV:
     * edge, SCAN's cursor. Returns the next cursor; "0": all keys were looked at. */
    USAGE_SCRIPT_SWEEP,
    USAGE_SCRIPTS
};

enum { USAGE_SCRIPTS_ASIDE = 1000, USAGE_SCRIPTS_ENTRY_VALUES = 13 };

const char *usage_scripts_text(enum usage_script script);
