/* kernels_kv: types and layout of KV pages, and where the rows of a batch have theirs.
 *
 * Owns:     nothing.
 * Thread:   the engine thread, as kernels.h says.
 * Cost:     a copy is its bytes; the rest is arithmetic.
 * Not here: who owns pages (engine/kv/kv_pool), what reads and writes them (kernels.h).
 *
 * A page is [layer][kv_head][K tile][V tile], all layers of page_tokens tokens. A type that keeps
 * keys by channels over groups of 16 tokens can do so only when a group is full: until then, and
 * for the rows of the group itself, its keys lie in an open group beside the pages. A row reads its
 * own group open and all groups before it as pages keep them, whatever else is in the step.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "config/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kernels;

enum kv_type {
#define KV_TYPE(id, name) KV_TYPE_##id,
#include "kernels/kv_types.def"
    KV_TYPES
};
/* Tokens of a group whose keys are packed together. */
enum { KV_GROUP_TOKENS = 16 };

const char *kernels_kv_type_name(enum kv_type type);
/* UNSUPPORTED lists the names. */
enum status kernels_kv_type_find(enum kv_type *out, const char *name);

struct kv_layout {
    enum kv_type type;
    uint32_t page_tokens;
    uint32_t layers;
    uint32_t kv_heads;
    uint32_t head_dim;
    size_t tile_bytes;  /* K of one head and layer, page_tokens tokens; V follows */
    size_t head_bytes;  /* K and V of one head and layer */
    size_t layer_bytes; /* kv_heads × head_bytes */
    size_t page_bytes;  /* layers × layer_bytes, rounded up to 64 */
    size_t open_bytes;  /* of an open group, all layers, a multiple of 64; 0: the type has none */
};

/* The order inside a tile is the table's own affair. `page_tokens` is a multiple of 16. UNSUPPORTED
 * names the limit that is broken, or says that float32 pages are for `ref`. */
enum status kernels_kv_layout(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                              uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                              struct kv_layout *out);
/* Tokens of a page as the machine likes them: 16 on processors, 64 on a device. */
uint32_t kernels_page_tokens(const struct kernels *kernels);

/* Copies the first `tokens` tokens of a page, all layers: before appending to a shared page. Of a
 * type with open groups only whole groups of 16 can be copied. */
void kernels_kv_copy(struct kernels *kernels, const struct kv_layout *layout, void *to_page,
                     const void *from_page, uint32_t tokens);

/* Whole pages, between two areas that do not overlap (the pool's and kernels_host_create's): page
 * from_pages[i] of `from` becomes page to_pages[i] of `to`, one call's copies behind another's. On
 * a device they begin behind the work asked before and go on beside what is asked after, until … */
struct pages_copy_args {
    void *to;                   /* page p starts at to + p × page_bytes, 64-byte aligned */
    const void *from;           /* likewise */
    const uint32_t *to_pages;   /* [count], none twice */
    const uint32_t *from_pages; /* [count] */
    uint32_t count;
    size_t page_bytes; /* a multiple of 64 */
};
/* As kernels_no_memory: what NULL of kernels_host_create means. */
enum status kernels_no_host_memory(struct kernels *kernels, size_t bytes, const char *what);
/* Returns the batch's number: 1, 2, …, one a call. */
uint64_t kernels_pages_copy(struct kernels *kernels, const struct pages_copy_args *args);
/* … this: work asked from here on comes behind the batches up to `batch`. Nobody waits. */
void kernels_pages_wait(struct kernels *kernels, uint64_t batch);
/* Batches up to this one are over, as far as is known without waiting. */
uint64_t kernels_pages_ended(struct kernels *kernels);
/* The caller waits until all are over. UNAVAILABLE as kernels_step_end. */
enum status kernels_pages_end(struct kernels *kernels);

/* Somebody is told of each copy before it begins: other ranks do the same to their pages. */
struct kernels_copies_told {
    void *context;
    void (*kv_copy)(void *context, void *to_page, const void *from_page, uint32_t tokens);
    void (*pages_copy)(void *context, const struct pages_copy_args *args);
};
/* `told` is borrowed; NULL: nobody any more. */
void kernels_copies_tell(struct kernels *kernels, const struct kernels_copies_told *told);

/* Where the rows of a batch live: row r is token `position[r]` of sequence `sequence[r]`, whose
 * page p of the pool is page_tables[sequence[r]][position[r] / page_tokens]. */
struct kv_rows {
    const struct kv_layout *layout;
    void *pages;                        /* page i starts at pages + i × layout->page_bytes */
    const uint32_t *sequence;           /* [rows] */
    const uint32_t *position;           /* [rows] */
    const uint32_t *const *page_tables; /* [sequences][pages of the sequence] */
    /* Of types with open groups: the 16 tokens that a row belongs to keep their keys at open +
     * open_of[row] × layout->open_bytes too, from the first row to the last. */
    void *open;
    const uint32_t *open_of; /* [rows] */
};

#ifdef __cplusplus
}
#endif
