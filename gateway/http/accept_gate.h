/* accept_gate: whether a listener may take the next connection now, or how long it looks away.
 *
 * Owns:     a bucket of handshakes, the descriptors that are kept back.
 * Thread:   one.
 * Cost:     O(1); a system call only while descriptors are short.
 * Not here: who connects (address_table), sockets (listener).
 *
 * Both reasons hold up newcomers and refuse nobody: the system's backlog keeps them meanwhile.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum accept_pause { ACCEPT_NOW, ACCEPT_HANDSHAKES, ACCEPT_DESCRIPTORS };

struct accept_gate {
    int64_t handshake_us; /* of the bucket, for one; 0 = no limit */
    int64_t tokens_us;    /* at most a second's worth */
    int64_t filled_us;
    int descriptor_limit; /* a descriptor of this number or above cuts into the reserve */
    bool is_short;        /* the last one did, or was the last that did not */
};

/* `handshakes_a_second` 0 = no limit. Of `descriptors_max` (RLIMIT_NOFILE) 5 % are kept back for
 * everything that is not a newcomer; `descriptors_open`, what the process holds already, is a part
 * of them. */
void accept_gate_init(struct accept_gate *gate, uint32_t handshakes_a_second,
                      uint64_t descriptors_max, uint32_t descriptors_open, int64_t now_us);
/* ACCEPT_NOW, or the reason why not, and in how many milliseconds to ask again. */
enum accept_pause accept_gate_ask(struct accept_gate *gate, int64_t now_us, uint32_t *wait_ms);
/* A connection was let in, with this descriptor. */
void accept_gate_took(struct accept_gate *gate, int descriptor);

/* The lowest descriptor that is free, which is how many are open unless there are gaps; INT_MAX
 * when there is none. */
int accept_gate_lowest_free(void);
