#include "engine/kv/kv_open.h"

#include "config/base/mem.h"

enum { GROUP_NONE = UINT32_MAX };

enum status kv_open_init(struct kv_open *open, struct kernels *kernels,
                         const struct kv_layout *layout, uint32_t places, uint32_t rows_max)
{
    *open = (struct kv_open){.kernels = kernels};
    if (layout->open_bytes == 0)
        return STATUS_OK;
    open->groups = rows_max / KV_GROUP_TOKENS;
    open->places_count = places;
    open->places = mem_zalloc(places, sizeof(*open->places));
    open->memory = kernels_buffer_create(kernels, kv_open_bytes(open, layout));
    if (open->places == NULL || open->memory == NULL) {
        kv_open_deinit(open);
        FAIL(STATUS_NO_MEMORY, "no memory for the open groups of %u sequences", places);
    }
    return STATUS_OK;
}

void kv_open_deinit(struct kv_open *open)
{
    if (open->memory != NULL)
        kernels_buffer_destroy(open->kernels, open->memory);
    mem_free(open->places);
    *open = (struct kv_open){0};
}

size_t kv_open_bytes(const struct kv_open *open, const struct kv_layout *layout)
{
    return (2 * (size_t)open->places_count + open->groups) * layout->open_bytes;
}

void kv_open_begin(struct kv_open *open)
{
    open->groups_used = 0;
}

/* Which of its slot's two groups a sequence continues or begins. */
static uint32_t find_side(struct kv_open_place *at, uint64_t serial, uint32_t first)
{
    const uint32_t group = first / KV_GROUP_TOKENS;
    if (at->serial != serial)
        *at = (struct kv_open_place){serial, {GROUP_NONE, GROUP_NONE}};
    for (uint32_t side = 0; side < 2; side++)
        if (at->group[side] == group)
            return side;
    ASSERT(first % KV_GROUP_TOKENS == 0);
    /* The group before may be continued: drafts that ended in this group may have been rejected. */
    const uint32_t side = group > 0 && at->group[0] == group - 1 ? 1 : 0;
    at->group[side] = group;
    return side;
}

void kv_open_find(struct kv_open *open, uint32_t place, uint64_t serial, uint32_t first,
                  uint32_t rows, uint32_t *open_of)
{
    ASSERT(place < open->places_count);
    struct kv_open_place *at = &open->places[place];
    const uint32_t side = find_side(at, serial, first);
    const uint32_t begin = first / KV_GROUP_TOKENS;
    const uint32_t end = (first + rows - 1) / KV_GROUP_TOKENS;
    if (end > begin)
        at->group[1 - side] = end;
    for (uint32_t i = 0; i < rows; i++) {
        const uint32_t group = (first + i) / KV_GROUP_TOKENS;
        if (group == begin) {
            open_of[i] = 2 * place + side;
        } else if (group == end) {
            open_of[i] = 2 * place + 1 - side;
        } else {
            ASSERT(open->groups_used < open->groups || (first + i) % KV_GROUP_TOKENS > 0);
            open->groups_used += (first + i) % KV_GROUP_TOKENS == 0;
            open_of[i] = 2 * open->places_count + open->groups_used - 1;
        }
    }
}
