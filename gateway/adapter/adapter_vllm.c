#define ADAPTER_LIST "gateway/adapter/kind_vllm.def"
#include "gateway/adapter/adapter_list.h"

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
                                          .counts = adapter_kind_usage};
