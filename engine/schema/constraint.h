/* constraint: the one front door from what a request asks for to a grammar.
 *
 *     JSON Schema, json_object, regex, choice, Lark ── constraint_compile ──► struct grammar
 *
 * Owns:     nothing; the grammar belongs to the caller, who drops it.
 * Thread:   any. A compilation keeps all that it uses to itself.
 * Cost:     bounded by the fuel: LIMIT_COMPILE_STEPS steps take less than half a second of CPU.
 * Not here: the cache of grammars (grammar_cache), the compile thread, the fields of requests that
 *           name a constraint (gateway/dialect).
 *
 * The grammar never accepts what the source forbids. It may be narrower: some values that a schema
 * allows cannot be written. README.md lists these.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config/base/slice.h"

struct grammar;
struct grammar_fuel;

enum constraint_kind {
    CONSTRAINT_JSON_SCHEMA, /* source: the schema, JSON */
    CONSTRAINT_JSON_OBJECT, /* any JSON object of depth at most 32; the source is empty */
    CONSTRAINT_REGEX,       /* source: a regex for the whole answer */
    CONSTRAINT_CHOICE,      /* source: a JSON array of texts */
    CONSTRAINT_LARK,        /* source: a Lark grammar */
};

struct constraint_options {
    /* OpenAI's `strict`: unknown keywords and formats are refused, and an object whose properties
     * are named has no others. */
    bool strict;
    bool disable_any_whitespace;        /* no white space between the tokens of JSON */
    bool disable_additional_properties; /* objects are closed as with strict */
    /* Bytes that no token of the vocabulary has, a bit for each byte: bit b % 64 of word b / 64.
     * They are cut from the grammar, so that a text that no model can write is refused here. */
    uint64_t missing_bytes[4];
};

enum { CONSTRAINT_PATH_BYTES = 256, CONSTRAINT_KEYWORD_BYTES = 64, CONSTRAINT_MESSAGE_BYTES = 256 };

/* What is wrong with a source. Texts end with a NUL and are cut to their room; they quote the
 * source, so they may be shown to who sent it, and never reach a log. */
struct constraint_error {
    char path[CONSTRAINT_PATH_BYTES]; /* in the source: ".properties.x.pattern"; "" is the source */
    char keyword[CONSTRAINT_KEYWORD_BYTES]; /* "pattern", or "" */
    char message[CONSTRAINT_MESSAGE_BYTES]; /* a whole sentence */
};

/* Compiles a source. On success `*out` has one reference, and `error` is not touched. On failure
 * `*out` is NULL and `error` is filled:
 *   INVALID      the source is broken, or no value can match: invalid_schema, invalid_grammar
 *   UNSUPPORTED  a construct that is not supported: unsupported_schema, invalid_grammar
 *   LIMIT        over a limit, or out of fuel: schema_too_complex
 *   CANCELLED    the flag of the fuel was set; NO_MEMORY */
enum status constraint_compile(enum constraint_kind kind, struct slice source,
                               const struct constraint_options *options, struct grammar_fuel *fuel,
                               struct grammar **out, struct constraint_error *error);
