/* edge_text_kit: small helpers of the edge's tests that need no server.
 *
 * Owns:     nothing.
 * Thread:   the test's.
 * Cost:     –
 * Not here: a running edge (edge_kit).
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/base/mem.h"
#include "config/base/slice.h"

/* Compares a slice with a text and prints both when they differ. */
static __attribute__((unused)) void edge_text_same(struct slice got, const char *expected)
{
    if (!slice_is(got, expected))
        fail_msg("got      %.*s\nexpected %s", (int)got.length, got.bytes, expected);
}

static __attribute__((unused)) void edge_text_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in: %s", part, text);
}

/* Lets the n-th allocation fail (n from 0). */
struct edge_text_failing {
    int count;
    int fails_at;
};
static __attribute__((unused)) int edge_text_hook(void *context, size_t bytes)
{
    struct edge_text_failing *failing = context;
    (void)bytes;
    return failing->count++ == failing->fails_at;
}
