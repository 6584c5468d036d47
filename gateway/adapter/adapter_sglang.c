#define ADAPTER_LIST "gateway/adapter/kind_sglang.def"
#include "gateway/adapter/adapter_list.h"

/* {"max_running_requests":…,…}: the server's arguments. */
static void sglang_facts(const json_t *answer, struct adapter_facts *out)
{
    out->requests = adapter_kind_number(answer, "max_running_requests");
}

/* {"aggregate":{"total_running_reqs":…,"total_waiting_reqs":…},…} */
static bool sglang_gauge(struct slice answer, uint32_t *out)
{
    json_t *root = json_loadb(answer.bytes, answer.length, 0, NULL);
    const json_t *sums = json_object_get(root, "aggregate");
    const json_t *running = json_object_get(sums, "total_running_reqs");
    const json_t *waiting = json_object_get(sums, "total_waiting_reqs");
    const bool is_sound =
        json_is_integer(running) && json_is_integer(waiting) && json_integer_value(running) >= 0 &&
        json_integer_value(running) <= LIMIT_CONTEXT && json_integer_value(waiting) >= 0 &&
        json_integer_value(waiting) <= LIMIT_CONTEXT;
    *out = is_sound ? (uint32_t)(json_integer_value(running) + json_integer_value(waiting)) : 0;
    json_decref(root);
    return is_sound;
}

/* Reasoning tokens stand beside the other counts. */
static void sglang_counts(const json_t *frame, struct adapter_counts *out)
{
    const json_t *reasoning = json_object_get(json_object_get(frame, "usage"), "reasoning_tokens");
    adapter_kind_usage(frame, out);
    if (json_is_integer(reasoning) && json_integer_value(reasoning) > 0 &&
        json_integer_value(reasoning) <= LIMIT_CONTEXT)
        out->reasoning = json_integer_value(reasoning);
}

/* It takes a salt, but versions before 2026-04 did not hand it to their cache
 * (sgl-project/sglang#23300), and an external cache never sees it (sgl-project/sglang#37160). A
 * server does not tell whether it does, so its tenants are taken to share the cache. */
const struct adapter_kind adapter_sglang = {.name = "sglang",
                                            .isolation = ADAPTER_SHARED,
                                            .path = "/get_server_info",
                                            .honours = list_honours,
                                            .fixed = list_fixed,
                                            .salts = list_salts,
                                            .owner = "sglang",
                                            .has_counts = true,
                                            .has_late_cached = true,
                                            .top_k_off = -1,
                                            .counts = sglang_counts,
                                            .facts = sglang_facts,
                                            .gauge_path = "/v1/loads",
                                            .gauge = sglang_gauge};
