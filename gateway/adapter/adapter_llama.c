#define ADAPTER_LIST "gateway/adapter/kind_llama.def"
#include "gateway/adapter/adapter_list.h"

/* Each frame has "timings": the prompt's tokens that were computed and found in the cache, and the
 * answer's so far. The usage of the last frame says the same. */
static void llama_counts(const json_t *frame, struct adapter_counts *out)
{
    const json_t *timings = json_object_get(frame, "timings");
    const json_int_t computed = json_integer_value(json_object_get(timings, "prompt_n"));
    const json_int_t cached = json_integer_value(json_object_get(timings, "cache_n"));
    const json_int_t predicted = json_integer_value(json_object_get(timings, "predicted_n"));
    const bool is_sound = json_is_integer(json_object_get(timings, "prompt_n")) &&
                          json_is_integer(json_object_get(timings, "predicted_n")) &&
                          computed >= 0 && computed <= LIMIT_CONTEXT && cached >= 0 &&
                          cached <= LIMIT_CONTEXT - computed && predicted >= 0 &&
                          predicted <= LIMIT_CONTEXT;
    if (is_sound) {
        out->prompt = computed + cached;
        out->cached = cached;
        out->completion = predicted;
    }
    adapter_kind_usage(frame, out);
}

/* The context of a slot, and how many slots there are. */
static void llama_facts(const json_t *answer, struct adapter_facts *out)
{
    const json_t *settings = json_object_get(answer, "default_generation_settings");
    uint32_t context = adapter_kind_number(settings, "n_ctx");
    if (context > 0)
        out->context = context;
    out->requests = adapter_kind_number(answer, "total_slots");
}

/* Slots that compute: [{"id":0,"is_processing":true,…},…] */
static bool llama_gauge(struct slice answer, uint32_t *out)
{
    json_t *slots = json_loadb(answer.bytes, answer.length, 0, NULL);
    const bool is_sound = json_is_array(slots);
    size_t at;
    const json_t *slot;
    *out = 0;
    json_array_foreach(slots, at, slot) *out +=
        json_is_true(json_object_get(slot, "is_processing"));
    json_decref(slots);
    return is_sound;
}

const struct adapter_kind adapter_llama = {.name = "llama",
                                           .isolation = ADAPTER_UNCACHED,
                                           .path = "/props",
                                           .honours = list_honours,
                                           .fixed = list_fixed,
                                           .salts = list_salts,
                                           .has_counts = true,
                                           .top_logprobs_least = 1,
                                           .counts = llama_counts,
                                           .facts = llama_facts,
                                           .gauge_path = "/slots",
                                           .gauge = llama_gauge};
