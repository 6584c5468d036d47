#include "gateway/edge/pages/edge_models.h"

#include "gateway/edge/engines/edge_probe.h"

bool edge_models_is_known(const struct edge *edge)
{
    return edge_probe_engine(edge->probe)->model[0] != '\0';
}

enum status edge_models_check(const struct edge *edge, const struct principal *principal,
                              struct slice model, bool *is_allowed)
{
    struct tenant tenant;
    *is_allowed = true;
    if (!principal->has_models)
        return STATUS_OK;
    TRY(tenants_get(auth_tenants(edge->auth), slice_of(principal->tenant_id), &tenant));
    *is_allowed = tenant_allows_model(&tenant, model);
    return STATUS_OK;
}

static void append_model(const struct edge_probe_engine *engine, struct buffer *out)
{
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(engine->model));
    buffer_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"banyan\"",
                  (long long)engine->created_s);
    if (engine->context != 0)
        buffer_printf(out, ",\"max_model_len\":%u", engine->context);
    buffer_append_char(out, '}');
}

enum status edge_models_append(const struct edge *edge, const struct principal *principal,
                               struct slice id, struct buffer *out)
{
    const struct edge_probe_engine *engine = edge_probe_engine(edge->probe);
    bool is_allowed;
    if (!edge_models_is_known(edge))
        FAIL(STATUS_UNAVAILABLE, "The engine is not available now; try again shortly.");
    TRY(edge_models_check(edge, principal, slice_of(engine->model), &is_allowed));
    if (id.bytes != NULL && (!is_allowed || !slice_is(id, engine->model)))
        FAIL_PARAM(STATUS_MODEL_NOT_FOUND, "model",
                   "The model does not exist or you do not have access to it.");
    if (id.bytes == NULL)
        buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    if (is_allowed)
        append_model(engine, out);
    if (id.bytes == NULL)
        buffer_append_text(out, "]}");
    return out->status;
}
