/* kernels_kv: types and layout of KV pages, and the position of a batch's rows in them.
 *
 * Owns:     nothing.
 * Thread:   the engine thread, as kernels.h says.
 * Cost:     a copy costs its bytes; the rest is arithmetic.
 * Not here: who owns pages (engine/kv/kv_pool), what reads and writes them (kernels.h).
 *
 * A page is [layer][kv_head][K tile][V tile], each of page_tokens tokens. Where the layers of a
 * model have two kinds, a page consists of units of this form: the first unit holds the layers that
 * read all keys, and the window units hold those that read the last keys only. K4V8 and K4V4 pack
 * keys by channel over groups of 16 tokens, which is possible only once a group is full. Until
 * then, and for the group's own rows, the keys are in an open group outside the pages. A row reads
 * its own group from the open group and all earlier groups from the pages, whatever else is in the
 * step.
 */
#pragma once

#include <stdbool.h>
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
/* Tokens of a group whose keys are packed together; keys that attention reads at once. */
enum { KV_GROUP_TOKENS = 16, ATTENTION_BLOCK_KEYS = 64 };

/* Returns the first key that attention of a row at `position` touches. A window of keys is read in
 * whole blocks, so this is its first key, rounded down. 0 if `window` is 0. */
static inline uint32_t kernels_window_first(uint32_t window, uint32_t position)
{
    const uint32_t keys = position + 1;
    return window > 0 && keys > window
               ? (keys - window) / ATTENTION_BLOCK_KEYS * ATTENTION_BLOCK_KEYS
               : 0;
}

/* Returns whether keys are packed by groups of tokens, and wait in open groups until then. */
static inline bool kernels_kv_has_groups(enum kv_type type)
{
    return type == KV_TYPE_K4V8 || type == KV_TYPE_K4V4;
}

const char *kernels_kv_type_name(enum kv_type type);
/* UNSUPPORTED lists the names. */
enum status kernels_kv_type_find(enum kv_type *out, const char *name);

struct kv_layout {
    enum kv_type type;
    uint32_t page_tokens;
    uint32_t layers; /* of a page; with window units, of each unit */
    uint32_t kv_heads;
    uint32_t head_dim;
    size_t tile_bytes;  /* K of one head and layer, page_tokens tokens; V follows */
    size_t head_bytes;  /* K and V of one head and layer */
    size_t layer_bytes; /* kv_heads × head_bytes */
    size_t page_bytes;  /* of a page or unit: layers × layer_bytes, rounded up to 64 */
    /* of an open group with all layers, a multiple of 64; 0: the type has none */
    size_t open_bytes;
    /* Units of a page beside its first one, and the number of keys that their layers read. The
     * caller of kernels_kv_layout sets both; 0: a page is one unit. */
    uint32_t window_units;
    uint32_t window;
};

/* Fills `out`. The order of elements inside a tile is private to the table. `page_tokens` is a
 * multiple of 16. UNSUPPORTED names the limit that is exceeded, or a type that the table lacks. */
enum status kernels_kv_layout(struct kernels *kernels, enum kv_type type, uint32_t page_tokens,
                              uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
                              struct kv_layout *out);
/* Returns the tokens of a page that suit the machine: 16 on processors, 64 on a device. */
uint32_t kernels_page_tokens(const struct kernels *kernels);

/* Copies the first `tokens` tokens of a page, all layers, before a sequence appends to a shared
 * page. For a type with open groups `tokens` is a multiple of 16. */
void kernels_kv_copy(struct kernels *kernels, const struct kv_layout *layout, void *to_page,
                     const void *from_page, uint32_t tokens);

/* Whole pages to copy between two areas that do not overlap (the pool and memory of
 * kernels_host_create): page from_pages[i] of `from` becomes page to_pages[i] of `to`. */
struct pages_copy_args {
    void *to;                   /* page p starts at to + p × page_bytes, 64-byte aligned */
    const void *from;           /* likewise */
    const uint32_t *to_pages;   /* [count], all different */
    const uint32_t *from_pages; /* [count] */
    uint32_t count;
    size_t page_bytes; /* a multiple of 64 */
};
/* Returns the reason of NULL from kernels_host_create, as kernels_no_memory. */
enum status kernels_no_host_memory(struct kernels *kernels, size_t bytes, const char *what);
/* Copies pages, calls in order. On a device the copies begin after the work queued before and run
 * beside the work queued after, until kernels_pages_wait. Returns the batch's number: 1, 2, …, one
 * for each call. */
uint64_t kernels_pages_copy(struct kernels *kernels, const struct pages_copy_args *args);
/* Makes work queued from here on wait for the batches up to `batch`. The caller does not wait. */
void kernels_pages_wait(struct kernels *kernels, uint64_t batch);
/* Returns the last batch of which it is known, without waiting, that it and all before it are
 * complete. */
uint64_t kernels_pages_ended(struct kernels *kernels);
/* Waits until all batches are complete. UNAVAILABLE as kernels_step_end. */
enum status kernels_pages_end(struct kernels *kernels);

/* Callbacks that run before each copy begins, so that other ranks can do the same to their pages.
 */
struct kernels_copies_told {
    void *context;
    void (*kv_copy)(void *context, void *to_page, const void *from_page, uint32_t tokens);
    void (*pages_copy)(void *context, const struct pages_copy_args *args);
};
/* Sets the callbacks; `told` is borrowed. NULL: none. */
void kernels_copies_tell(struct kernels *kernels, const struct kernels_copies_told *told);

/* Where the rows of a batch have their keys and values. Row r is token `position[r]` of sequence
 * `sequence[r]`, in page position[r] / page_tokens of that sequence. The place of this page's unit
 * of group g in the pool is page_tables[g × sequences + sequence[r]][position[r] / page_tokens]. */
struct kv_rows {
    const struct kv_layout *layout;
    void *pages;              /* page or unit i starts at pages + i × layout->page_bytes */
    const uint32_t *sequence; /* [rows] */
    const uint32_t *position; /* [rows] */
    /* [1 + layout->window_units][sequences][pages of the sequence]. Group 0 has the first units,
     * group 1 the first window units, and so on. The entries of window units are defined from the
     * page of kernels_window_first of the sequence's first row on. */
    const uint32_t *const *page_tables;
    /* For types with open groups: the 16 tokens of a row's group also keep their keys at open +
     * open_of[row] × layout->open_bytes, from the group's first row to its last. */
    void *open;
    const uint32_t *open_of; /* [rows] */
    uint32_t sequences;      /* of page_tables; any number if there are no window units */
};

#ifdef __cplusplus
}
#endif
