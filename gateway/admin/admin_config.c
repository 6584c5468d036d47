#include "gateway/admin/admin_config.h"

#include "gateway/admin/admin_body.h"
#include "gateway/admin/admin_change.h"
#include "gateway/admin/admin_query.h"
#include "gateway/edge/state/edge_reload.h"

enum { DETAIL_BYTES = 900 }; /* an audit row has room for 1,024 */

enum status admin_config_get(struct admin_call *call)
{
    const struct config *config = call->admin->config;
    struct admin_query query;
    TRY(admin_query_read(call->query, 0, &query));
    call->revision = (int64_t)config->revision; /* no 304: a restarted edge counts from 1 again */
    buffer_printf(&call->out, "{\"object\":\"config\",\"revision\":%llu,",
                  (unsigned long long)config->revision);
    config_describe(config, &call->out);
    buffer_append_char(&call->out, '}');
    return call->out.status;
}

static enum status check_sources(const struct admin *admin)
{
    if (admin->reload == NULL || edge_reload_sources(admin->reload) == NULL)
        FAIL(STATUS_UNAVAILABLE, "This server cannot read its options again.");
    return STATUS_OK;
}

enum status admin_config_validate(struct admin_call *call)
{
    struct admin_query query;
    struct admin_body_field field = {
        .name = "options", .kind = ADMIN_BODY_OBJECT, .is_required = true};
    TRY(check_sources(call->admin));
    TRY(admin_query_read(call->query, 0, &query));
    enum status status = admin_body_read(call->body, &field, 1);
    if (status == STATUS_OK) {
        buffer_append_text(&call->out, "{\"object\":\"config_validation\",");
        status = config_validate(call->admin->config, edge_reload_sources(call->admin->reload),
                                 buffer_slice(&field.json), &call->out);
        buffer_append_char(&call->out, '}');
    }
    admin_body_free(&field, 1);
    return status != STATUS_OK ? status : call->out.status;
}

/* --- reload --- */

/* Writes the audit row before the reload, so that no reload lacks one. `out` has the list of
 * changes. */
static enum status reload_note(struct admin_call *call)
{
    struct tenant_change change;
    struct buffer detail;
    TRY(admin_change_begin(call, &change));
    call->code = 200;
    buffer_init(&detail, 2 * DETAIL_BYTES);
    buffer_append_text(&detail, "{\"changes\":");
    if (call->out.length <= DETAIL_BYTES)
        buffer_append_slice(&detail, buffer_slice(&call->out));
    else
        buffer_append_text(&detail, "\"too many to list\"");
    buffer_append_char(&detail, '}');
    enum status status = detail.status;
    if (status == STATUS_OK)
        status = tenants_audit_add(auth_tenants(call->admin->auth), &change, "config.reloaded",
                                   SLICE("config"), buffer_slice(&detail));
    buffer_deinit(&detail);
    return status;
}

static enum status reload_now(struct admin_call *call)
{
    struct admin_query query;
    struct buffer changes = call->out;
    struct admin *admin = call->admin;
    TRY(admin_query_read(call->query, ADMIN_QUERY_CHANGE, &query));
    if (!query.is_dry_run)
        TRY(edge_reload_everywhere(admin->reload));
    buffer_init(&call->out, LIMIT_ADMIN_ANSWER_BYTES);
    buffer_printf(&call->out, "{\"object\":\"config_reload\",\"revision\":%llu,\"changes\":",
                  (unsigned long long)admin->config->revision);
    buffer_append_slice(&call->out, buffer_slice(&changes));
    buffer_append_text(&call->out, query.is_dry_run ? ",\"dry_run\":true}" : "}");
    buffer_deinit(&changes);
    call->revision = (int64_t)admin->config->revision;
    return call->out.status;
}

enum status admin_config_reload(struct admin_call *call)
{
    struct tenant_change change;
    TRY(check_sources(call->admin));
    TRY(admin_change_begin(call, &change));
    TRY(admin_change_check_revision(&change, (int64_t)call->admin->config->revision));
    TRY(admin_body_read(call->body, NULL, 0));
    TRY(edge_reload_check(call->admin->reload, &call->out));
    call->second = reload_note;
    call->third = reload_now;
    return call->out.status;
}
