#include "tests/kit/model_path.h"

#include <stdio.h>
#include <stdlib.h>

void model_path(char *out, size_t capacity)
{
    const char *name = "SmolLM2-135M-Instruct.Q4_1.gguf";
    const char *file = getenv("BANYAN_TEST_MODEL");
    const char *cache = getenv("BANYAN_CACHE");
    const char *home = getenv("HOME");
    if (file != NULL)
        snprintf(out, capacity, "%s", file);
    else if (cache != NULL)
        snprintf(out, capacity, "%s/%s", cache, name);
    else
        snprintf(out, capacity, "%s/.cache/banyan/%s", home != NULL ? home : "", name);
}
