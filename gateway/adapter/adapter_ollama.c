#define ADAPTER_LIST "gateway/adapter/kind_ollama.def"
#include "gateway/adapter/adapter_list.h"

/* It counts in its last frame alone, has one cache for all callers, and tells no gauge. */
const struct adapter_kind adapter_ollama = {.name = "ollama",
                                            .isolation = ADAPTER_SHARED,
                                            .path = "/api/version",
                                            .honours = list_honours,
                                            .fixed = list_fixed,
                                            .salts = list_salts,
                                            .has_late_cached = true,
                                            .formats_chats_alone = true,
                                            .counts = adapter_kind_usage};
