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

static void append_model(const struct edge_probe_model *model, struct buffer *out)
{
    buffer_append_text(out, "{\"id\":");
    buffer_append_json_string(out, slice_of(model->id));
    buffer_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"banyan\"",
                  (long long)model->created_s);
    if (model->context != 0)
        buffer_printf(out, ",\"max_model_len\":%u", model->context);
    buffer_append_char(out, '}');
}

/* Appends those of the models that the tenant may use; with `id.bytes`, the one of that name. */
static enum status append_allowed(const struct edge *edge, const struct principal *principal,
                                  struct slice id, uint32_t *count, struct buffer *out)
{
    const struct edge_probe_engine *engine = edge_probe_engine(edge->probe);
    *count = 0;
    for (uint32_t i = 0; i < engine->model_count; i++) {
        const struct edge_probe_model *model = &engine->models[i];
        bool is_allowed;
        if (id.bytes != NULL && !slice_is(id, model->id))
            continue;
        TRY(edge_models_check(edge, principal, slice_of(model->id), &is_allowed));
        if (!is_allowed)
            continue;
        if ((*count)++ > 0)
            buffer_append_char(out, ',');
        append_model(model, out);
    }
    return STATUS_OK;
}

enum status edge_models_append(const struct edge *edge, const struct principal *principal,
                               struct slice id, struct buffer *out)
{
    uint32_t count = 0;
    if (!edge_models_is_known(edge))
        FAIL(STATUS_UNAVAILABLE, "The engine is not available now; try again shortly.");
    if (id.bytes == NULL)
        buffer_append_text(out, "{\"object\":\"list\",\"data\":[");
    TRY(append_allowed(edge, principal, id, &count, out));
    if (id.bytes != NULL && count == 0)
        FAIL_PARAM(STATUS_MODEL_NOT_FOUND, "model",
                   "The model does not exist or you do not have access to it.");
    if (id.bytes == NULL)
        buffer_append_text(out, "]}");
    return out->status;
}
