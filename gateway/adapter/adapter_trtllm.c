#define ADAPTER_LIST "gateway/adapter/kind_trtllm.def"
#include "gateway/adapter/adapter_list.h"

static bool trtllm_gauge(struct slice answer, uint32_t *out)
{
    uint32_t waiting = 0;
    if (!adapter_kind_series(answer, "trtllm_num_requests_running", out) ||
        !adapter_kind_series(answer, "trtllm_num_requests_waiting", &waiting))
        return false;
    *out += waiting;
    return true;
}

/* It answers the path of vLLM, and has its usage in each frame. Only chats take a salt. */
const struct adapter_kind adapter_trtllm = {.name = "trtllm",
                                            .isolation = ADAPTER_SALTED,
                                            .is_salted_in_chats = true,
                                            .path = "/version",
                                            .honours = list_honours,
                                            .fixed = list_fixed,
                                            .salts = list_salts,
                                            .owner = "tensorrt_llm",
                                            .has_counts = true,
                                            .has_late_cached = true,
                                            .top_logprobs_least = 1,
                                            .counts = adapter_kind_usage,
                                            .gauge_path = "/prometheus/metrics",
                                            .gauge = trtllm_gauge};
