#include "engine/engine_pooling.h"

#include <stdio.h>
#include <string.h>

/* Numbers of pooling_type in GGUF files. */
enum { FILE_NONE = 0, FILE_MEAN = 1, FILE_CLS = 2, FILE_LAST = 3 };

static enum status find_in_file(enum engine_pooling *out, const struct model_source *source)
{
    char key[64];
    struct slice name;
    uint32_t number = FILE_NONE;
    TRY(model_source_get_string(source, "general.architecture", &name));
    snprintf(key, sizeof key, "%.*s.pooling_type", (int)(name.length < 32 ? name.length : 32),
             name.bytes);
    if (model_source_has(source, key))
        TRY(model_source_get_u32(source, key, &number));
    *out = number == FILE_MEAN   ? ENGINE_POOLING_MEAN
           : number == FILE_LAST ? ENGINE_POOLING_LAST
           : number == FILE_CLS  ? ENGINE_POOLING_FIRST
                                 : ENGINE_POOLING_NONE;
    if (*out == ENGINE_POOLING_NONE && number != FILE_NONE)
        FAIL(
            STATUS_UNSUPPORTED,
            "model file: key '%s' is %u: embeddings are the mean (1), or of the first token (2) or "
            "the last (3); --embeddings off serves the model without them",
            key, number);
    return STATUS_OK;
}

enum status engine_pooling_find(enum engine_pooling *out, const char *word,
                                const struct model_source *source)
{
    static const char *const words[] = {[ENGINE_POOLING_NONE] = "off",
                                        [ENGINE_POOLING_LAST] = "last",
                                        [ENGINE_POOLING_MEAN] = "mean",
                                        [ENGINE_POOLING_FIRST] = "cls"};
    if (word == NULL || strcmp(word, "auto") == 0)
        return find_in_file(out, source);
    for (int i = ENGINE_POOLING_NONE; i <= ENGINE_POOLING_FIRST; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (enum engine_pooling)i;
            return STATUS_OK;
        }
    FAIL(STATUS_INVALID, "--embeddings %.32s is not known: auto, off, last, mean or cls", word);
}

enum status engine_pooling_normalises(bool *out, const struct model_source *source)
{
    static const char key[] = "banyan.embeddings_normalised";
    *out = true;
    return model_source_has(source, key) ? model_source_get_bool(source, key, out) : STATUS_OK;
}

enum status engine_pooling_check(enum engine_pooling pooling, bool is_encoder)
{
    if (is_encoder && pooling == ENGINE_POOLING_NONE)
        FAIL(STATUS_UNSUPPORTED,
             "an encoder gives nothing but embeddings: --embeddings says which, "
             "mean, cls or last");
    if (!is_encoder && pooling == ENGINE_POOLING_FIRST)
        FAIL(STATUS_UNSUPPORTED,
             "--embeddings cls is for encoders: the first token of this model's "
             "texts sees no other");
    return STATUS_OK;
}
