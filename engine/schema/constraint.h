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
 * allows cannot be written. README.md lists them.
 */
#pragma once

#include <stdint.h>

#include "config/base/slice.h"
#include "engine/schema/constraint_types.h"

struct grammar;
struct grammar_builder;
struct grammar_fuel;

/* Compiles a source. On success `*out` has one reference, and `error` is not touched. On failure
 * `*out` is NULL and `error` is filled:
 *   INVALID      the source is broken, or no value can match: invalid_schema, invalid_grammar
 *   UNSUPPORTED  a construct that is not supported: unsupported_schema, invalid_grammar
 *   LIMIT        over a limit, or out of fuel: schema_too_complex
 *   CANCELLED    the flag of the fuel was set; NO_MEMORY */
enum status constraint_compile(enum constraint_kind kind, struct slice source,
                               const struct constraint_options *options, struct grammar_fuel *fuel,
                               struct grammar **out, struct constraint_error *error);

/* Adds the rules of a source to a builder, for grammars of which the source is a part, such as the
 * arguments of a tool. `*start` is a grammar_symbol. Bytes that the vocabulary does not have must
 * have been cut from the builder's pool (regex_pool_cut); `missing_bytes` is not read. */
enum status constraint_build(enum constraint_kind kind, struct slice source,
                             const struct constraint_options *options,
                             struct grammar_builder *builder, uint32_t *start,
                             struct constraint_error *error);
