#include "engine/schema/schema_compile.h"

#include <stdio.h>

#include "engine/schema/schema_any.h"
#include "engine/schema/schema_merge.h"
#include "engine/schema/schema_reach.h"
#include "engine/schema/schema_ref.h"
#include "engine/schema/schema_text.h"
#include "engine/schema/schema_write.h"

static enum status no_value(struct schema *schema)
{
    if (schema->is_narrowed)
        return schema_fail(schema, STATUS_UNSUPPORTED, schema->narrowed, NULL,
                           "Values that this allows cannot be written as a grammar.");
    return schema_fail(schema, STATUS_INVALID, 0, NULL, "No value can match the schema.");
}

/* A failure of fuel, of regexes or of the builder has no place in the schema. */
static void fill_error(struct constraint_error *error, enum status status)
{
    if (error->message[0] != '\0')
        return;
    const char *message = "The schema is too complex.";
    if (status == STATUS_NO_MEMORY)
        message = "There is no memory for the schema.";
    else if (status == STATUS_CANCELLED)
        message = "The compilation was cancelled.";
    else if (status == STATUS_INVALID)
        message = "No value can match the schema.";
    snprintf(error->message, sizeof error->message, "%s", message);
}

static enum status compile(struct schema *schema, bool is_object, grammar_symbol *start)
{
    schema->look = schema_merge_look;
    TRY(schema_text_begin(schema));
    if (is_object) {
        *start = schema_any_object(schema);
        return grammar_builder_status(schema->builder);
    }
    schema_set_id root;
    const schema_claim claim = schema_claim_of(SCHEMA_VALID, 0);
    TRY(schema_ref_begin(schema));
    TRY(schema_set_of(schema, &claim, 1, &root));
    TRY(schema_reach(schema, root));
    if (!schema->sets[root].is_productive)
        return no_value(schema);
    TRY(schema_write(schema, root, start));
    return grammar_builder_status(schema->builder);
}

static enum status run(struct grammar_builder *builder, struct slice source, bool is_object,
                       const struct constraint_options *options, grammar_symbol *start,
                       struct constraint_error *error)
{
    struct schema schema;
    *start = GRAMMAR_NOTHING;
    *error = (struct constraint_error){0};
    enum status status = schema_begin(&schema, builder, source, options, error);
    if (status == STATUS_OK)
        status = compile(&schema, is_object, start);
    schema_end(&schema);
    if (status != STATUS_OK)
        fill_error(error, status);
    return status;
}

enum status schema_compile(struct grammar_builder *builder, struct slice source,
                           const struct constraint_options *options, grammar_symbol *start,
                           struct constraint_error *error)
{
    return run(builder, source, false, options, start, error);
}

enum status schema_compile_object(struct grammar_builder *builder,
                                  const struct constraint_options *options, grammar_symbol *start,
                                  struct constraint_error *error)
{
    return run(builder, SLICE("true"), true, options, start, error);
}
