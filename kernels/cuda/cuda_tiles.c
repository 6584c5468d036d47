#include "kernels/cuda/cuda_tiles.h"

#include <stdbool.h>

/* Blocks that a multiprocessor should get: two at a time, two rounds. */
enum { TILES_BLOCKS = 4 };

size_t cuda_tiles_bytes(uint32_t rows_max, uint32_t processors)
{
    /* A work for each row alone, one for every two that share, and those that the division adds. */
    const size_t works = (size_t)rows_max + rows_max / 2 + TILES_BLOCKS * (size_t)processors;
    return sizeof(struct cuda_tiles_head) + works * sizeof(struct cuda_tiles_work) +
           rows_max * sizeof(struct cuda_tiles_row);
}

static struct cuda_tiles_work *tiles_works(struct cuda_tiles_head *head)
{
    return (struct cuda_tiles_work *)(head + 1);
}

static struct cuda_tiles_row *tiles_rows(struct cuda_tiles_head *head)
{
    return (struct cuda_tiles_row *)(tiles_works(head) + head->works);
}

static uint32_t tiles_segments(uint32_t keys)
{
    return (keys + CUDA_PLAN_SEGMENT - 1) / CUDA_PLAN_SEGMENT;
}

/* Returns the number of segments that are hidden from a row at that position, and from all later
 * rows. */
static uint32_t tiles_hidden(const struct cuda_tiles_args *args, uint32_t position)
{
    const bool is_all_seen = args->window == 0 || position < args->window;
    return is_all_seen ? 0 : (position + 1 - args->window) / CUDA_PLAN_SEGMENT;
}

static uint32_t tiles_row(const struct cuda_tiles_args *args, uint32_t index)
{
    return args->groups != NULL ? args->groups->order[index] : index;
}

/* Forms tiles of rows of one sequence at rising positions, as many as a block takes. Each tile is a
 * work over all keys that its rows see. */
static void tiles_alone(const struct cuda_tiles_args *args, struct cuda_tiles_head *out)
{
    const uint32_t most = CUDA_PLAN_QUERIES / args->group;
    struct cuda_tiles_work *tile = tiles_works(out) - 1;
    out->works = 0;
    for (uint32_t i = 0; i < args->count; i++) {
        const struct cuda_plan_row row = args->rows[tiles_row(args, i)];
        const struct cuda_plan_row before = args->rows[tiles_row(args, i > 0 ? i - 1 : 0)];
        if (i == 0 || tile->rows == most || row.table != before.table ||
            row.position <= before.position) {
            const uint32_t common = args->groups != NULL && row.table != before.table
                                        ? args->groups->shared[i] / CUDA_PLAN_SEGMENT
                                        : 0;
            *++tile = (struct cuda_tiles_work){.first = i,
                                               .begin = tiles_hidden(args, row.position),
                                               .least = row.position,
                                               .common = common,
                                               .is_whole = 1};
            out->works++;
        }
        tile->rows++;
        tile->keys = row.position + 1;
        tile->end = tiles_segments(tile->keys);
    }
}

/* Makes tiles [begin, end) read their common first segments in one work, `shared`. */
static void tiles_join(struct cuda_tiles_work *tiles, uint32_t begin, uint32_t end,
                       struct cuda_tiles_work *shared)
{
    for (uint32_t i = begin; i < end; i++) {
        shared->begin = tiles[i].begin < shared->begin ? tiles[i].begin : shared->begin;
        tiles[i].begin = shared->end;
        tiles[i].is_whole = 0;
        shared->least = tiles[i].least < shared->least ? tiles[i].least : shared->least;
    }
    shared->is_whole = 0;
    shared->keys = shared->end * CUDA_PLAN_SEGMENT;
}

/* Joins neighbours with common segments as long as that saves reading: the common segments are read
 * once, from the first that any of the n tiles sees, instead of n times. */
static void tiles_share(const struct cuda_tiles_args *args, struct cuda_tiles_head *out)
{
    const uint32_t most = CUDA_PLAN_QUERIES / args->group;
    struct cuda_tiles_work *tiles = tiles_works(out);
    const uint32_t count = out->works;
    uint32_t next;
    for (uint32_t i = 0; i < count; i = next) {
        struct cuda_tiles_work shared = tiles[i];
        uint64_t begins = shared.begin;
        uint64_t saved = 0;
        uint32_t earliest = shared.begin;
        uint32_t latest = shared.begin;
        shared.end = UINT32_MAX;
        for (next = i + 1; next < count; next++) {
            const uint32_t begin = tiles[next].begin;
            const uint32_t end = tiles[next].common < shared.end ? tiles[next].common : shared.end;
            earliest = begin < earliest ? begin : earliest;
            latest = begin > latest ? begin : latest;
            begins += begin;
            if (shared.rows + tiles[next].rows > most || end <= latest)
                break;
            const uint64_t saves = (uint64_t)(next - i) * end - (begins - earliest);
            if (saves < saved)
                break;
            saved = saves;
            shared.rows += tiles[next].rows;
            shared.end = end;
        }
        if (next == i + 1)
            continue;
        tiles_join(tiles, i, next, &shared);
        tiles[out->works++] = shared;
    }
}

/* Divides works into parts of about equal length, enough for all multiprocessors. Drops works
 * without segments. */
static void tiles_cut(const struct cuda_tiles_args *args, struct cuda_tiles_head *out)
{
    struct cuda_tiles_work *works = tiles_works(out);
    const uint64_t wanted = (uint64_t)TILES_BLOCKS * args->processors;
    uint64_t segments = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < out->works; i++) {
        segments += works[i].end - works[i].begin;
        if (works[i].end > works[i].begin)
            works[count++] = works[i];
    }
    const uint64_t each = (segments * args->kv_heads + wanted - 1) / wanted;
    uint32_t parts = 0;
    for (uint32_t i = 0; i < count; i++)
        parts += (uint32_t)((works[i].end - works[i].begin + each - 1) / each);
    out->works = parts;
    /* from the end, because a part never comes before its whole */
    for (uint32_t i = count; i-- > 0;) {
        const struct cuda_tiles_work work = works[i];
        const uint32_t length = work.end - work.begin;
        const uint32_t of = (uint32_t)((length + each - 1) / each);
        for (uint32_t p = of; p-- > 0;) {
            struct cuda_tiles_work *part = &works[--parts];
            *part = work;
            part->begin = work.begin + (uint32_t)((uint64_t)length * p / of);
            part->end = work.begin + (uint32_t)((uint64_t)length * (p + 1) / of);
            part->is_whole = work.is_whole && of == 1;
            if (part->end * CUDA_PLAN_SEGMENT < part->keys)
                part->keys = part->end * CUDA_PLAN_SEGMENT;
        }
    }
}

/* Writes the rows after the works, with indexes for the states of rows whose works are not whole.
 */
static void tiles_place(const struct cuda_tiles_args *args, struct cuda_tiles_head *out)
{
    const struct cuda_tiles_work *works = tiles_works(out);
    struct cuda_tiles_row *rows = tiles_rows(out);
    uint64_t states = 0;
    out->rows = args->count;
    for (uint32_t i = 0; i < args->count; i++)
        rows[i] =
            (struct cuda_tiles_row){tiles_row(args, i), CUDA_TILES_NONE,
                                    tiles_hidden(args, args->rows[tiles_row(args, i)].position)};
    for (uint32_t w = 0; w < out->works; w++)
        for (uint32_t i = 0; i < works[w].rows && !works[w].is_whole; i++) {
            struct cuda_tiles_row *row = &rows[works[w].first + i];
            if (row->states != CUDA_TILES_NONE)
                continue;
            row->states = (uint32_t)states;
            states += tiles_segments(args->rows[row->row].position + 1) - row->segment;
        }
    out->states = states < CUDA_TILES_NONE ? (uint32_t)states : CUDA_TILES_NONE;
    out->bytes = (uint32_t)((char *)(rows + args->count) - (char *)out);
}

void cuda_tiles_plan(const struct cuda_tiles_args *args, struct cuda_tiles_head *out)
{
    *out = (struct cuda_tiles_head){0};
    tiles_alone(args, out);
    if (args->groups != NULL)
        tiles_share(args, out);
    tiles_cut(args, out);
    tiles_place(args, out);
    if (out->states <= args->states_max)
        return;
    tiles_alone(args, out);
    tiles_place(args, out);
}

uint32_t cuda_tiles_bucket(uint32_t works)
{
    uint32_t bucket = 1;
    while (bucket < works)
        bucket += bucket < 2 || (bucket & (bucket - 1)) != 0 ? (bucket + 2) / 3 : bucket / 2;
    return bucket;
}

uint64_t cuda_tiles_keys(const struct cuda_tiles_head *head)
{
    const struct cuda_tiles_work *works = cuda_tiles_works(head);
    uint64_t keys = 0;
    for (uint32_t w = 0; w < head->works; w++)
        keys += works[w].keys - works[w].begin * CUDA_PLAN_SEGMENT;
    return keys;
}
