#include "engine/text/template_call.h"

#include "engine/text/template_string.h"

/* The place of a name among `params`, or -1; with an empty name, how many they are. */
static int bind_place(const struct template_run *run, const char *params,
                      const struct template_value *name)
{
    int place = 0;
    while (*params != '\0') {
        size_t length = strcspn(params, " ");
        if (name != NULL && template_string_is(run, *name, (struct slice){params, length}))
            return place;
        place++;
        params += length + (params[length] == ' ');
    }
    return name == NULL ? place : -1;
}

enum status template_call_bind(struct template_run *run, const struct template_call *call,
                               struct template_value value, const char *params,
                               struct template_args *out)
{
    *out = (struct template_args){.value = value, .call = call};
    if (strcmp(params, "*") == 0)
        return STATUS_OK;
    int count = bind_place(run, params, NULL);
    ASSERT(count <= TEMPLATE_CALL_PARAMS);
    if (call->count > (uint32_t)count)
        TEMPLATE_FAIL(run, STATUS_INVALID, "too many arguments");
    for (uint32_t i = 0; i < call->count; i++)
        out->at[i] = call->values[i];
    for (uint32_t i = 0; i < call->named_count; i++) {
        int place = bind_place(run, params, &call->named[2 * i]);
        if (place < 0 || out->at[place].kind != TEMPLATE_ABSENT)
            TEMPLATE_FAIL(run, STATUS_INVALID, "an argument has a name that is not expected here");
        out->at[place] = call->named[2 * i + 1];
    }
    return STATUS_OK;
}

enum status template_call_integer(struct template_run *run, struct template_value value,
                                  int64_t missing, int64_t *out)
{
    *out = missing;
    if (value.kind == TEMPLATE_ABSENT || value.kind == TEMPLATE_NONE)
        return STATUS_OK;
    if (value.kind != TEMPLATE_INTEGER && value.kind != TEMPLATE_BOOL)
        TEMPLATE_FAIL(run, STATUS_INVALID, "an argument must be a whole number, not %s",
                      template_value_kind_name(value));
    *out = value.integer;
    return STATUS_OK;
}

const struct template_value *template_call_named(const struct template_run *run,
                                                 const struct template_call *call, const char *name)
{
    for (uint32_t i = 0; i < call->named_count; i++) {
        if (template_string_is(run, call->named[2 * i], slice_of(name)))
            return &call->named[2 * i + 1];
    }
    return NULL;
}
