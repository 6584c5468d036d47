/* gpu_parity_pages: copies of pages, and of parts of a page. */
#include "kernels/cuda/cuda_kv.h"
#include "tests/gpu/gpu_parity.h"

/* Pages copied to pinned memory and back to other pages have the same bytes; so has a copied part
 * of a page. */
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

/* Makes the expected result of copying the first tokens of a page into the page `to`. */
static void part_want(const struct kv_layout *layout, char *to, const char *from, uint32_t tokens)
{
    const size_t bytes = cuda_kv_element_bytes(layout);
    for (uint32_t tile = 0; tile < layout->layers * layout->kv_heads * 2; tile++)
        for (uint32_t token = 0; token < tokens; token++) {
            const size_t at = tile * layout->tile_bytes;
            const size_t scale = at + cuda_kv_scales(layout) + token * sizeof(float);
            for (uint32_t dim = 0; dim < layout->head_dim; dim++) {
                const size_t index = tile % 2 == 0
                                         ? cuda_kv_k_index(layout->head_dim, token, dim)
                                         : cuda_kv_v_index(layout->page_tokens, token, dim);
                memcpy(to + at + index * bytes, from + at + index * bytes, bytes);
            }
            if (cuda_kv_has_codes(layout))
                memcpy(to + scale, from + scale, sizeof(float));
        }
}

static void check_part(enum kv_type type)
{
    enum { TOKENS = 27 };
    struct kv_layout layout;
    parity_must(cuda_kv_layout(type, 48, 2, 3, 16, &layout), "layout");
    char *pages[2] = {parity_host(layout.page_bytes), parity_host(layout.page_bytes)};
    char *got = parity_host(layout.page_bytes);
    for (size_t i = 0; i < 2 * layout.page_bytes; i++)
        pages[i % 2][i / 2] = (char)rng_next(&parity.rng);
    char *from = parity_up(pages[0], layout.page_bytes);
    char *to = parity_up(pages[1], layout.page_bytes);
    cuda_kv_copy(parity.device, &layout, to, from, TOKENS);
    parity_down(got, to, layout.page_bytes);
    part_want(&layout, pages[1], pages[0], TOKENS);
    parity_tell(parity_same(got, pages[1], layout.page_bytes), "kv_copy %s of %d tokens",
                kernels_kv_type_name(type), TOKENS);
    parity_drop(from), parity_drop(to);
    free(pages[0]), free(pages[1]), free(got);
}

void gpu_parity_pages(void)
{
    check_copies();
    check_part(KV_TYPE_F16), check_part(KV_TYPE_BF16);
    check_part(KV_TYPE_I8), check_part(KV_TYPE_FP8);
}
