#include "engine/schema/schema_keyword.h"

#include "engine/schema/schema_array.h"
#include "engine/schema/schema_logic.h"
#include "engine/schema/schema_number.h"
#include "engine/schema/schema_object.h"
#include "engine/schema/schema_string.h"
#include "engine/schema/schema_value.h"

static const struct schema_keyword keywords[] = {
#define SCHEMA_KEYWORD(name, types, prefix)                                                        \
    {name, schema_##prefix, schema_##prefix##_not, types, false},
#define SCHEMA_NOTE(name)    {name, NULL, NULL, 0, false},
#define SCHEMA_PART(name)    {name, NULL, NULL, 0, false},
#define SCHEMA_REFUSED(name) {name, NULL, NULL, 0, true},
#include "engine/schema/schema_keywords.def"
#undef SCHEMA_KEYWORD
#undef SCHEMA_NOTE
#undef SCHEMA_PART
#undef SCHEMA_REFUSED
};

static const struct schema_keyword note = {.name = "x-"};

const struct schema_keyword *schema_keyword_find(struct slice name)
{
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (slice_is(name, keywords[i].name))
            return &keywords[i];
    }
    return slice_starts_with(name, SLICE("x-")) ? &note : NULL;
}
