/* usage_scripts: the Lua that Redis runs for usage_redis, each script whole or not at all.
 *
 * Owns:     nothing.
 * Thread:   any.
 * Cost:     – (Redis's: about 1 µs a field)
 * Not here: who calls them and when (usage_redis).
 *
 * Another program may write to a key of ours, by mistake or to do harm. A script looks at what is
 * there before it writes. A key that holds something else (another type, a field that is no number,
 * a mark that is none) is renamed to banyan:aside:…, where it stays for seven days, and the script
 * goes on with a new key. A key that was renamed to the same name before is overwritten, so Redis
 * holds at most two keys in place of one. Nothing is read back from a renamed key, because the
 * ledger is the truth: the new day and the new marks are made from the ledger, and a new stream
 * begins with the next rows.
 */
#pragma once

enum usage_script {
    /* KEYS: the day's hash. ARGV: edge, last row of the ledger, then for each row sequence,
     * ":model:class", requests, input, cached, output, cost. The rows that were added. -1: the hash
     * must be made from sums: there is none, it has no mark of this edge or one of rows that the
     * ledger has not, something in it is no number, or a sum went beyond 64 bits. */
    USAGE_SCRIPT_ADD,
    /* KEYS: the day's hash, its name aside, the count of what went aside. ARGV: edge, when it
     * expires (0: never), sequence, mode, then for each sum ":model:class", requests, input,
     * cached, output, cost. With our mark in it, 'absent' leaves it alone, 'replace' makes it anew
     * if the mark is older, 'force' in any case. 0: left alone. 1: made. 2: made, and what was
     * there went aside. -1: left alone, because another edge has its part in it. */
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
    /* KEYS: marks, their name aside. ARGV: edge, mark. 1: this edge had none; 2 more: another kind
     * of key went aside. */
    USAGE_SCRIPT_MARK,
    /* KEYS: marks, their name aside. ARGV: edge. The mark, nil, "unreadable", or "aside". */
    USAGE_SCRIPT_READ,
    /* KEYS: the set of edges, the marks, the count of what went aside, the set's name aside. ARGV:
     * edge. By Redis's clock, which all edges share. 1: our mark is there; 2 × the count more. */
    USAGE_SCRIPT_BEAT,
    /* ARGV: edge, SCAN's cursor, which is also the answer ("0": it has been round). Hashes with our
     * mark and no other edge's go; what is of another kind is not ours. */
    USAGE_SCRIPT_SWEEP,
    USAGE_SCRIPTS
};

enum { USAGE_SCRIPTS_ASIDE = 1000, USAGE_SCRIPTS_ENTRY_VALUES = 13 };

const char *usage_scripts_text(enum usage_script script);
