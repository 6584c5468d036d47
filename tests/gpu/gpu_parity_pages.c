/* gpu_parity_pages: copies of pages and of parts of one. */
#include "tests/gpu/gpu_parity.h"

/* Out to pinned memory and back to other places: the same bytes; a part of a page alone. */
static void check_copies(void)
{
    enum { PAGES = 9, MOVED = 5, TOKENS = 21 };
    static const uint32_t from[MOVED] = {2, 3, 4, 8, 0};
    static const uint32_t stored[MOVED] = {1, 2, 3, 0, 4};
    static const uint32_t back[MOVED] = {0, 1, 2, 3, 7};
    struct kv_layout layout;
    parity_must(cuda_kv_layout(KV_TYPE_F16, 32, 2, 3, 16, &layout), "layout");
    const size_t bytes = layout.page_bytes;
    uint16_t *pages = parity_host(PAGES * bytes);
    uint16_t *got = parity_host(PAGES * bytes);
    void *pinned;
    for (size_t i = 0; i < PAGES * bytes / 2; i++)
        pages[i] = (uint16_t)rng_next(&parity.rng);
    char *there = parity_up(pages, PAGES * bytes);
    char *other = parity_up(got, PAGES * bytes);
    parity_must(cuda_backend_alloc_host(parity.device, &pinned, PAGES * bytes, "pages"), "pinned");
    cuda_pages_copy(parity.device,
                    &(struct pages_copy_args){pinned, there, stored, from, MOVED, bytes});
    cuda_pages_copy(parity.device,
                    &(struct pages_copy_args){other, pinned, back, stored, MOVED, bytes});
    cuda_pages_wait(parity.device);
    parity_down(got, other, PAGES * bytes);
    double worst = 0;
    for (int i = 0; i < MOVED; i++)
        worst = fmax(worst, parity_same((char *)got + back[i] * bytes,
                                        (char *)pages + from[i] * bytes, bytes));
    parity_tell(worst, "pages_copy, out and back");
    cuda_kv_copy(parity.device, &layout, other, there + 5 * bytes, TOKENS);
    uint16_t *before = parity_host(bytes);
    memcpy(before, got, bytes);
    parity_down(got, other, bytes);
    const size_t tile = layout.tile_bytes / 2;
    worst = 0;
    for (size_t i = 0; i < bytes / 2; i++) {
        const size_t in = i % tile;
        const size_t token = i / tile % 2 == 0 ? in / 16 : in % 32;
        const uint16_t want = token < TOKENS ? pages[5 * bytes / 2 + i] : before[i];
        worst = got[i] == want ? worst : INFINITY;
    }
    parity_tell(worst, "kv_copy of %d tokens", TOKENS);
    cuda_backend_free_host(parity.device, pinned);
    parity_drop(there), parity_drop(other);
    free(pages), free(got), free(before);
}

void gpu_parity_pages(void)
{
    check_copies();
}
