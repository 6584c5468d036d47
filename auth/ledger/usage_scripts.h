/* usage_scripts: the Lua scripts that Redis runs for usage_redis. Redis runs a script without
 * interruption.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     none here. In Redis a script takes about 1 µs for each field.
 * Not here: calling them (usage_redis).
 *
 * Another program may write to one of these keys, by mistake or to do harm. So a script checks a
 * key before it writes. A key that holds something else (another type, a field that is not a
 * number, an unreadable mark) is renamed to banyan:aside:…, where it stays for seven days, and the
 * script goes on with a new key. A key that was renamed to the same name before is overwritten, so
 * Redis holds at most two keys in place of one. Nothing is read back from a renamed key, because
 * the ledger is the truth: the new day and the new marks are made from the ledger, and a new stream
 * begins with the next rows.
 */
#pragma once

enum usage_script {
    /* Adds rows to a day's hash. KEYS: the day's hash. ARGV: edge, last row of the ledger, then for
     * each row its sequence number, ":model:class", requests, input, cached, output, cost. Returns
     * the number of rows that were added. Returns -1 when the hash must be made from sums: it does
     * not exist, it has no mark of this edge, its mark is beyond the ledger's last row, a field is
     * not a number, or a sum went beyond 64 bits. */
    USAGE_SCRIPT_ADD,
    /* Makes a day's hash from sums. KEYS: the day's hash, its name aside, the count of keys that
     * went aside. ARGV: edge, when it expires (0: never), sequence, mode, then for each sum
     * ":model:class", requests, input, cached, output, cost. The mode decides about a hash that has
     * this edge's mark: 'absent' keeps it unless its mark is beyond `sequence`, 'replace' makes it
     * anew if its mark is older, 'force' makes it anew in any case. Returns 0 when the hash was
     * kept, 1 when it was made, and 2 when it was made and the old key went aside. Returns -1 when
     * it was kept because another edge has added to it. */
    USAGE_SCRIPT_SET,
    /* Enters rows into the stream. KEYS: the stream, the hash of its marks, the names of both
     * aside. ARGV: edge, the row after which the caller's rows begin (where Redis has no mark, the
     * stream is taken to end there), the row before the first one of this script, last row of the
     * ledger, about how many entries are kept, then for each row its sequence number and the values
     * of an entry. Entries and mark change together, so a row that is sent again is not entered
     * again. Returns the number of entries, and 1000 more for each key that went aside. Returns -(N
     * + 1) when nothing was entered because rows after N are missing. So when Redis refuses the
     * first of two scripts, the second one does not skip its rows. A row is entered twice only when
     * another program took the mark away between the two. */
    USAGE_SCRIPT_ENTER,
    /* Sets this edge's mark. KEYS: marks, their name aside. ARGV: edge, mark. Returns 1 when this
     * edge had no mark, and 2 more when a key of another type went aside. */
    USAGE_SCRIPT_MARK,
    /* Reads this edge's mark. KEYS: marks, their name aside. ARGV: edge. Returns the mark, nil,
     * "unreadable", or "aside". */
    USAGE_SCRIPT_READ,
    /* Writes the time of this edge's last sign of life, by Redis's clock, which all edges share.
     * KEYS: the set of edges, the marks, the count of keys that went aside, the set's name aside.
     * ARGV: edge. Returns 1 when this edge has a mark, and twice the count more. */
    USAGE_SCRIPT_BEAT,
    /* Deletes hashes that have this edge's mark and no other edge's mark. Keys of another type
     * stay. ARGV: edge, SCAN's cursor. Returns the next cursor; "0" when all keys were checked. */
    USAGE_SCRIPT_SWEEP,
    USAGE_SCRIPTS
};

enum { USAGE_SCRIPTS_ASIDE = 1000, USAGE_SCRIPTS_ENTRY_VALUES = 13 };

const char *usage_scripts_text(enum usage_script script);
