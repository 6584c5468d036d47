/* grammar_fuel: how many steps a compilation may still take, and whether somebody wants its end.
 *
 * Owns:     a count. The flag belongs to who may cancel.
 * Thread:   that of the compilation; the flag may be set from any.
 * Cost:     a subtraction; a look at the flag every LIMIT_COMPILE_LOOK steps.
 * Not here: the fuel of a mask, which is a plain number (grammar_mask).
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/base/limits_grammar.h"
#include "config/base/status.h"

struct grammar_fuel {
    uint64_t left;
    uint64_t look; /* the next look at the flag is when fewer steps are left */
    const atomic_bool *cancel;
    enum status status; /* the first failure; it stays */
};

/* `cancel` may be NULL. */
static inline void grammar_fuel_init(struct grammar_fuel *fuel, uint64_t steps,
                                     const atomic_bool *cancel)
{
    *fuel = (struct grammar_fuel){.left = steps, .look = UINT64_MAX, .cancel = cancel};
}

/* Behind grammar_fuel_spend: the rare part. */
static inline enum status grammar_fuel_look(struct grammar_fuel *fuel)
{
    if (fuel->status != STATUS_OK)
        return fuel->status;
    if (fuel->cancel != NULL && atomic_load_explicit(fuel->cancel, memory_order_relaxed))
        return fuel->status = status_fail(STATUS_CANCELLED, __FILE__, __LINE__, NULL,
                                          "the compilation was cancelled");
    if (fuel->left == 0)
        return fuel->status = status_fail(STATUS_LIMIT, __FILE__, __LINE__, NULL,
                                          "the grammar takes too many steps to compile");
    fuel->look = fuel->left > LIMIT_COMPILE_LOOK ? fuel->left - LIMIT_COMPILE_LOOK : 0;
    return STATUS_OK;
}

/* Takes `steps` steps. LIMIT when they are used up, CANCELLED when the flag is set; both stay. */
static inline enum status grammar_fuel_spend(struct grammar_fuel *fuel, uint64_t steps)
{
    fuel->left -= steps < fuel->left ? steps : fuel->left;
    if (__builtin_expect(fuel->left <= fuel->look || fuel->status != STATUS_OK, 0))
        return grammar_fuel_look(fuel);
    return STATUS_OK;
}
