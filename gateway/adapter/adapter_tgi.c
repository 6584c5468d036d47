#define ADAPTER_LIST "gateway/adapter/kind_tgi.def"
#include "gateway/adapter/adapter_list.h"

#include "engine/engine.h"

/* Each frame with a choice is one token, an end token without text included. */
static void tgi_counts(const json_t *frame, struct adapter_counts *out)
{
    if (json_array_size(json_object_get(frame, "choices")) > 0)
        out->completion = out->completion < 0 ? 1 : out->completion + 1;
    adapter_kind_usage(frame, out);
}

static void tgi_facts(const json_t *answer, struct adapter_facts *out)
{
    const uint32_t context = adapter_kind_number(answer, "max_total_tokens");
    if (context > 0)
        out->context = context;
}

/* A grammar of its own form, which all its versions read. */
static void tgi_format(const struct engine_request *request, struct buffer *out)
{
    buffer_append_text(out, "{\"type\":\"json\",\"value\":");
    if (request->constraint.kind == CONSTRAINT_JSON_OBJECT)
        buffer_append_text(out, "{\"type\":\"object\"}");
    else
        buffer_append_slice(out, request->constraint.source);
    buffer_append_char(out, '}');
}

static bool tgi_gauge(struct slice answer, uint32_t *out)
{
    uint32_t waiting = 0;
    if (!adapter_kind_series(answer, "tgi_batch_current_size", out) ||
        !adapter_kind_series(answer, "tgi_queue_size", &waiting))
        return false;
    *out += waiting;
    return true;
}

const struct adapter_kind adapter_tgi = {.name = "tgi",
                                         .isolation = ADAPTER_SHARED,
                                         .path = "/info",
                                         .honours = list_honours,
                                         .fixed = list_fixed,
                                         .salts = list_salts,
                                         .has_counts = true,
                                         .formats_chats_alone = true,
                                         .counts = tgi_counts,
                                         .facts = tgi_facts,
                                         .format = tgi_format,
                                         .gauge_path = "/metrics",
                                         .gauge = tgi_gauge};
