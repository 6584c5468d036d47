/* accept_gate: decides whether a listener may accept the next connection now, or how long it waits.
 *
 * Owns:     a token bucket of handshakes, and the number of reserved descriptors.
 * Thread:   one.
 * Cost:     O(1); a system call only while descriptors are short.
 * Not here: who connects (address_table), sockets (listener).
 *
 * New connections wait in the system's backlog meanwhile; nobody is refused here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum accept_pause { ACCEPT_NOW, ACCEPT_HANDSHAKES, ACCEPT_DESCRIPTORS };

struct accept_gate {
    int64_t handshake_us; /* what one handshake takes from the bucket; 0 = no limit */
    int64_t tokens_us;    /* what is in the bucket, at most one second */
    int64_t filled_us;    /* when the bucket was last filled */
    int descriptor_limit; /* descriptors from this number on are reserved */
    bool is_short;        /* the next connection would use the reserve */
};

/* `handshakes_a_second` 0 = no limit. 5 % of `descriptors_max` (RLIMIT_NOFILE) are reserved for
 * everything but new connections; the `descriptors_open` of the process are a part of them. */
void accept_gate_init(struct accept_gate *gate, uint32_t handshakes_a_second,
                      uint64_t descriptors_max, uint32_t descriptors_open, int64_t now_us);
/* ACCEPT_NOW; or the reason to wait, and after how many milliseconds to ask again. */
enum accept_pause accept_gate_ask(struct accept_gate *gate, int64_t now_us, uint32_t *wait_ms);
/* A connection was accepted, with this descriptor. */
void accept_gate_took(struct accept_gate *gate, int descriptor);

/* The lowest free descriptor: the number of open ones, unless there are gaps. INT_MAX when none is
 * free. */
int accept_gate_lowest_free(void);
