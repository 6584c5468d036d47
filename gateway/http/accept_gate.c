#include "gateway/http/accept_gate.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

enum {
    SECOND_US = 1000000,
    DESCRIPTORS_WAIT_MS = 50,
    HANDSHAKES_WAIT_MS = 5, /* then a few connections are accepted together */
};

void accept_gate_init(struct accept_gate *gate, uint32_t handshakes_a_second,
                      uint64_t descriptors_max, uint32_t descriptors_open, int64_t now_us)
{
    enum { KEPT_BACK_PART = 20 }; /* 5 % */
    uint64_t kept_back = descriptors_max / KEPT_BACK_PART;
    kept_back = kept_back > descriptors_open ? kept_back - descriptors_open : 0;
    uint64_t limit = descriptors_max - kept_back;
    *gate = (struct accept_gate){
        .handshake_us = handshakes_a_second > 0 ? SECOND_US / handshakes_a_second : 0,
        .tokens_us = SECOND_US,
        .filled_us = now_us,
        .descriptor_limit = limit < INT_MAX ? (int)limit : INT_MAX,
    };
}

/* A new descriptor gets the lowest free number (POSIX), which shows how many are open. */
int accept_gate_lowest_free(void)
{
    int probe = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (probe < 0)
        return INT_MAX;
    close(probe);
    return probe;
}

enum accept_pause accept_gate_ask(struct accept_gate *gate, int64_t now_us, uint32_t *wait_ms)
{
    gate->tokens_us += now_us - gate->filled_us;
    if (gate->tokens_us > SECOND_US)
        gate->tokens_us = SECOND_US;
    gate->filled_us = now_us;
    if (gate->is_short)
        gate->is_short = accept_gate_lowest_free() >= gate->descriptor_limit;
    if (gate->is_short) {
        *wait_ms = DESCRIPTORS_WAIT_MS;
        return ACCEPT_DESCRIPTORS;
    }
    if (gate->tokens_us < gate->handshake_us) {
        *wait_ms = HANDSHAKES_WAIT_MS;
        return ACCEPT_HANDSHAKES;
    }
    return ACCEPT_NOW;
}

void accept_gate_took(struct accept_gate *gate, int descriptor)
{
    gate->tokens_us -= gate->handshake_us;
    gate->is_short = descriptor + 1 >= gate->descriptor_limit;
}
