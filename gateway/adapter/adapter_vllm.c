#define ADAPTER_LIST "gateway/adapter/kind_vllm.def"
#include "gateway/adapter/adapter_list.h"

static bool vllm_gauge(struct slice answer, uint32_t *out)
{
    uint32_t waiting = 0;
    if (!adapter_kind_series(answer, "vllm:num_requests_running", out) ||
        !adapter_kind_series(answer, "vllm:num_requests_waiting", &waiting))
        return false;
    *out += waiting;
    return true;
}

/* With continuous_usage_stats each frame has the usage so far of its one choice. */
const struct adapter_kind adapter_vllm = {.name = "vllm",
                                          .isolation = ADAPTER_SALTED,
                                          .path = "/version",
                                          .honours = list_honours,
                                          .fixed = list_fixed,
                                          .salts = list_salts,
                                          .owner = "vllm",
                                          .has_counts = true,
                                          .has_late_cached = true,
                                          .counts = adapter_kind_usage,
                                          .gauge_path = "/metrics",
                                          .gauge = vllm_gauge};
