/* template_run: what every step of one run of a template needs: its values' memory, its bounds and
 * its errors.
 *
 * Owns:     the bytes and pieces of all values of the run, until template_run_deinit.
 * Thread:   that of the run.
 * Cost:     a charge is an addition; memory is taken in blocks and freed at the end.
 * Not here: what values are (template_value), instructions (chat_template_eval).
 */
#pragma once

#include "config/base/clock.h"
#include "config/base/limits.h"
#include "config/base/slice.h"

enum {
    TEMPLATE_STEP_BYTES = 256, /* bytes touched that count as one step */
};

/* A part of a string. The bytes are the program's, the request's or the run's. */
struct template_piece {
    struct slice text;
    bool is_own; /* the template wrote it, not a client */
};

struct template_block;

struct template_run {
    const struct clock *clock;
    uint32_t line; /* of the instruction under way */
    uint64_t steps;
    uint64_t spent; /* of these, given to turns_spend */
    size_t bytes;   /* of all values, at most LIMIT_TEMPLATE_VALUE_BYTES */
    struct template_block *blocks;
    struct template_piece *pieces;
    size_t piece_count;
    size_t piece_capacity;
};

void template_run_deinit(struct template_run *run);

/* Writes "chat template, line N: …". The text is a constant or the template's, never a client's: it
 * may be shown to one. */
enum status template_run_fail(const struct template_run *run, int source_line, enum status status,
                              const char *format, ...) __attribute__((format(printf, 4, 5)));
#define TEMPLATE_FAIL(run, status, ...)                                                            \
    return template_run_fail((run), __LINE__, (status), __VA_ARGS__)

/* Counts one step, and one more for each TEMPLATE_STEP_BYTES of `bytes`. TEMPLATE_LIMIT beyond the
 * bound. */
enum status template_run_charge(struct template_run *run, size_t bytes);
/* Counts bytes of values. TEMPLATE_LIMIT beyond the bound. */
enum status template_run_count(struct template_run *run, size_t bytes);
/* Memory that lives as long as the run, for any type, not zeroed. TEMPLATE_LIMIT, NO_MEMORY. */
enum status template_run_alloc(struct template_run *run, size_t bytes, void **out);
/* Appends a piece to the list. TEMPLATE_LIMIT, NO_MEMORY. */
enum status template_run_add_piece(struct template_run *run, struct template_piece piece);
