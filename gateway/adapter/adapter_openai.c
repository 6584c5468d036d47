#define ADAPTER_LIST "gateway/adapter/kind_openai.def"
#include "gateway/adapter/adapter_list.h"

/* Such a server counts in its last frame alone, and nobody knows who shares its cache. */
const struct adapter_kind adapter_openai = {.name = "openai",
                                            .isolation = ADAPTER_SHARED,
                                            .path = "",
                                            .honours = list_honours,
                                            .fixed = list_fixed,
                                            .salts = list_salts,
                                            .has_late_cached = true,
                                            .counts = adapter_kind_usage};
