/* adapter_kind: the kinds of foreign servers, and what each of them honours and tells.
 *
 * Owns:     nothing; kinds are constants.
 * Thread:   any.
 * Cost:     –
 * Not here: writing a request (adapter_body), reading an answer (adapter_stream).
 *
 * A kind is a row in kinds.def, a list kind_<name>.def (adapter_list) and a file adapter_<name>.c.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "config/base/limits.h"
#include "config/base/slice.h"

struct engine_request;

enum adapter_field {
#define ADAPTER_FIELD(name, when, is_asked) ADAPTER_FIELD_##name,
#include "gateway/adapter/adapter_fields.def"
#undef ADAPTER_FIELD
    ADAPTER_FIELDS,
};

enum adapter_isolation { ADAPTER_SALTED, ADAPTER_UNCACHED, ADAPTER_SHARED };

/* What a frame of an answer says of the tokens so far. A count that is absent is -1. */
struct adapter_counts {
    int64_t prompt;
    int64_t cached;
    int64_t completion;
    int64_t reasoning; /* of these */
};

struct adapter_member {
    const char *name;
    const char *json;
};

struct adapter_kind;

/* What a server says of itself at start. */
struct adapter_facts {
    const struct adapter_kind *kind;
    char model[LIMIT_NAME_BYTES]; /* the server's own name of it */
    uint32_t context;             /* tokens; 0 = it does not say */
    uint32_t requests;            /* that it can run at once; 0 = it does not say */
};

/* Whether a kind honours a field, and when the field is written. */
enum adapter_honours {
    ADAPTER_REFUSES,
    ADAPTER_HONOURS,    /* as adapter_fields.def says */
    ADAPTER_WHEN_ASKED, /* only when a request asks for more than the server does without it */
};

struct adapter_kind {
    const char *name;
    enum adapter_isolation isolation;
    bool is_salted_in_chats; /* a completion has no salt, so it shares its cache with everybody */
    const char *path;        /* that only this kind answers with 200 and JSON; "": there is none */
    const uint8_t *honours;  /* [ADAPTER_FIELDS] of enum adapter_honours */
    const struct adapter_member *fixed; /* ends with a name that is NULL */
    const char *const *salts;           /* of these the first is used; NULL: it has no salt */
    const char *owner; /* "owned_by" of its models, which `path` alone does not prove; NULL: any */
    bool has_counts;   /* each frame has the completion tokens so far, so that a cut loses none */
    bool has_late_cached;        /* tokens found in the cache are told in the last frame alone */
    bool formats_chats_alone;    /* a completion cannot be constrained */
    int32_t top_k_off;           /* the value of "top_k" that switches it off: 0 or -1 */
    uint32_t top_logprobs_least; /* with fewer it gives no log-probabilities at all */
    void (*counts)(const json_t *frame, struct adapter_counts *out);
    /* Reads the answer of `path`; NULL: there is nothing more in it. */
    void (*facts)(const json_t *answer, struct adapter_facts *out);
    /* Writes "response_format"; NULL: as in OpenAI's API. */
    void (*format)(const struct engine_request *request, struct buffer *out);
    /* Where the server tells how many requests it computes or has queued, and how that is read:
     * false when the answer does not say it. NULL: it tells nowhere. */
    const char *gauge_path;
    bool (*gauge)(struct slice answer, uint32_t *out);
};

/* NULL when there is no kind of this name. */
const struct adapter_kind *adapter_kind_named(const char *name);
/* The kinds in the order in which they are tried; NULL behind the last. */
const struct adapter_kind *adapter_kind_at(size_t index);
/* The names of all kinds, for messages: "vllm, llama, openai". */
const char *adapter_kind_names(void);
/* Reads "usage" as OpenAI's API has it. Counts that a frame does not have stay as they are. */
void adapter_kind_usage(const json_t *frame, struct adapter_counts *out);

/* Adds up all series of a metric (Prometheus text); false when there is none, or no sum that is a
 * number of requests. */
bool adapter_kind_series(struct slice text, const char *name, uint32_t *out);

/* A whole number from 1 to LIMIT_CONTEXT of an object, or 0. */
uint32_t adapter_kind_number(const json_t *object, const char *name);

#define ADAPTER_KIND(name) extern const struct adapter_kind adapter_##name;
#include "gateway/adapter/kinds.def"
#undef ADAPTER_KIND
